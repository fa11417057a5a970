//! Stopping in the middle of a turn, and messages that bring the hive down again and again.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skep_testkit::http::{Answer, Api, answer};
use skep_testkit::model::Ending;
use skep_testkit::{Reply, WsClient, wait};

use crate::fault_crash_journal::{Journal, text_of};
use crate::stage::{Play, Stage};

/// The end of everything: the drain time of the test, then 5 s at the most.
const ALL_ENDED: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(2);

async fn stage(drain_seconds: u64) -> Stage {
    let stage = Stage::new().await;
    stage.write("skep.yaml", &format!("limits: {{ drain_seconds: {drain_seconds} }}\n"));
    stage
}

/// Waits for the end after a signal: exit code 0 within this time.
async fn ends_within(play: &mut Play, patience: Duration) -> Duration {
    let begun = Instant::now();
    let ended = play.hive.wait(patience + SLACK).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", play.hive.stderr());
    begun.elapsed()
}

fn attempts(stage: &Stage) -> Vec<Value> {
    Journal::of(stage.home()).turns.iter().map(|turn| turn["attempts"].clone()).collect()
}

#[tokio::test]
async fn a_turn_in_mid_flight_goes_on_after_each_stop_and_none_counts_as_an_attempt() {
    let stage = stage(0).await;
    stage.model.push(Reply::new().text("first").tool("effect", json!({"text": "one"})));
    let held = || Reply::new().open_text().delta("half").gate("never");
    stage.model.push(held());
    let mut play = stage.up().await;
    let mut ws = play.ws().await;
    let mut since = 0;
    ws.say("m1", "long work").await.unwrap();
    // More stops than a message has attempts.
    for stop in 1..=4 {
        stage.model.gate("never").wait_arrived(stop).await.unwrap();
        play.hive.terminate().unwrap();
        ends_within(&mut play, ALL_ENDED).await;
        assert_eq!(ws.wait_closed().await.unwrap(), Some(1001), "stop {stop}");
        assert_eq!(stage.model.wait_for_end(stop + 1).await.unwrap(), Ending::HungUp);
        assert_eq!(attempts(&stage), [0], "stop {stop}");
        assert!(stage.home().join("run/clean").exists(), "a stop in order leaves its mark");
        stage.model.push(if stop < 4 { held() } else { Reply::say("done") });
        play = stage.up().await;
        come_back(&play, &mut ws, &mut since).await;
    }
    let answer = ws.answer_to("m1").await.unwrap();
    assert_eq!((&answer["type"], &answer["content"]), (&json!("response"), &json!("done")));
    assert_eq!(stage.effects.total().unwrap(), 1);
    let said: Vec<String> = texts(&play.history("main", ws.channel()).await, "assistant");
    assert_eq!(said, ["first", "done"], "what was half said before a stop is dropped");
}

/// To the same channel, after the last frame read.
async fn come_back(play: &Play, ws: &mut WsClient, since: &mut u64) {
    *since = ws.durable().keys().copied().max().unwrap_or(*since);
    let target = play.target().resume(ws.channel(), *since);
    *ws = WsClient::connect(&target).await.unwrap();
}

fn texts(history: &[Value], role: &str) -> Vec<String> {
    let rows = history.iter().filter(|row| row["role"] == role);
    rows.map(text_of).collect()
}

#[tokio::test]
async fn a_drain_lets_the_turn_finish_and_takes_nothing_new() {
    let stage = stage(60).await;
    stage.model.push(Reply::new().open_text().delta("al").gate("rest").delta("most").close());
    let mut play = stage.up().await;
    let mut ws = play.ws().await;
    ws.say("m1", "take your time").await.unwrap();
    stage.model.gate("rest").wait_arrived(1).await.unwrap();
    let events = play.api().events("/api/v1/events").await;
    let mut events = events.unwrap();
    play.hive.terminate().unwrap();
    wait_not_ready(&play).await;
    ws.say("m2", "too late").await.unwrap();
    let refused = ws.find("a refusal", |frame| frame["type"] == "error").await.unwrap();
    assert_eq!((&refused["code"], &refused["message_id"]), (&json!("stopping"), &json!("m2")));
    let path = "/api/v1/agents/main/messages";
    let late = play.api().post(path, &json!({"message": "too late"})).await.unwrap();
    assert_eq!((late.status, &late.json["code"]), (503, &json!("stopping")));
    stage.model.gate("rest").release();
    let answer = ws.answer_to("m1").await.unwrap();
    assert_eq!(answer["content"], "almost");
    assert_eq!(ws.wait_closed().await.unwrap(), Some(1001));
    let mut last = None;
    while let Some(event) = events.next().await.unwrap() {
        last = event.name;
    }
    assert_eq!(last.as_deref(), Some("resync"), "the last word of an event stream");
    ends_within(&mut play, ALL_ENDED).await;
    let play = stage.up().await;
    assert_eq!(stage.model.requests().len(), 1, "nothing is left to do");
    assert_eq!(play.state().await["work"]["queued"], 0);
}

