//! Lanes when things meet: several channels in one session, crashes, stops and interrupts at any
//! moment. Every message ends exactly once, and order stays.

use std::time::{Duration, Instant};

use serde_json::json;
use skep_testkit::{ModelRequest, Reply, WsClient, ws};

use crate::stage::{Play, Stage};
use crate::telling::{assert_one_run_each, frames};

async fn say_in(client: &mut WsClient, session: &str, id: &str, mode: &str) {
    let text = format!("text of {id}");
    let frame = json!({"content": text, "id": id, "session": session, "mode": mode});
    client.send(&frame).await.unwrap();
    let ack = client.find("its ack", |frame| frame["message_id"] == id).await.unwrap();
    assert_eq!(ack["type"], "ack");
}

async fn back(play: &Play, client: &WsClient) -> WsClient {
    let since = client.durable().keys().max().copied().unwrap_or(0);
    WsClient::connect(&play.target().resume(client.channel(), since)).await.unwrap()
}

#[tokio::test]
async fn engine_answer_goes_to_every_channel_that_asked() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().gate("go").tool("look", json!({})));
    stage.model.push(Reply::say("to all of you"));
    let play = stage.up().await;
    let (mut one, mut two) = (play.ws().await, play.ws().await);
    say_in(&mut one, "shared", "a1", "queue").await;
    stage.model.gate("go").wait_arrived(1).await.unwrap();
    say_in(&mut two, "shared", "b1", "queue").await;
    let item = play.item("main", "shared", "over REST").await;
    say_in(&mut one, "shared", "a2", "queue").await;
    stage.model.gate("go").release();
    one.answer_to("a1").await.unwrap();
    two.answer_to("b1").await.unwrap();
    assert_eq!(frames(&one)[2..], ["response a1,a2: to all of you"]);
    assert_eq!(frames(&two)[1..], ["response b1: to all of you"]);
    let rest = play.ended("main", &item).await["response"].clone();
    let replies = ["a1", "b1", &item, "a2"];
    let told =
        json!({"content": "to all of you", "in_reply_to": replies, "stop_reason": "end_turn"});
    assert_eq!(rest, told);
}

#[tokio::test]
async fn engine_steered_messages_stay_with_their_turn_over_a_crash() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().gate("go").tool("effect", json!({"text": "x"})));
    stage.model.push(Reply::new().open_text().delta("half").gate("half"));
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    let session = client.channel().to_owned();
    say_in(&mut client, &session, "m1", "queue").await;
    stage.model.gate("go").wait_arrived(1).await.unwrap();
    for id in ["m2", "m3"] {
        say_in(&mut client, &session, id, "queue").await;
    }
    stage.model.gate("go").release();
    stage.model.gate("half").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::say("whole"));
    let play = stage.up().await;
    let mut client = back(&play, &client).await;
    client.answer_to("m3").await.unwrap();
    assert_eq!(frames(&client), ["response m1,m2,m3: whole"]);
    assert_eq!(
        play.told("main", &session).await,
        [
            "user text of m1",
            "assistant tool_use: effect {\"text\":\"x\"}",
            "result effect: done x",
            "user text of m2",
            "user text of m3",
            "assistant end_turn: whole",
        ]
    );
    let requests = stage.model.requests();
    assert_eq!(requests[1].raw, requests[2].raw, "asked again with the same bytes");
    assert_eq!(stage.effects.total().unwrap(), 1);
}

/// More than one step takes in: the rest come after, in order.
#[tokio::test]
async fn engine_many_steered_messages_keep_their_order() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().gate("go").tool("look", json!({})));
    stage.model.answer_with(|_| Reply::say("heard"));
    let play = stage.up().await;
    let mut client = play.ws().await;
    let session = client.channel().to_owned();
    let ids: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
    say_in(&mut client, &session, "m0", "queue").await;
    stage.model.gate("go").wait_arrived(1).await.unwrap();
    for id in &ids[1..] {
        say_in(&mut client, &session, id, "queue").await;
    }
    stage.model.gate("go").release();
    client.answer_to("m39").await.unwrap();
    let answers = client.durable().values().filter(|frame| ws::is_answer(frame));
    let named: Vec<Vec<&str>> = answers.map(|frame| ws::replies_to(frame).collect()).collect();
    assert_eq!(named[0].len(), 33);
    assert_eq!(named.concat(), ids);
    assert_one_run_each(&play.events().await);
}

#[tokio::test]
async fn engine_failed_turn_does_not_stop_the_queue() {
    let stage = Stage::new().await;
    stage.model.push(Reply::unauthorized().gate_first("go"));
    stage.model.answer_with(|_| Reply::say("fine"));
    let play = stage.up().await;
    for agent in ["main", "plain"] {
        let first = play.item(agent, "main", "first").await;
        if agent == "main" {
            stage.model.gate("go").wait_arrived(1).await.unwrap();
        }
        let second = play.item(agent, "main", "second").await;
        let third = play.item(agent, "main", "third").await;
        stage.model.gate("go").release();
        play.ended(agent, &first).await;
        for item in [second, third] {
            let ended = play.ended(agent, &item).await;
            assert_eq!(ended["response"]["content"], "fine", "{agent}: {ended}");
        }
    }
}

