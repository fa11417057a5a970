//! Every tool of the organisation, called by whoever there is: the table in the docs is what
//! happens.

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::http::answer;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply};

use crate::org_spawn::rows;
use crate::org_tasks::agent;
use crate::stage::{Play, Stage};

/// In this order: those that wait first, `kill` before `start`, and the end last.
static TOOLS: [&str; 25] = [
    "query_team",
    "query_teams",
    "delegate_task",
    "list_completed_tasks",
    "list_teams",
    "get_status",
    "update_team",
    "escalate",
    "enqueue_parent_task",
    "ask_operator",
    "answer",
    "send_message",
    "recv",
    "remind",
    "request_next_turn",
    "get_open_threads",
    "cancel_thread",
    "whoami",
    "set_status",
    "kill",
    "restart",
    "start",
    "spawn_team",
    "request_spawn",
    "shutdown_team",
];
const COLUMNS: [(Caller, &str); 9] = [
    (Caller::At("research"), "research (above it)"),
    (Caller::At("main"), "main (above that)"),
    (Caller::At("archive"), "archive (beside it)"),
    (Caller::At("library"), "library itself"),
    (Caller::At("shelf"), "shelf (below it)"),
    (Caller::At("press"), "press (elsewhere)"),
    (Caller::ForUser, "research for a user"),
    (Caller::Paused, "research, paused"),
    (Caller::Removed, "research, removed"),
];
const WORD: &str = "try everything";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    /// An agent that an operator writes to.
    At(&'static str),
    /// `research`, in a task that a user is behind; its rules allow operators alone.
    ForUser,
    /// `research`, which is paused while it works.
    Paused,
    /// `research`, which is removed while it works.
    Removed,
}

/// About `library`.
fn arguments(tool: &str) -> Value {
    match tool {
        "delegate_task" => json!({"team": "library", "task": "x", "overlap_policy": "allow"}),
        "query_team" => json!({"team": "library", "query": "x"}),
        "query_teams" => json!({"teams": ["library"], "query": "x"}),
        "list_completed_tasks" | "get_status" => json!({"team": "library"}),
        "list_teams" | "recv" | "request_next_turn" | "get_open_threads" | "whoami" => json!({}),
        "update_team" => json!({"team": "library", "scope_add": ["x"]}),
        "escalate" => json!({"message": "x"}),
        "enqueue_parent_task" => json!({"task": "x"}),
        "ask_operator" => json!({"question": "x", "to": "library"}),
        "answer" => json!({"id": "x", "answer": "x"}),
        "send_message" => json!({"to": "library", "body": "x"}),
        "remind" => json!({"message": "x", "delay_seconds": 3600}),
        "cancel_thread" => json!({"id": "x"}),
        "set_status" => json!({"status": "x"}),
        "spawn_team" => json!({"name": "museum", "scope_accepts": ["x"]}),
        "request_spawn" => json!({"name": "gallery", "description": "x"}),
        "shutdown_team" => json!({"name": "library", "cascade": true}),
        _ => json!({"agent": "library"}),
    }
}

fn configure(stage: &Stage, caller: Caller) {
    let grants = if caller == Caller::ForUser { "['role:operator']" } else { "[any]" };
    let tree = [
        ("main", None, true),
        ("research", Some("main"), true),
        ("press", Some("main"), false),
        ("library", Some("research"), false),
        ("archive", Some("research"), false),
        ("shelf", Some("library"), false),
    ];
    for (agent, parent, manager) in tree {
        let parent = parent.map(|parent| format!("parent: {parent}\n")).unwrap_or_default();
        let mut settings = format!("{parent}manager: {manager}\nallowed_tools: ['*']\npolicy:\n");
        let grants = if agent == "research" { grants } else { "[any]" };
        for tool in TOOLS {
            settings += &format!("  - {{effect: allow, tool: {tool}, grants: {grants}}}\n");
        }
        stage.write(&format!("teams/{agent}/config.yaml"), &settings);
    }
}

/// Whoever tries everything, `main` for the user, and everybody else.
fn script(stage: &Stage, caller: Caller, tools: &'static [&'static str]) {
    let name = match caller {
        Caller::At(name) => name,
        _ => "research",
    };
    stage.model.answer_with(move |request| {
        let text = request.body.to_string();
        // The end of a task may join at any step.
        let tries = agent(request) == name && text.contains(WORD);
        let done = request.tool_results().len();
        match tools.get(done).filter(|_| tries) {
            Some(tool) if done == 0 && matches!(caller, Caller::Paused | Caller::Removed) => {
                Reply::call(tool, arguments(tool)).gate_first("at work")
            }
            Some(tool) => Reply::call(tool, arguments(tool)),
            None if agent(request) == "main" && text.contains("for me") && done == 0 => {
                Reply::call("delegate_task", json!({"team": "research", "task": WORD}))
            }
            None => Reply::say("well"),
        }
    });
}

