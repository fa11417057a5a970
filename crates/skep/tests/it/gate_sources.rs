//! Sources of tools: what they offer comes and goes between two turns, and a turn in flight keeps
//! what it began with.

use serde_json::{Value, json};
use skep_testkit::Reply;

use crate::stage::{Play, Stage};

/// The names of the tools in the last request.
fn offered(stage: &Stage) -> Vec<String> {
    let request = stage.model.requests().pop().unwrap();
    request.tool_names().into_iter().map(str::to_owned).collect()
}

/// A turn in which the model calls the tool once; what it is told.
async fn call(stage: &Stage, play: &Play, tool: &str) -> String {
    stage.model.push_all([Reply::call(tool, json!({"text": "x"})), Reply::say("so")]);
    assert_eq!(play.ask("main", "go").await["state"], "done");
    stage.model.requests().pop().unwrap().last_tool_results().remove(0).text
}

fn missing(state: &Value, agent: &str) -> Value {
    let agents = state["agents"].as_array().unwrap();
    let found = agents.iter().find(|it| it["name"] == agent).unwrap();
    assert_eq!(found["status"], "active", "{found}");
    found["missing_tools"].clone()
}

#[tokio::test]
async fn gate_tools_of_a_source_come_and_go_between_two_turns() {
    let stage = Stage::new().await;
    let list = "allowed_tools: [look, plug.look]\npolicy:\n  - {effect: ask, tool: far__reach}\n";
    stage.write("teams/main/config.yaml", list);
    let play = stage.up().await;
    assert!(call(&stage, &play, "plug__look").await.starts_with("unknown_tool: "));
    assert_eq!(offered(&stage), ["look"]);
    assert_eq!(missing(&play.state().await, "main"), json!(["far__reach", "plug.look"]));
    play.offer(&["plug.look", "plug.other"], json!([])).await;
    assert_eq!(call(&stage, &play, "plug__look").await, "looked at x");
    assert_eq!(offered(&stage), ["look", "plug__look"], "the list of the agent decides");
    assert_eq!(missing(&play.state().await, "main"), json!(["far__reach"]));
    // By its own name, too; what stands in history is the name on the wire.
    assert_eq!(call(&stage, &play, "plug.look").await, "looked at x");
    let rows = play.api().get("/api/v1/audit?tool=plug.look&outcome=ok").await.unwrap();
    assert_eq!(rows.good().unwrap()["rows"].as_array().unwrap().len(), 2);
    play.offer(&[], json!([])).await;
    assert!(call(&stage, &play, "plug__look").await.starts_with("unknown_tool: "));
    assert_eq!(offered(&stage), ["look"]);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn gate_a_turn_in_flight_keeps_its_tools_and_hooks() {
    let stage = Stage::new().await;
    let play = stage.run(stage.hooked()).await;
    stage.hook("mine", "before", &json!({"veto": "not with me"}));
    play.offer(&["plug.look"], json!([])).await;
    let step = |text: &str| Reply::call("plug__look", json!({"text": text}));
    stage.model.push_all([step("one").gate_first("held"), step("two"), Reply::say("so")]);
    let item = play.item("main", "main", "go").await;
    stage.model.gate("held").wait_arrived(1).await.unwrap();
    // The tool goes and a hook comes while the model speaks.
    play.offer(&[], json!([{"name": "mine", "agent": "main", "priority": 1}])).await;
    stage.model.gate("held").release();
    assert_eq!(play.ended("main", &item).await["state"], "done");
    for (request, text) in stage.model.requests()[1..].iter().zip(["one", "two"]) {
        assert_eq!(request.last_tool_results().remove(0).text, format!("looked at {text}"));
        assert!(request.tool_names().contains(&"plug__look"));
    }
    assert!(stage.seen_by("mine").is_empty());
    assert!(call(&stage, &play, "plug__look").await.starts_with("unknown_tool: "));
    let refused = call(&stage, &play, "look").await;
    assert!(refused.starts_with("hook_veto: ") && refused.contains("not with me"), "{refused}");
}

#[tokio::test]
async fn gate_hooks_look_by_priority_and_at_their_own_agent() {
    let stage = Stage::new().await;
    let play = stage.run(stage.hooked()).await;
    let hooks = json!([
        {"name": "late", "agent": null, "priority": -1},
        {"name": "early", "agent": "main", "priority": 7},
        {"name": "elsewhere", "agent": "plain", "priority": 9},
    ]);
    play.offer(&[], hooks).await;
    for (name, more) in [("early", 1), ("first", 2), ("late", 3), ("elsewhere", 4)] {
        stage.hook(name, "before", &json!({"rewrite": {"text": format!("by {name}"), "ms": more}}));
    }
    assert_eq!(call(&stage, &play, "look").await, "looked at by late");
    let seen = |name: &str| stage.seen_by(name)[0]["before"]["text"].clone();
    assert_eq!(
        (seen("early"), seen("first"), seen("late")),
        ("x".into(), "by early".into(), "by first".into())
    );
    assert!(stage.seen_by("elsewhere").is_empty());
}

#[tokio::test]
async fn gate_a_name_that_is_taken_changes_nothing() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    play.offer(&["plug.look"], json!([])).await;
    let (status, why) = play.rig("/offer", &json!({"tools": ["Read"], "hooks": []})).await;
    assert_eq!((status, why.as_str()), (409, "two tools have the name Read"));
    assert_eq!(call(&stage, &play, "plug__look").await, "looked at x");
}

#[tokio::test]
async fn gate_tools_that_are_always_denied_are_not_offered() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "defaults:\n  policy: {run: deny}\n");
    let rules = "allowed_tools: [look, effect, reach, bash, spawn]\npolicy:\n  - {effect: deny, \
                 tool: reach}\n  - {effect: deny, tool: effect, grants: ['role:viewer']}\n  - \
                 {effect: allow, tool: bash, command: ls}\n";
    stage.write("teams/main/config.yaml", rules);
    let play = stage.up().await;
    let refused = call(&stage, &play, "reach").await;
    assert!(refused.starts_with("policy_deny: "), "{refused}");
    assert_eq!(offered(&stage), ["bash", "effect", "look"]);
}
