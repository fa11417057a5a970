//! A model that goes in a circle is told, refused and stopped, and the person is told once.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use skep_testkit::Reply;

use crate::stage::Stage;
use crate::telling::frames;

#[tokio::test]
async fn engine_a_looping_model_is_told_refused_and_stopped() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::call("effect", json!({"text": "same"})));
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "go").await.unwrap();
    client.answer_to("m1").await.unwrap();
    assert_eq!(frames(&client), ["ack m1 started", "error m1: limit_loop"]);
    assert_eq!(stage.model.requests().len(), 6);
    assert_eq!(stage.effects.total().unwrap(), 4, "not the fifth, and not the sixth");
    let results: Vec<String> = stage.model.requests()[1..]
        .iter()
        .map(|request| request.last_tool_results().remove(0).text)
        .collect();
    assert_eq!(results[..2], ["done same", "done same"]);
    for (result, times) in results[2..4].iter().zip([3, 4]) {
        let told =
            format!("done same\n[loop brake: the same call had the same answer {times} times");
        assert!(result.starts_with(&told), "{result}");
    }
    assert!(results[4].starts_with("loop: the call of `effect` was not run"), "{}", results[4]);
    let rows = play.api().get("/api/v1/audit?tool=effect&outcome=refused").await.unwrap();
    let rows = rows.good().unwrap();
    assert_eq!(rows["rows"].as_array().unwrap().len(), 1, "one refusal, one row: {rows}");
    assert_eq!(rows["rows"][0]["decision"][0]["stage"], "brake");
    // The session goes on, with a turn that may do the same again.
    stage.model.answer_with(|_| Reply::say("sorry"));
    client.say("m2", "what happened?").await.unwrap();
    assert_eq!(client.answer_to("m2").await.unwrap()["content"], "sorry");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_two_calls_in_turn_are_a_loop_also_over_a_restart() {
    let stage = Stage::new().await;
    let alternate = |step: usize| {
        Reply::call("effect", json!({"text": if step.is_multiple_of(2) { "a" } else { "b" }}))
    };
    stage.model.answer_with(move |request| {
        let step = request.steps_done();
        let reply = alternate(step);
        if step == 6 { reply.gate_first("crash") } else { reply }
    });
    let mut play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    stage.model.gate("crash").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.answer_with(move |request| alternate(request.steps_done()));
    let play = stage.up().await;
    let ended = play.ended("main", &item).await;
    assert_eq!(ended["error"]["code"], "limit_loop", "{ended}");
    assert_eq!(stage.effects.total().unwrap(), 8, "four of each");
}

#[tokio::test]
async fn engine_work_that_makes_progress_is_no_loop() {
    let stage = Stage::new().await;
    // As whoever edits and tests: the test says the same each time, the edits differ.
    stage.model.answer_with(|request| match request.steps_done() {
        step @ 0..24 if step.is_multiple_of(2) => {
            Reply::call("effect", json!({"text": format!("edit {step}")}))
        }
        0..24 => Reply::call("look", json!({"text": "test"})),
        _ => Reply::say("done"),
    });
    let play = stage.up().await;
    let ended: Value = play.ask("main", "go").await;
    assert_eq!(ended["response"]["content"], "done", "{ended}");
    assert_eq!(stage.effects.total().unwrap(), 12);
}

#[tokio::test]
async fn engine_what_people_ask_again_is_no_loop() {
    let stage = Stage::new().await;
    let asked = AtomicUsize::new(0);
    stage.model.answer_with(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        step @ 0..8 => Reply::call("effect", json!({"text": "same"})).gate_first(&gate(step)),
        _ => Reply::say("fine"),
    });
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m0", "go").await.unwrap();
    for step in 0..8 {
        stage.model.gate(&gate(step)).wait_arrived(1).await.unwrap();
        let id = format!("m{}", step + 1);
        client.say(&id, "and again").await.unwrap();
        client.find("its ack", |frame| frame["message_id"] == id.as_str()).await.unwrap();
        stage.model.gate(&gate(step)).release();
    }
    let answer = client.answer_to("m8").await.unwrap();
    assert_eq!(answer["content"], "fine", "{answer}");
    assert_eq!(stage.effects.total().unwrap(), 8);
}

fn gate(step: usize) -> String {
    format!("step {step}")
}
