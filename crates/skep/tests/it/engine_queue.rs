//! A message that arrives while a turn runs: queue, steer, interrupt, stop (spec 03 §2, 13 D).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use skep_testkit::model::Ending;
use skep_testkit::{ModelRequest, Reply, WsClient, wait, ws};

use crate::stage::{Play, Stage};
use crate::telling::{assert_one_run_each, frames};

/// Sends a message of this channel's session, with a wish where one is given.
async fn say(client: &mut WsClient, agent: &str, id: &str, mode: Option<&str>) {
    let mut frame = json!({"content": format!("text of {id}"), "id": id, "agent": agent});
    if let Some(mode) = mode {
        frame["mode"] = mode.into();
    }
    client.send(&frame).await.unwrap();
    let ack = client.next_of("ack").await.unwrap();
    assert_eq!(ack["message_id"], id);
}

/// Answers with the texts of the user messages since the model last had the word.
fn echo(request: &ModelRequest) -> Reply {
    Reply::say(&format!("heard {}", heard(request).join(", ")))
}

fn heard(request: &ModelRequest) -> Vec<String> {
    let messages = request.messages();
    let last_final = messages.iter().rposition(|message| {
        let blocks = message["content"].as_array();
        let calls = |block: &Value| block["type"] == "tool_use";
        message["role"] == "assistant" && !blocks.is_some_and(|blocks| blocks.iter().any(calls))
    });
    let since = &messages[last_final.map_or(0, |at| at + 1)..];
    let blocks = since.iter().filter(|message| message["role"] == "user");
    let texts = blocks.flat_map(|message| message["content"].as_array().unwrap());
    let texts = texts.filter_map(|block| block["text"].as_str());
    texts.filter(|text| !text.starts_with('[')).map(str::to_owned).collect()
}

#[tokio::test]
async fn engine_steered_messages_join_the_turn_and_one_response_names_all() {
    let stage = Stage::new().await;
    stage
        .model
        .push(Reply::new().text("I look.").gate("looking").tool("look", json!({"text": "a"})));
    stage.model.answer_with(echo);
    let play = stage.up().await;
    let mut client = play.ws().await;
    say(&mut client, "main", "m1", None).await;
    stage.model.gate("looking").wait_arrived(1).await.unwrap();
    say(&mut client, "main", "m2", None).await;
    say(&mut client, "main", "m3", Some("queue")).await;
    stage.model.gate("looking").release();
    client.answer_to("m1").await.unwrap();
    assert_eq!(
        frames(&client),
        [
            "ack m1 started",
            "ack m2 queued",
            "ack m3 queued",
            "response m1,m2,m3: heard text of m1, text of m2, text of m3",
        ]
    );
    assert_eq!(
        play.told("main", client.channel()).await,
        [
            "user text of m1",
            "assistant tool_use: I look. + look {\"text\":\"a\"}",
            "result look: looked at a",
            "user text of m2",
            "user text of m3",
            "assistant end_turn: heard text of m1, text of m2, text of m3",
        ]
    );
    assert_eq!(stage.model.requests().len(), 2);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    assert_one_run_each(&play.events().await);
}

/// Steps whose calls only look are written with the next one: while the model takes its time they
/// are there all the same, and whoever speaks meanwhile joins behind them.
#[tokio::test]
async fn engine_steps_that_only_look_are_on_record_while_the_model_thinks() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().tool("look", json!({"text": "a"})));
    stage.model.push(Reply::new().tool("look", json!({"text": "b"})).gate_first("thinking"));
    stage.model.answer_with(echo);
    let play = stage.up().await;
    let mut client = play.ws().await;
    say(&mut client, "main", "m1", None).await;
    stage.model.gate("thinking").wait_arrived(1).await.unwrap();
    let looked = [
        "user text of m1",
        "assistant tool_use: look {\"text\":\"a\"}",
        "result look: looked at a",
    ];
    let key = client.channel().to_owned();
    let seen = async || (play.told("main", &key).await == looked).then_some(());
    wait::until_async("the first step in the history", wait::PATIENCE, seen).await.unwrap();
    say(&mut client, "main", "m2", None).await;
    stage.model.gate("thinking").release();
    client.answer_to("m2").await.unwrap();
    let told = play.told("main", client.channel()).await;
    assert_eq!(told[..3], looked);
    assert_eq!(
        told[3..],
        [
            "assistant tool_use: look {\"text\":\"b\"}",
            "result look: looked at b",
            "user text of m2",
            "assistant end_turn: heard text of m1, text of m2",
        ]
    );
    assert_eq!(stage.model.requests().len(), 3);
    assert_one_run_each(&play.events().await);
}

