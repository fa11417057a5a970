//! A turn that waits for a decision: kept over a restart, holding no slot, open to commands
//! (spec 13 D).

use serde_json::json;
use skep_testkit::{Reply, WsClient};

use crate::stage::{Play, Stage};
use crate::telling::{calls, frames};

const ONE_SLOT: &str = "limits:\n  concurrent_turns: 1\n";

/// Asks for a decision wherever the text says so, else answers.
fn script(stage: &Stage) {
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match request.steps_done() == 0 && text.contains("needs a decision") {
            true => Reply::new().text("I ask.").tool("ask_person", json!({"text": "the cake"})),
            false => Reply::say("answered"),
        }
    });
}

/// Sends m1, whose turn then waits; its turn and call.
async fn waiting(play: &Play, client: &mut WsClient) -> (String, String) {
    client.say("m1", "this needs a decision").await.unwrap();
    client.next_of("ack").await.unwrap();
    play.until_state("main", "m1", "waiting").await;
    let (turn, call, _) = calls(&play.history("main", client.channel()).await).remove(0);
    (turn, call)
}

#[tokio::test]
async fn engine_waiting_turn_holds_no_slot_and_survives_a_restart() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", ONE_SLOT);
    script(&stage);
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    let (turn, call) = waiting(&play, &mut client).await;
    // Another session is answered meanwhile, in the only slot there is.
    assert_eq!(play.ask("main", "hello").await["response"]["content"], "answered");
    let turns = play.state().await["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 1, "{turns}");
    assert_eq!(turns[0]["state"], "waiting");
    assert_eq!(turns[0]["waiting_for"], "a decision on: the cake");
    // Whoever writes meanwhile is told why nothing comes.
    client.say("m2", "any news?").await.unwrap();
    let ack = client.find("ack of m2", |frame| frame["message_id"] == "m2").await.unwrap();
    assert_eq!(
        (&ack["state"], &ack["note"]),
        (&json!("waiting"), &json!("a decision on: the cake"))
    );
    client.say("m3", "/status").await.unwrap();
    let status = client.answer_to("m3").await.unwrap();
    let status = status["content"].as_str().unwrap();
    for entry in ["turn          waiting: a decision on: the cake", "queued        1 message\n"] {
        assert!(status.contains(entry), "{status}");
    }
    assert_eq!(stage.effects.total().unwrap(), 0);

    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    assert_eq!(play.state().await["turns"][0]["state"], "waiting");
    assert_eq!(play.look_at("main", "m1").await["state"], "waiting");
    assert_eq!(play.ask("main", "hello again").await["state"], "done");
    let since = client.durable().keys().max().copied().unwrap();
    let channel = client.channel().to_owned();
    let mut client = WsClient::connect(&play.target().resume(&channel, since)).await.unwrap();
    assert_eq!(play.decide(&turn, &call, json!("yes")).await, 204);
    client.answer_to("m1").await.unwrap();
    // The decided call ends a step, at which the message that waited joins the turn.
    assert_eq!(frames(&client), ["response m1,m2: answered"]);
    assert_eq!(
        play.told("main", &channel).await,
        [
            "user this needs a decision",
            "assistant tool_use: I ask. + ask_person {\"text\":\"the cake\"}",
            "result ask_person: decided \"yes\"",
            "user any news?",
            "assistant end_turn: answered",
        ]
    );
    assert_eq!(stage.effects.counts().unwrap(), [(format!("{turn}/{call}"), 1)].into());
    assert_eq!(play.decide(&turn, &call, json!("yes")).await, 409, "decided once");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    // The model was asked once before and once after the decision, and for two hellos.
    assert_eq!(stage.model.requests().len(), 4);
}