async fn wait_not_ready(play: &Play) {
    let api = play.api();
    let refuses = async || {
        let answer = api.get("/api/v1/ready").await.ok()?;
        (answer.status == 503).then_some(())
    };
    wait::until_async("the drain", wait::PATIENCE, refuses).await.unwrap();
}

#[tokio::test]
async fn a_second_signal_cuts_the_drain_at_once() {
    let stage = stage(600).await;
    stage.model.push(Reply::new().open_text().delta("half").gate("never"));
    let mut play = stage.up().await;
    let waiting = tokio::spawn({
        let (api, body) = (play.api(), json!({"message": "work"}));
        async move { api.post("/api/v1/agents/main/messages?wait=true", &body).await }
    });
    let mut ws = play.ws().await;
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    play.hive.terminate().unwrap();
    wait_not_ready(&play).await;
    assert!(play.hive.is_running(), "the turn has its time");
    play.hive.terminate().unwrap();
    ends_within(&mut play, ALL_ENDED).await;
    assert_eq!(ws.wait_closed().await.unwrap(), Some(1001));
    let told = waiting.await.unwrap().unwrap();
    assert_eq!((told.status, &told.json["code"]), (503, &json!("stopping")));
    let item = told.json["item_id"].as_str().expect("the id to follow").to_owned();
    assert_eq!(attempts(&stage), [0]);
    stage.model.push(Reply::say("done"));
    stage.model.gate("never").open();
    let play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["response"]["content"], "done");
}

/// A tool that is cut by a stop: what changes nothing runs again, what had begun is unknown.
#[tokio::test]
async fn a_stop_during_tools_repeats_none_that_has_effects() {
    let stage = stage(0).await;
    let reply = Reply::new().tool("effect", json!({"text": "slow", "ms": 600_000}));
    stage.model.push(reply.tool("effect", json!({"text": "later"})));
    let mut play = stage.up().await;
    let item = play.tell("main", "main", "work").await["item_id"].as_str().unwrap().to_owned();
    let begun = || stage.effects.total().unwrap() == 1;
    wait::until_true("the effect", wait::PATIENCE, begun).await.unwrap();
    play.hive.terminate().unwrap();
    ends_within(&mut play, ALL_ENDED).await;
    assert_eq!(attempts(&stage), [0]);
    stage.model.push(Reply::say("done"));
    let play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["response"]["content"], "done");
    let request = stage.model.wait_for_request(2).await.unwrap();
    let results: Vec<String> =
        request.last_tool_results().into_iter().map(|result| result.text).collect();
    assert!(results[0].contains("outcome unknown"), "{results:?}");
    assert_eq!(results[1], "done later");
    assert_eq!(stage.effects.total().unwrap(), 2);
    assert_eq!(play.state().await["unknown_calls"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_that_brings_it_down_three_times_in_one_step_is_dead_and_nothing_else_stops() {
    let stage = Stage::new().await;
    // The poison is held for ever, everybody else is answered.
    stage.model.answer_with(|request| match request.last_user_text().contains("poison") {
        true => Reply::new().open_text().delta("half").gate("poison"),
        false => Reply::say("fine"),
    });
    let held = stage.model.gate("poison");
    let mut play = stage.up().await;
    let mut ws = play.ws().await;
    let mut since = 0;
    ws.say("bad", "poison").await.unwrap();
    ws.next_of("ack").await.unwrap();
    for kill in 1..=3 {
        held.wait_arrived(kill).await.unwrap();
        if kill == 3 {
            ws.say("good", "after it").await.unwrap();
            ws.find("ack", |frame| frame["message_id"] == "good").await.unwrap();
        }
        let other = play.tell("main", &format!("other-{kill}"), "hello").await;
        let other = other["item_id"].as_str().unwrap().to_owned();
        assert_eq!(play.ended("main", &other).await["response"]["content"], "fine");
        play.hive.kill().await.unwrap();
        play = stage.up().await;
        come_back(&play, &mut ws, &mut since).await;
    }
    let answer = ws.answer_to("bad").await.unwrap();
    assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!("dead")));
    assert!(answer["error"].as_str().unwrap().contains("3 attempts"), "{answer}");
    assert_eq!(held.arrived(), 3, "a dead message asks no model");
    let answer = ws.answer_to("good").await.unwrap();
    assert_eq!((&answer["type"], &answer["content"]), (&json!("response"), &json!("fine")));
    let inbox = play.api().get("/api/v1/inbox?state=dead").await.unwrap().good().unwrap();
    assert_eq!(inbox["items"].as_array().unwrap().len(), 1, "{inbox}");
    assert_eq!(inbox["items"][0]["message_id"], "bad");
}