#[tokio::test]
async fn engine_what_is_pending_when_the_last_call_ends_is_the_next_turn() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("first").gate("half").delta(" answer").close());
    stage.model.answer_with(echo);
    let play = stage.up().await;
    let mut client = play.ws().await;
    say(&mut client, "main", "m1", None).await;
    stage.model.gate("half").wait_arrived(1).await.unwrap();
    say(&mut client, "main", "m2", None).await;
    stage.model.gate("half").release();
    client.answer_to("m2").await.unwrap();
    assert_eq!(
        frames(&client),
        [
            "ack m1 started",
            "ack m2 queued",
            "response m1: first answer",
            "response m2: heard text of m2",
        ]
    );
    assert_one_run_each(&play.events().await);
}

/// Agent, its queue_mode, the wish of the message that arrives, and whether it interrupts.
const MATRIX: &[(&str, Option<&str>, bool)] = &[
    ("main", None, false),
    ("main", Some("queue"), false),
    ("main", Some("interrupt"), true),
    ("eager", None, true),
    ("eager", Some("queue"), false),
    ("eager", Some("interrupt"), true),
    ("plain", None, false),
    ("plain", Some("queue"), false),
    ("plain", Some("interrupt"), false),
    ("blunt-eager", None, false),
    ("blunt-eager", Some("queue"), false),
    ("blunt-eager", Some("interrupt"), false),
];

#[tokio::test]
async fn engine_queue_and_interrupt_matrix() {
    let stage = Stage::new().await;
    stage.write("teams/eager/config.yaml", "queue_mode: interrupt\nallowed_tools: ['*']\n");
    stage.write(
        "teams/blunt-eager/config.yaml",
        "engine: blunt\nqueue_mode: interrupt\nallowed_tools: ['*']\n",
    );
    stage.model.answer_with(|request| match request.last_user_text().contains("text of m1") {
        true => Reply::new().open_text().delta("part").gate("half").delta(" and rest").close(),
        false => echo(request),
    });
    let play = stage.up().await;
    for (at, (agent, wish, interrupts)) in MATRIX.iter().enumerate() {
        let case = format!("{agent} {wish:?}");
        let mut client = play.ws().await;
        say(&mut client, agent, "m1", None).await;
        stage.model.gate("half").wait_arrived(at + 1).await.unwrap();
        let number = stage.model.requests().len();
        say(&mut client, agent, "m2", *wish).await;
        if *interrupts {
            assert_eq!(stage.model.wait_for_end(number).await.unwrap(), Ending::HungUp, "{case}");
        } else {
            assert_eq!(stage.model.in_flight(), 1, "{case}");
            stage.model.gate("half").release();
        }
        client.answer_to("m2").await.unwrap();
        let (end, kept) = match interrupts {
            true => ("error m1: interrupted", "assistant interrupted: part"),
            false => ("response m1: part and rest", "assistant end_turn: part and rest"),
        };
        let expected = ["ack m1 started", "ack m2 queued", end, "response m2: heard text of m2"];
        assert_eq!(frames(&client), expected, "{case}");
        let told = play.told(agent, client.channel()).await;
        let expected =
            ["user text of m1", kept, "user text of m2", "assistant end_turn: heard text of m2"];
        assert_eq!(told, expected, "{case}");
    }
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    assert_one_run_each(&play.events().await);
}

