//! The limits of a turn: model calls and time.

use serde_json::json;
use skep_testkit::model::Ending;
use skep_testkit::{Reply, wait};

use crate::stage::Stage;
use crate::telling::frames;

#[tokio::test]
async fn engine_turn_out_of_steps_fails_and_its_last_calls_do_not_run() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: ['*']\nmax_steps: 3\n");
    stage.model.answer_with(|request| {
        Reply::call("effect", json!({"text": format!("step {}", request.steps_done())}))
    });
    let play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "go").await.unwrap();
    client.answer_to("m1").await.unwrap();
    assert_eq!(frames(&client), ["ack m1 started", "error m1: limit_steps"]);
    assert_eq!(stage.model.requests().len(), 3);
    assert_eq!(stage.effects.total().unwrap(), 2);
    let told = play.told("main", client.channel()).await;
    assert_eq!(
        told[5..],
        [
            "assistant tool_use: effect {\"text\":\"step 2\"}",
            "result! effect: cancelled: the call did not run, because no step was left",
        ]
    );
    // The next turn has its own steps and sees where the last one came to.
    stage.model.push(Reply::say("going on"));
    client.say("m2", "go on").await.unwrap();
    assert_eq!(client.answer_to("m2").await.unwrap()["content"], "going on");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn engine_steps_are_counted_over_a_restart() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: ['*']\nmax_steps: 3\n");
    stage.model.push(Reply::call("look", json!({})));
    stage.model.push(Reply::call("look", json!({})).gate_first("second"));
    let mut play = stage.up().await;
    let item = play.item("main", "main", "go").await;
    stage.model.gate("second").wait_arrived(1).await.unwrap();
    // A step that only looked may be asked for again, until it is on record.
    let on_record = async || (play.told("main", "main").await.len() == 3).then_some(());
    wait::until_async("the first step", wait::PATIENCE, on_record).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.answer_with(|_| Reply::call("look", json!({})));
    let play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["error"]["code"], "limit_steps");
    // Two answers before the limit, one of them before the crash; the one that was cut is void.
    assert_eq!(stage.model.requests().len(), 4);
}

#[tokio::test]
async fn engine_turn_out_of_time_fails_and_keeps_what_was_said() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  turn_seconds: 1\n");
    let play = stage.up().await;
    stage.model.push(Reply::new().open_text().delta("slow").gate("never"));
    let text = play.ask("main", "talk").await;
    assert_eq!((&text["state"], &text["error"]["code"]), (&json!("failed"), &json!("limit_time")));
    assert_eq!(stage.model.wait_for_end(1).await.unwrap(), Ending::HungUp);
    assert_eq!(play.told("main", "main").await, ["user talk", "assistant error: slow"]);
    stage.model.push(Reply::call("hang", json!({})));
    let item = play.item("main", "tools", "act").await;
    assert_eq!(play.ended("main", &item).await["error"]["code"], "limit_time");
    assert_eq!(play.told("main", "tools").await[2], "result! hang: told to end");
    assert_eq!(stage.model.requests().len(), 2, "no model is asked when the time is up");
}