/// The wish to end is on record before anybody is told: a crash does not forget it.
#[tokio::test]
async fn engine_stop_and_interrupt_survive_a_crash_and_ask_no_model() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.last_user_text().contains("newer") {
        true => Reply::say("to the newer one"),
        false => Reply::new().text("I act.").tool("deaf", json!({})),
    });
    let mut play = stage.up().await;
    let stopped = play.item("main", "stopped", "older").await;
    let interrupted = play.item("main", "interrupted", "older").await;
    for session in ["stopped", "interrupted"] {
        play.until_history("main", session, "the call", |rows| rows.len() == 2).await;
    }
    // Both tools are deaf: the turns are still open when the hive is killed.
    assert!(play.stop("main", "stopped").await);
    let newer = play.tell_mode("main", "interrupted", "newer", "interrupt").await;
    play.hive.kill().await.unwrap();
    let before = stage.model.requests().len();
    let play = stage.up().await;
    let newer = play.ended("main", newer["item_id"].as_str().unwrap()).await;
    assert_eq!(newer["response"]["content"], "to the newer one");
    assert_eq!(play.ended("main", &stopped).await["error"]["code"], "cancelled");
    assert_eq!(play.ended("main", &interrupted).await["error"]["code"], "interrupted");
    assert_eq!(stage.model.requests().len(), before + 1, "only the newer message is asked about");
    for session in ["stopped", "interrupted"] {
        let told = play.told("main", session).await;
        assert!(told[2].starts_with("result! deaf: outcome unknown"), "{told:?}");
    }
    assert_eq!(play.state().await["unknown_calls"].as_array().unwrap().len(), 2);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_turn_that_waits_for_the_vendor_goes_on_after_a_restart() {
    let stage = Stage::new().await;
    stage.model.push(Reply::rate_limited(Some("2")));
    let mut play = stage.up().await;
    let begun = Instant::now();
    let item = play.item("main", "main", "go").await;
    play.until_state("main", &item, "waiting").await;
    play.hive.kill().await.unwrap();
    stage.model.answer_with(|_| Reply::say("at last"));
    let play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["response"]["content"], "at last");
    assert!(begun.elapsed() >= Duration::from_secs(2), "not before its time");
    assert_eq!(stage.model.requests().len(), 2);
}

/// A turn between two leases has no task: it is ended all the same, at once.
#[tokio::test]
async fn engine_stop_and_interrupt_reach_a_turn_that_rests_before_its_next_try() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.last_user_text().contains("newer") {
        true => Reply::say("to the newer one"),
        false => Reply::overloaded(),
    });
    stage.write("skep.yaml", "limits:\n  attempts: 1000\n");
    let play = stage.up().await;
    for round in 0..6 {
        let session = format!("s{round}");
        let older = play.item("main", &session, "older").await;
        play.until_state("main", &older, "pending").await;
        if round % 2 == 0 {
            assert!(play.stop("main", &session).await);
            assert_eq!(play.ended("main", &older).await["error"]["code"], "cancelled");
        } else {
            let newer = play.tell_mode("main", &session, "newer", "interrupt").await;
            assert_eq!(play.ended("main", &older).await["error"]["code"], "interrupted");
            let newer = play.ended("main", newer["item_id"].as_str().unwrap()).await;
            assert_eq!(newer["response"]["content"], "to the newer one");
        }
    }
    let work = &play.state().await["work"];
    assert_eq!(work, &json!({"running": 0, "waiting": 0, "queued": 0}));
}

fn busy(request: &ModelRequest) -> Reply {
    let pause = Duration::from_millis(request.raw.len() as u64 % 5);
    match request.steps_done() {
        0 => Reply::new().text("I ").tool("effect", json!({"ms": 1})).delay_first(pause),
        1 => Reply::call("look", json!({"ms": 2})),
        _ => Reply::new().text_in(["do", "ne"]).delay_first(pause),
    }
}

#[tokio::test]
async fn engine_stops_at_any_moment_leave_one_end_for_each_message() {
    let stage = Stage::new().await;
    stage.model.answer_with(busy);
    let play = stage.up().await;
    let mut client = play.ws().await;
    let session = client.channel().to_owned();
    let rounds = if skep_testkit::all() { 300 } else { 40 };
    for round in 0..rounds {
        let id = format!("m{round}");
        client.say(&id, "go").await.unwrap();
        // From "before its turn began" to "after it ended".
        tokio::time::sleep(Duration::from_millis(round % 20)).await;
        match round % 3 {
            0 => client.send(&json!({"type": "interrupt"})).await.unwrap(),
            1 => client.say(&format!("stop{round}"), "/stop").await.unwrap(),
            _ => drop(play.stop("main", &session).await),
        }
        let end = client.answer_to(&id).await.unwrap();
        assert!(end["type"] == "response" || end["code"] == "cancelled", "{end}");
    }
    settle(&play, &client, rounds).await;
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_storm_of_interrupts_leaves_one_end_for_each_message() {
    let stage = Stage::new().await;
    stage.model.answer_with(busy);
    let play = stage.up().await;
    let mut client = play.ws().await;
    let rounds = if skep_testkit::all() { 300 } else { 60 };
    for round in 0..rounds {
        let mode = if round % 4 == 3 { "queue" } else { "interrupt" };
        let message = json!({"content": "go", "id": format!("m{round}"), "mode": mode});
        client.send(&message).await.unwrap();
        tokio::time::sleep(Duration::from_millis(round % 9)).await;
    }
    client.answer_to(&format!("m{}", rounds - 1)).await.unwrap();
    settle(&play, &client, rounds).await;
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// Each message m0, m1… of this socket was answered once and in order; nothing is left.
async fn settle(play: &Play, client: &WsClient, rounds: u64) {
    let answers = client.durable().values().filter(|frame| ws::is_answer(frame));
    let named = answers.flat_map(ws::replies_to).filter(|id| id.starts_with('m'));
    let expected: Vec<String> = (0..rounds).map(|round| format!("m{round}")).collect();
    assert_eq!(named.collect::<Vec<_>>(), expected);
    let work = &play.state().await["work"];
    assert_eq!(work, &json!({"running": 0, "waiting": 0, "queued": 0}));
    assert_one_run_each(&play.events().await);
}