#[tokio::test]
async fn engine_that_can_neither_takes_queued_messages_one_turn_each() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().text("I look.").gate("looking").tool("look", json!({})));
    stage.model.answer_with(echo);
    let play = stage.up().await;
    let mut client = play.ws().await;
    say(&mut client, "plain", "m1", None).await;
    stage.model.gate("looking").wait_arrived(1).await.unwrap();
    say(&mut client, "plain", "m2", None).await;
    say(&mut client, "plain", "m3", Some("interrupt")).await;
    stage.model.gate("looking").release();
    client.answer_to("m3").await.unwrap();
    assert_eq!(
        frames(&client)[3..],
        [
            "response m1: heard text of m1",
            "response m2: heard text of m2",
            "response m3: heard text of m3",
        ]
    );
    assert_one_run_each(&play.events().await);
}

#[tokio::test]
async fn engine_interrupt_ends_the_running_turn_alone_and_lane_order_stays() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("partial").gate("half").close());
    stage.model.push(Reply::say("second"));
    stage.model.push(Reply::say("third"));
    let play = stage.up().await;
    let mut client = play.ws().await;
    say(&mut client, "main", "m1", None).await;
    stage.model.gate("half").wait_arrived(1).await.unwrap();
    say(&mut client, "main", "m2", Some("queue")).await;
    say(&mut client, "main", "m3", Some("interrupt")).await;
    client.answer_to("m3").await.unwrap();
    assert_eq!(
        frames(&client)[3..],
        ["error m1: interrupted", "response m2: second", "response m3: third"]
    );
    assert_eq!(stage.model.wait_for_end(1).await.unwrap(), Ending::HungUp);
    // What was said before the interruption stays before the model's eyes.
    let second = &stage.model.requests()[1];
    assert_eq!(second.messages()[1]["content"][0]["text"], "partial");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// The newer message must never be taken into the turn it ends, however the two meet.
#[tokio::test]
async fn engine_interrupt_at_a_step_boundary_never_swallows_the_newer_message() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.last_user_text() {
        text if text.contains("new") => Reply::say("to the new one"),
        _ => Reply::call("look", json!({"ms": request.steps_done() % 3})),
    });
    stage.write("teams/main/config.yaml", "allowed_tools: ['*']\nmax_steps: 10000\n");
    let play = stage.up().await;
    for round in 0..if skep_testkit::all() { 200 } else { 25 } {
        let session = format!("s{round}");
        let old = play.item("main", &session, "old").await;
        play.until_history("main", &session, "a step", |rows| rows.len() > 1 + round % 5).await;
        let new = play.tell_mode("main", &session, "new", "interrupt").await;
        let ended = play.ended("main", &old).await;
        assert_eq!(ended["error"]["code"], "interrupted", "{ended}");
        let answered = play.ended("main", new["item_id"].as_str().unwrap()).await;
        assert_eq!(answered["response"]["content"], "to the new one", "{answered}");
    }
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

/// A small generator: every run sees the same delays.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit
    }
}

#[tokio::test]
async fn engine_twenty_sessions_of_twenty_messages_keep_order_and_answer_each_once() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let size = request.raw.len() as u64;
        let pause = Duration::from_millis(size % 7);
        match request.steps_done() == 0 && size.is_multiple_of(3) {
            true => Reply::call("look", json!({"text": "x", "ms": size % 11})).delay_first(pause),
            false => echo(request).delay_first(pause),
        }
    });
    let play = stage.up().await;
    let sessions = (0..20).map(|session| chat(&play, session));
    futures_util::future::join_all(sessions).await;
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    let work = &play.state().await["work"];
    assert_eq!(work, &json!({"running": 0, "waiting": 0, "queued": 0}));
    assert_one_run_each(&play.events().await);
}

