//! Every tool about a team, called by whoever there is: the table in the docs is what happens.

use serde_json::{Value, json};
use skep_testkit::Reply;

use crate::org_tasks::agent;
use crate::stage::{Play, Stage};

/// In this order: `kill` before `start`, and the end last.
const TOOLS: [&str; 10] = [
    "delegate_task",
    "query_team",
    "list_completed_tasks",
    "get_status",
    "update_team",
    "kill",
    "restart",
    "start",
    "spawn_team",
    "shutdown_team",
];
const CALLERS: [(&str, &str); 5] = [
    ("research", "research (above it)"),
    ("main", "main (above that)"),
    ("archive", "archive (beside it)"),
    ("library", "library itself"),
    ("press", "press (elsewhere)"),
];

/// About `library`.
fn arguments(tool: &str) -> Value {
    match tool {
        "delegate_task" => json!({"team": "library", "task": "x", "overlap_policy": "allow"}),
        "query_team" => json!({"team": "library", "query": "x"}),
        "list_completed_tasks" | "get_status" => json!({"team": "library"}),
        "update_team" => json!({"team": "library", "scope_add": ["x"]}),
        "spawn_team" => json!({"name": "library", "scope_accepts": ["x"]}),
        "shutdown_team" => json!({"name": "library"}),
        _ => json!({"agent": "library"}),
    }
}

fn configure(stage: &Stage) {
    let policy = "policy:\n  - {effect: allow, tool: spawn_team}\n  \
                  - {effect: allow, tool: shutdown_team}\n";
    let tree = [
        ("main", None, true),
        ("research", Some("main"), true),
        ("press", Some("main"), false),
        ("library", Some("research"), false),
        ("archive", Some("research"), false),
    ];
    for (agent, parent, manager) in tree {
        let parent = parent.map(|parent| format!("parent: {parent}\n")).unwrap_or_default();
        let settings = format!("{parent}manager: {manager}\nallowed_tools: ['*']\n{policy}");
        stage.write(&format!("teams/{agent}/config.yaml"), &settings);
    }
}

/// What each tool says to this agent.
async fn tried(stage: &Stage, play: &Play, caller: &'static str) -> Vec<String> {
    stage.model.answer_with(move |request| {
        // The end of a task may join at any step.
        let own = agent(request) == caller && request.body.to_string().contains("try everything");
        match TOOLS.get(request.tool_results().len()).filter(|_| own) {
            Some(tool) => Reply::call(tool, arguments(tool)),
            None => Reply::say("well"),
        }
    });
    play.ask(caller, "try everything").await;
    let requests = stage.model.requests();
    let own = requests.iter().rev().find(|it| it.tool_results().len() == TOOLS.len());
    let results = own.unwrap().tool_results();
    let word = |text: &str| {
        let told: Value = serde_json::from_str(text).unwrap();
        match told["error"].as_str() {
            Some(code) => format!("`{code}`"),
            None => "yes".to_owned(),
        }
    };
    results.iter().map(|result| word(&result.text)).collect()
}

#[tokio::test]
async fn org_only_the_agent_directly_above_leads_a_team() {
    let stage = Stage::new().await;
    configure(&stage);
    let play = stage.up().await;
    let mut columns = Vec::new();
    // The one who may comes last: nothing is left of the team then.
    for (caller, _) in CALLERS.iter().rev() {
        columns.push(tried(&stage, &play, caller).await);
    }
    columns.reverse();
    let heads = CALLERS.map(|(_, head)| head).join(" | ");
    let mut table = format!("| tool | {heads} |\n|---|---|---|---|---|---|\n");
    for (row, tool) in TOOLS.iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
        table.push_str(&format!("| `{tool}` | {} |\n", cells.join(" | ")));
    }
    let docs = include_str!("../../../../docs/organisation.md");
    assert!(docs.contains(&table), "docs/organisation.md has another table than\n{table}");
}
