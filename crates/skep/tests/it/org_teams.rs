//! What an agent sees of the teams below it, and what it may change about them.

use serde_json::{Value, json};
use skep_testkit::Reply;

use crate::org_tasks::{agent, configure};
use crate::stage::Stage;

/// The answers of the calls in the newest step.
fn answers(stage: &Stage) -> Vec<Value> {
    let requests = stage.model.requests();
    let results = requests.last().unwrap().last_tool_results();
    results.iter().map(|result| serde_json::from_str(&result.text).unwrap()).collect()
}

fn codes(answers: &[Value]) -> Vec<&str> {
    answers.iter().map(|answer| answer["error"].as_str().unwrap_or("fine")).collect()
}

#[tokio::test]
async fn org_teams_are_listed_with_what_they_are_for() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 => Reply::new()
            .tool(
                "update_team",
                json!({
                    "team": "research", "scope_add": [" Books", "papers", "books"],
                    "description": "Finds what is written.",
                }),
            )
            .tool("update_team", json!({"team": "research", "scope_remove": ["Papers"]})),
        1 => Reply::new()
            .tool("list_teams", json!({}))
            .tool("list_teams", json!({"recursive": true}))
            .tool("get_status", json!({"team": "press"})),
        _ => Reply::say("well"),
    });
    configure(&stage);
    let play = stage.up().await;
    play.ask("main", "who is there?").await;
    let [direct, all, status] = &answers(&stage)[..] else { panic!("three answers") };
    let team = |name: &str, parent: &str, description: &str, keywords: Value| {
        json!({
            "name": name, "parent": parent, "description": description, "keywords": keywords,
            "status": "active", "pending": 0,
        })
    };
    let press = team("press", "main", "", json!([]));
    let research = team("research", "main", "Finds what is written.", json!(["books"]));
    assert_eq!(*direct, json!({"success": true, "teams": [press, research]}));
    let library = team("library", "research", "", json!([]));
    assert_eq!(*all, json!({"success": true, "teams": [press, research, library]}));
    let idle = json!({
        "name": "press", "status": "active", "reason": null, "active_turn": null,
        "current_task": null, "queue_depth": 0, "pending": 0, "bootstrapped": true,
        "saturation": 0.0,
    });
    assert_eq!(*status, json!({"success": true, "team": idle}));
    let file = std::fs::read_to_string(stage.home().join("teams/research/config.yaml")).unwrap();
    assert!(file.ends_with("description: \"Finds what is written.\"\n"), "{file}");
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_the_status_of_a_team_at_work_tells_its_task() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match (agent(request).as_str(), request.steps_done()) {
        ("main", 0) => Reply::call("delegate_task", json!({"team": "press", "task": "print it"})),
        ("main", 1) => Reply::call("get_status", json!({})).gate_first("at work"),
        ("press", _) => Reply::new().gate("press").text("printed"),
        _ => Reply::say("well"),
    });
    configure(&stage);
    let play = stage.up().await;
    let item = play.item("main", "main", "print it").await;
    stage.model.gate("press").wait_arrived(1).await.unwrap();
    stage.model.gate("at work").open();
    play.ended("main", &item).await;
    let told = answers(&stage).remove(0);
    let press = &told["teams"][0];
    assert_eq!(press["name"], "press", "{told}");
    assert_eq!(press["current_task"]["task"], "print it", "{told}");
    assert_eq!(press["active_turn"]["state"], "running", "{told}");
    assert_eq!((&press["queue_depth"], &press["saturation"]), (&json!(1), &json!(1.0)));
    stage.model.gate("press").open();
}

#[tokio::test]
async fn org_only_its_own_parent_changes_a_team() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 => Reply::new()
            .tool("update_team", json!({"team": "library", "scope_add": ["x"]}))
            .tool("update_team", json!({"team": "nobody", "scope_add": ["x"]}))
            .tool("update_team", json!({"team": "main", "scope_add": ["x"]}))
            .tool("update_team", json!({"team": "press"}))
            .tool("update_team", json!({"team": "press", "scope_remove": ["x"]}))
            .tool("update_team", json!({"team": "press", "scope_add": [" "]}))
            .tool("update_team", json!({"team": "press", "description": "${RIG_KEY}"}))
            .tool("get_status", json!({"team": "library"})),
        _ => Reply::say("well"),
    });
    configure(&stage);
    let play = stage.up().await;
    play.ask("main", "try everything").await;
    let expected = [
        "not_your_team",
        "unknown_team",
        "not_your_team",
        "nothing_to_change",
        "no_keywords",
        "bad_keyword",
        "not_written",
        "not_your_team",
    ];
    assert_eq!(codes(&answers(&stage)), expected);
}