async fn chat(play: &Play, session: u64) {
    let mut chance = Chance(session + 1);
    let agent = if session.is_multiple_of(4) { "plain" } else { "main" };
    let mut client = play.ws().await;
    let ids: Vec<String> = (0..20).map(|number| format!("s{session}-m{number}")).collect();
    for id in &ids {
        tokio::time::sleep(Duration::from_millis(chance.below(30))).await;
        let frame = json!({"content": format!("text of {id}"), "id": id, "agent": agent});
        client.send(&frame).await.unwrap();
    }
    let mut answered: BTreeMap<String, usize> = BTreeMap::new();
    while answered.len() < ids.len() {
        let frame = client.next().await.unwrap().unwrap();
        if ws::is_answer(&frame) {
            assert_eq!(frame["type"], "response", "{frame}");
            let named: Vec<&str> = ws::replies_to(&frame).collect();
            // The answer speaks of the messages it names, of all of them, in their order.
            let texts: Vec<String> = named.iter().map(|id| format!("text of {id}")).collect();
            assert_eq!(frame["content"], format!("heard {}", texts.join(", ")));
            named.iter().for_each(|id| *answered.entry((*id).to_owned()).or_default() += 1);
        }
    }
    assert!(answered.values().all(|count| *count == 1), "{answered:?}");
    let durable = client.durable().values();
    let acked = durable.clone().filter(|frame| frame["type"] == "ack");
    assert_eq!(acked.map(|ack| ack["message_id"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    let order = durable.filter(|frame| ws::is_answer(frame)).flat_map(ws::replies_to);
    assert_eq!(order.collect::<Vec<_>>(), ids);
    let told = play.told(agent, client.channel()).await;
    let users: Vec<&str> =
        told.iter().filter_map(|row| row.strip_prefix("user text of ")).collect();
    assert_eq!(users, ids);
}

#[tokio::test]
async fn engine_two_messages_at_the_same_instant_never_start_two_runs() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| echo(request).delay_first(Duration::from_millis(3)));
    let play = stage.up().await;
    for round in 0..20 {
        let session = format!("s{round}");
        let agent = if round % 2 == 0 { "main" } else { "plain" };
        let (one, two, three) = tokio::join!(
            play.tell(agent, &session, "one"),
            play.tell(agent, &session, "two"),
            play.tell(agent, &session, "three"),
        );
        let receipts = [one, two, three];
        let started = receipts.iter().filter(|receipt| receipt["state"] == "started").count();
        assert_eq!(started, 1, "{receipts:?}");
        for receipt in &receipts {
            let ended = play.ended(agent, receipt["item_id"].as_str().unwrap()).await;
            assert_eq!(ended["state"], "done", "{ended}");
        }
    }
    assert_one_run_each(&play.events().await);
}

#[tokio::test]
async fn engine_stop_during_text_keeps_what_was_said() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.last_user_text().contains("text of m1") {
        true => Reply::new()
            .thinking("signed thought")
            .text("so far")
            .open_tool("effect")
            .delta("{\"text\":")
            .gate("half"),
        false => echo(request),
    });
    let play = stage.up().await;
    // A person may stop any engine, also one that a newer message cannot interrupt.
    for (number, agent) in [(1, "main"), (3, "plain")] {
        let mut client = play.ws().await;
        say(&mut client, agent, "m1", None).await;
        stage.model.gate("half").wait_arrived(number.min(2)).await.unwrap();
        say(&mut client, agent, "m2", None).await;
        let begun = wait::Stopwatch::start();
        client.send(&json!({"type": "interrupt", "agent": agent})).await.unwrap();
        assert_eq!(stage.model.wait_for_end(number).await.unwrap(), Ending::HungUp, "{agent}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{agent}");
        client.answer_to("m2").await.unwrap();
        // The queue goes on: a stop ends the running turn alone.
        let expected = ["error m1: cancelled", "response m2: heard text of m2"];
        assert_eq!(frames(&client)[2..], expected, "{agent}");
        assert_eq!(
            play.told(agent, client.channel()).await,
            [
                "user text of m1",
                "assistant cancelled: (signed thought) + so far",
                "user text of m2",
                "assistant end_turn: heard text of m2",
            ]
        );
        assert_eq!(play.look_at(agent, "m1").await["state"], "cancelled");
        assert!(!play.stop(agent, client.channel()).await, "nothing is running any more");
    }
    assert_eq!(stage.effects.total().unwrap(), 0);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_stop_during_a_tool_gives_every_call_its_last_word() {
    let stage = Stage::new().await;
    stage.model.push(
        Reply::new()
            .tool("effect", json!({"text": "quick"}))
            .tool("deaf", json!({"text": "slow"}))
            .tool("effect", json!({"text": "never"})),
    );
    stage.model.answer_with(echo);
    let play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    play.until_history("main", "main", "the first result", |rows| rows.len() == 3).await;
    let begun = wait::Stopwatch::start();
    assert!(play.stop("main", "main").await);
    let ended = play.ended("main", &item).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(
        (&ended["state"], &ended["error"]["code"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    let told = play.told("main", "main").await;
    assert_eq!(
        told[..3],
        [
            "user go",
            "assistant tool_use: effect {\"text\":\"quick\"} + deaf {\"text\":\"slow\"} + effect \
             {\"text\":\"never\"}",
            "result effect: done quick",
        ]
    );
    assert!(told[3].starts_with("result! deaf: outcome unknown"), "{told:?}");
    assert!(told[4].starts_with("result! effect: cancelled: the call did not run"), "{told:?}");
    assert_eq!(told.len(), 5);
    assert_eq!(stage.effects.total().unwrap(), 1);
    let unknown = &play.state().await["unknown_calls"];
    assert_eq!(unknown.as_array().unwrap().len(), 1, "{unknown}");
    assert_eq!(unknown[0]["tool"], "deaf");
    // The next turn shows the model all of it.
    assert_eq!(play.ask("main", "and now?").await["state"], "done");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    assert_eq!(stage.model.requests()[1].tool_results().len(), 3);
}

#[tokio::test]
async fn engine_stop_during_a_retry_ends_it_without_another_request() {
    let stage = Stage::new().await;
    // Sat out inside the call.
    stage.model.push(Reply::rate_limited(Some("60")));
    let play = stage.run(stage.start().env("RIG_LONGEST_RETRY_AFTER", "60")).await;
    let item = play.item("main", "main", "go").await;
    stage.model.wait_for_end(1).await.unwrap();
    let begun = wait::Stopwatch::start();
    assert!(play.stop("main", "main").await);
    let ended = play.ended("main", &item).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(ended["error"]["code"], "cancelled");
    assert_eq!(play.told("main", "main").await, ["user go"]);
    assert_eq!(stage.model.requests().len(), 1);
}

#[tokio::test]
async fn engine_stop_reaches_a_turn_that_waits_for_the_vendor() {
    let stage = Stage::new().await;
    stage.model.push(Reply::rate_limited(Some("600")));
    let play = stage.up().await;
    let mut client = play.ws().await;
    say(&mut client, "main", "m1", None).await;
    play.until_state("main", "m1", "waiting").await;
    say(&mut client, "main", "m2", Some("interrupt")).await;
    stage.model.answer_with(echo);
    client.send(&json!({"content": "/stop", "id": "m3"})).await.unwrap();
    client.answer_to("m2").await.unwrap();
    let told = frames(&client);
    assert_eq!(told[..3], ["ack m1 started", "ack m2 waiting", "ack m3 done"]);
    assert_eq!(told[3], "response m3: Stopping the turn. Queued messages stay.");
    assert_eq!(told[4..], ["error m1: cancelled", "response m2: heard text of m1, text of m2"]);
}