#[tokio::test]
async fn engine_waiting_turn_is_ended_by_stop() {
    let stage = Stage::new().await;
    script(&stage);
    let play = stage.up().await;
    let mut client = play.ws().await;
    let (turn, call) = waiting(&play, &mut client).await;
    client.say("m2", "queued").await.unwrap();
    client.say("m3", "/stop").await.unwrap();
    client.answer_to("m2").await.unwrap();
    assert_eq!(
        frames(&client),
        [
            "ack m1 started",
            "ack m2 waiting",
            "ack m3 done",
            "response m3: Stopping the turn. Queued messages stay.",
            "error m1: cancelled",
            "response m2: answered",
        ]
    );
    let told = play.told("main", client.channel()).await;
    assert_eq!(
        told[2],
        "result! ask_person: cancelled: the call did not run, because the turn was stopped"
    );
    assert_eq!(play.decide(&turn, &call, json!("yes")).await, 409);
    assert_eq!(stage.effects.total().unwrap(), 0);
    assert_eq!(play.state().await["unknown_calls"], json!([]));
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_waiting_turn_is_ended_by_new() {
    let stage = Stage::new().await;
    script(&stage);
    let play = stage.up().await;
    for (command, last) in [("/new", "m3"), ("/new text of m2", "m2")] {
        let mut client = play.ws().await;
        let (turn, call) = waiting(&play, &mut client).await;
        let before = play.history("main", client.channel()).await[0]["sessionId"].clone();
        client.say("m2", command).await.unwrap();
        client.answer_to("m2").await.unwrap();
        client.say("m3", "text of m3").await.unwrap();
        client.answer_to("m3").await.unwrap();
        let told = frames(&client);
        assert!(told.contains(&"error m1: cancelled".to_owned()), "{command}: {told:?}");
        assert!(told.contains(&"response m3: answered".to_owned()), "{command}: {told:?}");
        let history = play.history("main", client.channel()).await;
        assert_ne!(history[0]["sessionId"], before, "{command}");
        let user = format!("text of {last}");
        assert_eq!(history[0]["content"][0]["text"], user, "{command}");
        assert_eq!(play.decide(&turn, &call, json!("yes")).await, 409);
    }
    assert_eq!(stage.effects.total().unwrap(), 0);
}

/// What `/new` begins must not be taken into the turn that runs in the old session.
#[tokio::test]
async fn engine_message_after_new_waits_for_the_running_turn_and_its_own_session() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().gate("go").tool("look", json!({})));
    stage.model.answer_with(|_| Reply::say("answered"));
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "first").await.unwrap();
    stage.model.gate("go").wait_arrived(1).await.unwrap();
    client.say("m2", "/new second").await.unwrap();
    client.find("ack of m2", |frame| frame["message_id"] == "m2").await.unwrap();
    stage.model.gate("go").release();
    client.answer_to("m2").await.unwrap();
    assert_eq!(frames(&client)[2..], ["response m1: answered", "response m2: answered"]);
    let told = play.told("main", client.channel()).await;
    assert_eq!(told, ["user second", "assistant end_turn: answered"]);
}

#[tokio::test]
async fn engine_parallel_decisions_each_run_their_call_once() {
    let stage = Stage::new().await;
    stage.model.push(
        Reply::new()
            .tool("ask_person", json!({"text": "one"}))
            .tool("effect", json!({"text": "between"}))
            .tool("ask_person", json!({"text": "two"})),
    );
    stage.model.push(Reply::say("all done"));
    let mut play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    play.until_state("main", &item, "waiting").await;
    let asked = calls(&play.history("main", "main").await);
    // The second first; in between the hive is killed.
    assert_eq!(play.decide(&asked[2].0, &asked[2].1, json!(2)).await, 204);
    play.until_history("main", "main", "the second decision", |rows| rows.len() == 4).await;
    play.until_state("main", &item, "waiting").await;
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    assert_eq!(play.decide(&asked[0].0, &asked[0].1, json!(1)).await, 204);
    assert_eq!(play.ended("main", &item).await["response"]["content"], "all done");
    assert_eq!(stage.effects.total().unwrap(), 3);
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
    // Results come before the model in the order of the calls, as they came in history.
    let results = stage.model.requests()[1].last_tool_results();
    let texts: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
    assert_eq!(texts, ["decided 1", "done between", "decided 2"]);
    let told = play.told("main", "main").await;
    assert_eq!(
        told[2..5],
        [
            "result effect: done between",
            "result ask_person: decided 2",
            "result ask_person: decided 1"
        ]
    );
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_decision_followed_by_a_crash_never_runs_its_call_twice() {
    let stage = Stage::new().await;
    script(&stage);
    let mut play = stage.up().await;
    for round in 0..4 {
        let session = format!("s{round}");
        let item = play.item("main", &session, "this needs a decision").await;
        play.until_state("main", &item, "waiting").await;
        let (turn, call, _) = calls(&play.history("main", &session).await).remove(0);
        assert_eq!(play.decide(&turn, &call, json!(round)).await, 204);
        play.hive.kill().await.unwrap();
        play = stage.up().await;
        let ended = play.ended("main", &item).await;
        assert_eq!(ended["response"]["content"], "answered", "{ended}");
        let told = play.told("main", &session).await;
        let done = stage.effects.counts().unwrap().get(&format!("{turn}/{call}")).copied();
        match told[2].starts_with("result! ask_person: outcome unknown") {
            true => assert!(done.unwrap_or(0) <= 1),
            false => assert_eq!(
                (told[2].clone(), done),
                (format!("result ask_person: decided {round}"), Some(1))
            ),
        }
    }
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
}
