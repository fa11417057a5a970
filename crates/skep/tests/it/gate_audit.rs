//! The gate through the product: what a model may not do does not happen, and one row says why.

use std::process::Command;

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::PATIENCE;

use crate::stage::{Play, Stage};

/// One row of the audit trail: tool, outcome, and the last stage that refused.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    tool: String,
    outcome: String,
    refused: Option<String>,
}

fn row(tool: &str, outcome: &str, refused: Option<&str>) -> Row {
    let refused = refused.map(str::to_owned);
    Row { tool: tool.to_owned(), outcome: outcome.to_owned(), refused }
}

/// Stops the hive in order and reads its audit trail.
async fn audit(stage: &Stage, mut play: Play) -> Vec<Row> {
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    let sql = "SELECT json_group_array(json_array(tool, outcome, json(decision))) FROM \
               (SELECT * FROM audit ORDER BY id)";
    let database = stage.home().join("run/skep.db");
    let asked = Command::new("sqlite3").arg(database).arg(sql).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let rows: Vec<(String, String, Vec<Value>)> = serde_json::from_slice(&asked.stdout).unwrap();
    let rows = rows.into_iter().map(|(tool, outcome, chain)| {
        let refused = chain.iter().find_map(|link| {
            let why = link["word"].as_str().unwrap().strip_prefix("refused: ")?;
            Some(format!("{}: {why}", link["stage"].as_str().unwrap()))
        });
        Row { tool, outcome, refused }
    });
    rows.collect()
}

#[tokio::test]
async fn gate_every_call_has_one_row_and_only_allowed_ones_have_effects() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "defaults:\n  policy: {run: deny, reach: deny, shape: deny}\n");
    stage.write("teams/main/config.yaml", "allowed_tools: ['*']\nsandbox: {level: host}\n");
    stage.write("teams/narrow/config.yaml", "allowed_tools: ['@files', look]\n");
    let play = stage.up().await;
    let mark = json!({"text": "x"});
    let touch = json!({"command": format!("touch {}/ran", stage.folder().display())});
    let table: Vec<(&str, &str, Value, &str, Row)> = vec![
        ("main", "effect", mark.clone(), "done x", row("effect", "ok", None)),
        (
            "main",
            "reach",
            mark.clone(),
            "policy_deny: ",
            row("reach", "refused", Some("policy: reach: deny")),
        ),
        (
            "main",
            "shape",
            mark.clone(),
            "policy_deny: ",
            row("shape", "refused", Some("policy: shape: deny")),
        ),
        (
            "main",
            "bash",
            touch.clone(),
            "policy_deny: the call of `bash` was not run: a call of the class `run` ",
            row("bash", "refused", Some("policy: run: deny")),
        ),
        (
            "main",
            "effect",
            json!({"text": "x", "more": 1}),
            "bad_arguments: ",
            row("effect", "refused", Some("arguments: do not fit")),
        ),
        (
            "main",
            "../effect",
            mark.clone(),
            "unknown_tool: ",
            // As a name that every vendor takes back with the session.
            row("___effect_e177fb96", "refused", Some("allow-list: unknown tool")),
        ),
        (
            "narrow",
            "effect",
            mark.clone(),
            "not_listed: the tool `effect` is not on this agent's list. This agent has: edit, \
             glob, grep, look, read, write.",
            row("effect", "refused", Some("allow-list: not listed")),
        ),
        (
            "narrow",
            "Bash",
            touch,
            "not_listed: ",
            row("bash", "refused", Some("allow-list: not listed")),
        ),
        (
            "narrow",
            "write",
            json!({"file_path": "/etc/x", "content": ""}),
            "outside_workspace: ",
            row("write", "error", None),
        ),
        (
            "narrow",
            "Write",
            json!({"file_path": "a", "content": "b"}),
            "created a: 1 bytes",
            row("write", "ok", None),
        ),
    ];
    let mut expected = Vec::new();
    for (agent, tool, arguments, says, row) in table {
        stage.model.push_all([Reply::call(tool, arguments), Reply::say("so be it")]);
        assert_eq!(play.ask(agent, "go").await["state"], "done", "{tool}");
        let result = stage.model.requests().pop().unwrap().last_tool_results().remove(0);
        assert!(result.text.starts_with(says), "{agent} {tool}: {}", result.text);
        expected.push(row);
    }
    assert_eq!(stage.effects.total().unwrap(), 1);
    assert!(!stage.folder().join("ran").exists());
    let rows = audit(&stage, play).await;
    assert_eq!(rows, expected);
    let counted = ["effect", "reach", "shape"];
    let allowed = rows.iter().filter(|row| row.outcome == "ok");
    let allowed = allowed.filter(|row| counted.contains(&row.tool.as_str())).count();
    assert_eq!(stage.effects.total().unwrap(), allowed);
}

#[tokio::test]
async fn gate_the_host_is_used_only_where_the_operator_wrote_both() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "defaults:\n  policy: {run: allow}\n  sandbox: {level: host}\n");
    stage.write("teams/main/config.yaml", "allowed_tools: [bash]\n");
    stage.write("teams/walled/config.yaml", "allowed_tools: [bash]\nsandbox: {level: confined}\n");
    let play = stage.up().await;
    let canary = stage.folder().join("canary");
    std::fs::write(&canary, "seen").unwrap();
    let look = json!({"command": format!("cat {}", canary.display())});
    for (agent, says) in [("main", "seen\n[exit code 0]"), ("walled", "cat: ")] {
        stage.model.push_all([Reply::call("bash", look.clone()), Reply::say("so be it")]);
        play.ask(agent, "look").await;
        let result = stage.model.requests().pop().unwrap().last_tool_results().remove(0);
        assert!(result.text.starts_with(says), "{agent}: {}", result.text);
    }
}

#[tokio::test]
async fn gate_fifty_calls_of_a_step_all_run_five_at_a_time() {
    let stage = Stage::new().await;
    let fifty = (0..50).fold(Reply::new(), |reply, _| reply.tool("look", json!({"ms": 5})));
    stage.model.push_all([fifty, Reply::say("all seen")]);
    let play = stage.up().await;
    assert_eq!(play.ask("main", "look").await["response"]["content"], "all seen");
    let results = stage.model.requests()[1].last_tool_results();
    assert_eq!(results.iter().filter(|result| !result.is_error).count(), 50);
    let rows = audit(&stage, play).await;
    assert_eq!(rows, (0..50).map(|_| row("look", "ok", None)).collect::<Vec<_>>());
}