/// Two kills, a step, two kills, a step: never three without progress.
#[tokio::test]
async fn kills_before_and_after_a_step_do_not_add_up() {
    let stage = Stage::new().await;
    let asked = Mutex::new(BTreeMap::<usize, usize>::new());
    stage.model.answer_with(move |request| {
        let step = request.steps_done();
        let mut asked = asked.lock().unwrap();
        let before = asked.entry(step).or_insert(0);
        *before += 1;
        match (*before, step) {
            (1 | 2, _) => Reply::new().open_text().delta("half").gate("held"),
            (_, 0 | 1) => Reply::call("effect", json!({"text": "step"})),
            _ => Reply::say("done"),
        }
    });
    let mut play = stage.up().await;
    let item = play.tell("main", "main", "work").await["item_id"].as_str().unwrap().to_owned();
    for kill in 1..=6 {
        stage.model.gate("held").wait_arrived(kill).await.unwrap();
        play.hive.kill().await.unwrap();
        play = stage.up().await;
    }
    assert_eq!(play.ended("main", &item).await["response"]["content"], "done");
    assert_eq!(stage.effects.total().unwrap(), 2);
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
}

/// The wish to stop is on record before anything is told to end: a crash does not lose it.
#[tokio::test]
async fn a_stop_is_kept_when_it_crashes_before_the_turn_has_ended() {
    let stage = Stage::new().await;
    stage.model.push(Reply::call("deaf", json!({})).tool("effect", json!({"text": "never"})));
    let mut play = stage.up().await;
    let mut ws = play.ws().await;
    let mut since = 0;
    ws.say("m1", "work").await.unwrap();
    let deaf = async || {
        let shown = play.history("main", ws.channel()).await;
        shown.iter().any(|row| row["role"] == "assistant").then_some(())
    };
    wait::until_async("the call that does not hear", wait::PATIENCE, deaf).await.unwrap();
    ws.say("m2", "/stop").await.unwrap();
    let told = ws.answer_to("m2").await.unwrap();
    assert_eq!(told["type"], "response", "{told}");
    // The tool has four seconds to hear it: nothing has ended yet.
    play.hive.kill().await.unwrap();
    assert_eq!(Journal::of(stage.home()).open_turns().count(), 1);
    play = stage.up().await;
    come_back(&play, &mut ws, &mut since).await;
    let answer = ws.answer_to("m1").await.unwrap();
    assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!("cancelled")));
    assert_eq!(stage.model.requests().len(), 1, "a stopped turn asks no model");
    assert_eq!(stage.effects.total().unwrap(), 0);
    let results = texts(&play.history("main", ws.channel()).await, "toolResult");
    assert!(results[0].contains("outcome unknown"), "{results:?}");
    assert!(results[1].starts_with("cancelled:"), "{results:?}");
}

#[tokio::test]
async fn a_message_sent_again_with_its_key_after_a_crash_is_the_same_message() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("half").gate("never"));
    stage.model.push(Reply::say("once"));
    let mut play = stage.up().await;
    let api = play.api();
    let lost = tokio::spawn(async move { send(&api, "work").await });
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    assert!(lost.await.unwrap().is_err());
    play = stage.up().await;
    let api = play.api();
    let again = send(&api, "work").await.unwrap().good().unwrap();
    assert_eq!(again["response"]["content"], "once");
    let third = send(&api, "work").await.unwrap().good().unwrap();
    assert_eq!(third, again);
    let other = send(&api, "another text").await.unwrap();
    assert_eq!((other.status, &other.json["code"]), (409, &json!("id_reused")));
    assert_eq!(texts(&play.history("main", "main").await, "user"), ["work"]);
}

async fn send(api: &Api, text: &str) -> anyhow::Result<Answer> {
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let request = api.request(reqwest::Method::POST, path).header("idempotency-key", "k1");
    answer(request.json(&json!({"message": text}))).await
}
