//! Agents that are paused, stopped, started and restarted.

use serde_json::{Value, json};
use skep_testkit::Reply;

use crate::stage::{Play, Stage};

/// Whether that changed anything.
async fn live(play: &Play, action: &str) -> bool {
    let wish = json!({ "action": action });
    let told = play.api().post("/api/v1/agents/main/life", &wish).await.unwrap();
    told.good().unwrap()["changed"] == true
}

async fn status(play: &Play) -> Value {
    let state = play.state().await;
    let agents = state["agents"].as_array().unwrap();
    agents.iter().find(|agent| agent["name"] == "main").unwrap()["status"].clone()
}

fn id(receipt: &Value) -> &str {
    receipt["item_id"].as_str().unwrap()
}

#[tokio::test]
async fn engine_life_a_paused_agent_finishes_its_turn_and_takes_no_more() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("on").gate("go").close());
    stage.model.push(Reply::say("second"));
    let mut play = stage.up().await;
    let first = play.tell("main", "main", "one").await;
    stage.model.gate("go").wait_arrived(1).await.unwrap();
    assert!(live(&play, "pause").await);
    assert!(!live(&play, "pause").await, "it is paused already");
    assert_eq!(status(&play).await, "paused");
    stage.model.gate("go").open();
    assert_eq!(play.ended("main", id(&first)).await["state"], "done");
    // Nothing stands before it in its lane.
    let second = play.tell("main", "other", "two").await;
    assert_eq!(second["state"], "queued");
    let note = "the agent is paused; it goes on when it is started";
    assert_eq!(second["note"], note);
    // What is wanted of an agent outlives the hive.
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    assert_eq!(status(&play).await, "paused");
    let item = play.api().get(&format!("/api/v1/inbox/{}", id(&second))).await.unwrap();
    assert_eq!(item.good().unwrap()["state"], "pending");
    assert!(live(&play, "start").await);
    assert_eq!(play.ended("main", id(&second)).await["state"], "done");
    assert_eq!(status(&play).await, "active");
}

#[tokio::test]
async fn engine_life_a_stopped_turn_goes_on_when_its_agent_is_started() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("half").gate("never").close());
    stage.model.push(Reply::new().open_text().delta("half").gate("again").close());
    stage.model.push(Reply::say("whole"));
    let play = stage.up().await;
    let told = play.tell("main", "main", "one").await;
    stage.model.gate("never").wait_arrived(1).await.unwrap();
    assert!(live(&play, "stop").await);
    assert_eq!(status(&play).await, "stopped");
    assert!(live(&play, "start").await);
    stage.model.gate("again").wait_arrived(1).await.unwrap();
    // As often as one likes: a planned end is no attempt.
    live(&play, "restart").await;
    let ended = play.ended("main", id(&told)).await;
    assert_eq!(ended["state"], "done", "{ended}");
    let rows = play.history("main", "main").await;
    assert!(rows.last().unwrap().to_string().contains("whole"), "{rows:?}");
    let unknown = play.api().post("/api/v1/agents/nobody/life", &json!({"action": "stop"})).await;
    assert_eq!(unknown.unwrap().status, 404);
    let wrong = play.api().post("/api/v1/agents/main/life", &json!({"action": "halt"})).await;
    assert_eq!(wrong.unwrap().status, 400);
}