/// Has the caller try everything.
async fn begin(stage: &Stage, play: &Play, caller: Caller) {
    match caller {
        Caller::At(name) => drop(play.tell(name, "main", WORD).await),
        Caller::ForUser => {
            let body = json!({"name": "anna", "role": "user"});
            let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
            let anna = play.hive.api(Some(made["token"].as_str().unwrap())).unwrap();
            let message = json!({"message": "for me"});
            anna.post("/api/v1/agents/main/messages", &message).await.unwrap().good().unwrap();
        }
        Caller::Paused => {
            play.tell("research", "main", WORD).await;
            stage.model.gate("at work").wait_arrived(1).await.unwrap();
            live(play, "pause").await;
            stage.model.gate("at work").open();
        }
        Caller::Removed => {
            play.tell("research", "main", WORD).await;
            stage.model.gate("at work").wait_arrived(1).await.unwrap();
            let path = "/api/v1/agents/research?cascade=true";
            answer(play.api().request(Method::DELETE, path)).await.unwrap().good().unwrap();
            stage.model.gate("at work").open();
        }
    }
}

async fn live(play: &Play, action: &str) {
    let path = "/api/v1/agents/research/life";
    play.api().post(path, &json!({"action": action})).await.unwrap().good().unwrap();
}

fn word(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(told) => match told["error"].as_str() {
            Some(code) => format!("`{code}`"),
            None => "yes".to_owned(),
        },
        // What rules deny the gate says in words.
        Err(_) => format!("`{}`", text.split_once(':').unwrap().0),
    }
}

/// A hive in which the caller tries these.
async fn tried(caller: Caller, tools: &'static [&'static str]) -> (Stage, Play) {
    let stage = Stage::new().await;
    configure(&stage, caller);
    script(&stage, caller, tools);
    let play = stage.up().await;
    begin(&stage, &play, caller).await;
    (stage, play)
}

/// What each tool says.
async fn words(stage: &Stage, caller: Caller, tools: &[&str]) -> Vec<String> {
    let all = |request: &ModelRequest| {
        request.body.to_string().contains(WORD) && request.tool_results().len() == tools.len()
    };
    let ended = wait::until("every tool to have answered", PATIENCE, || {
        stage.model.requests().into_iter().find(all)
    });
    let ended = ended.await.unwrap_or_else(|error| panic!("{caller:?}: {error:#}"));
    ended.tool_results().iter().map(|result| word(&result.text)).collect()
}

async fn column(caller: Caller) -> Vec<String> {
    match caller {
        Caller::At(_) | Caller::ForUser => {
            let (stage, _play) = tried(caller, &TOOLS).await;
            words(&stage, caller, &TOOLS).await
        }
        Caller::Paused => paused().await,
        Caller::Removed => {
            let (stage, _play) = tried(caller, &TOOLS).await;
            // Its turn has ended: no call of it is on record.
            assert_eq!(rows(&stage, "SELECT count(*) FROM calls"), "0");
            vec!["no turn".to_owned(); TOOLS.len()]
        }
    }
}

/// A turn that waits goes on once its agent is started; everything else is done.
async fn paused() -> Vec<String> {
    let (queries, others) = TOOLS.split_at(2);
    let (stage, _play) = tried(Caller::Paused, others).await;
    let mut cells = vec!["waits".to_owned(); queries.len()];
    cells.extend(words(&stage, Caller::Paused, others).await);
    for tools in queries.chunks(1) {
        let (stage, play) = tried(Caller::Paused, tools).await;
        let answered = wait::until_true("the answer of library", PATIENCE, || {
            rows(&stage, "SELECT state FROM tasks") == "done"
        });
        answered.await.unwrap();
        assert_eq!(rows(&stage, "SELECT state FROM turns WHERE ended_at IS NULL"), "ready");
        live(&play, "start").await;
        assert_eq!(words(&stage, Caller::Paused, tools).await, ["yes"]);
    }
    cells
}

#[tokio::test]
async fn org_only_the_agent_directly_above_leads_a_team() {
    let mut columns = Vec::new();
    for (caller, _) in COLUMNS {
        columns.push(column(caller).await);
    }
    let heads = COLUMNS.map(|(_, head)| head).join(" | ");
    let mut table = format!("| tool | {heads} |\n{}|\n", "|---".repeat(COLUMNS.len() + 1));
    for (row, tool) in TOOLS.iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
        table.push_str(&format!("| `{tool}` | {} |\n", cells.join(" | ")));
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/organisation.md");
    let docs = std::fs::read_to_string(page).unwrap();
    assert!(docs.contains(&table), "docs/organisation.md has another table than\n{table}");
}
