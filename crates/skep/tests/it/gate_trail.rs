//! The audit trail: whatever is done to its rows, in a hive that runs or rests, `audit verify`
//! names it; and a process that ends anywhere is no finding.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use skep_testkit::wait::PATIENCE;
use skep_testkit::{Reply, locate};

use crate::fault_config;
use crate::stage::{Play, Stage};

/// Six calls, one row each, by one message.
async fn six_calls(stage: &Stage, play: &Play) {
    let look = json!({"ms": 0});
    let six = (0..5).fold(Reply::new(), |reply, _| reply.tool("look", look.clone()));
    let six = six.tool("nothing_of_that_name", look);
    stage.model.push_all([six, Reply::say("seen")]);
    assert_eq!(play.ask("main", "look").await["state"], "done");
}

fn sqlite(home: &Path, sql: &str) {
    let database = home.join("run/skep.db");
    let ran = Command::new("sqlite3").arg(database).arg(sql).output().unwrap();
    assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
}

async fn stopped(mut play: Play) {
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
}

fn named(verdict: &Value) -> Vec<(String, i64)> {
    let findings = verdict["findings"].as_array().unwrap().iter();
    let named: Vec<_> = findings
        .map(|it| (it["kind"].as_str().unwrap().to_owned(), it["row"].as_i64().unwrap()))
        .collect();
    assert_eq!(verdict["ok"], named.is_empty(), "{verdict}");
    named
}

async fn asked(play: &Play) -> Vec<(String, i64)> {
    named(&play.api().get("/api/v1/audit/verify").await.unwrap().good().unwrap())
}

/// What the program itself says, with its exit code.
fn told(home: &Path) -> (Option<i32>, Vec<(String, i64)>) {
    let mut skep = Command::new(locate::skep().unwrap());
    let ran = skep.args(["audit", "verify", "--json", "--home"]).arg(home).output().unwrap();
    let verdict = serde_json::from_slice(&ran.stdout);
    let verdict = verdict.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ran.stderr)));
    (ran.status.code(), named(&verdict))
}

const EDITS: &[(&str, &[(&str, i64)])] = &[
    ("UPDATE audit SET at = at + 1 WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET kind = 'change' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET kind = 'other' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET principal = 'somebody' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET agent = NULL WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET agent_id = agent_id + 1 WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET agent_id = NULL WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET session = 'x' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET turn = 'x' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET call_id = 'x' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET tool = 'bash' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET arguments = '{}' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET arguments = x'00ff' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET decision = '[]' WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET outcome = 'ok' WHERE id = 6", &[("changed", 6)]),
    ("UPDATE audit SET took_ms = 99999 WHERE id = 1", &[("changed", 1)]),
    ("UPDATE audit SET bytes = bytes + 1 WHERE id = 3", &[("changed", 3)]),
    ("UPDATE audit SET hash = x'00' WHERE id = 3", &[("changed", 3)]),
    ("DELETE FROM audit WHERE id = 1", &[("removed", 1)]),
    (
        "DELETE FROM audit WHERE id = 2; UPDATE audit SET kind = 'other' WHERE id = 3",
        &[("removed", 2), ("changed", 3)],
    ),
    (
        "INSERT INTO audit (id, at, kind, tool, arguments, decision, outcome, took_ms, bytes, \
         hash) SELECT -7, at, kind, 'forged', arguments, decision, outcome, took_ms, bytes, hash \
         FROM audit WHERE id = 3",
        &[("foreign", -7)],
    ),
    ("DELETE FROM audit WHERE id = 4", &[("removed", 4)]),
    ("DELETE FROM audit WHERE id IN (2, 3, 5)", &[("removed", 2), ("removed", 5)]),
    (
        "UPDATE audit SET id = -2 WHERE id = 2; UPDATE audit SET id = 2 WHERE id = 5; \
         UPDATE audit SET id = 5 WHERE id = -2",
        &[("reordered", 2), ("reordered", 5)],
    ),
    (
        "DELETE FROM audit WHERE id = 2; UPDATE audit SET id = id - 1 WHERE id = 3; \
         UPDATE audit SET id = id - 1 WHERE id = 4; UPDATE audit SET id = id - 1 WHERE id = 5; \
         UPDATE audit SET id = id - 1 WHERE id = 6",
        &[("removed", 2), ("cut_off", 6)],
    ),
    ("DELETE FROM audit WHERE id >= 5", &[("cut_off", 5)]),
    ("DELETE FROM audit", &[("cut_off", 1)]),
];

#[tokio::test]
async fn gate_whatever_is_done_to_the_trail_is_named() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    six_calls(&stage, &play).await;
    assert_eq!(asked(&play).await, []);
    assert_eq!(told(stage.home()), (Some(0), vec![]));
    let keep = "CREATE TABLE kept AS SELECT * FROM audit";
    let back = "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept";
    sqlite(stage.home(), keep);
    for (edit, expected) in EDITS {
        let expected: Vec<_> = expected.iter().map(|(kind, row)| ((*kind).into(), *row)).collect();
        sqlite(stage.home(), edit);
        assert_eq!(asked(&play).await, expected, "running: {edit}");
        sqlite(stage.home(), back);
    }
    assert_eq!(asked(&play).await, []);
    stopped(play).await;
    assert_eq!(told(stage.home()), (Some(0), vec![]));
    for (edit, expected) in EDITS {
        let expected: Vec<_> = expected.iter().map(|(kind, row)| ((*kind).into(), *row)).collect();
        sqlite(stage.home(), edit);
        assert_eq!(told(stage.home()), (Some(1), expected), "at rest: {edit}");
        sqlite(stage.home(), back);
    }
    fs::remove_file(stage.home().join("run/audit.head")).unwrap();
    assert_eq!(told(stage.home()), (Some(1), vec![("head".into(), 6)]));
}

#[tokio::test]
async fn gate_rows_cut_off_between_two_runs_stay_missing() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    six_calls(&stage, &play).await;
    stopped(play).await;
    sqlite(stage.home(), "DELETE FROM audit WHERE id >= 5");
    let play = stage.up().await;
    let missing = [("removed".to_owned(), 5), ("break".to_owned(), 7)];
    assert_eq!(asked(&play).await, missing);
    six_calls(&stage, &play).await;
    assert_eq!(asked(&play).await, missing, "and nothing else, after more rows");
    stopped(play).await;
    assert_eq!(told(stage.home()).1, missing);
    // Written anew from the first row to the last, with hashes that fit.
    fs::write(stage.home().join("run/audit.head"), format!("{:020} {}\n", 13, "ab".repeat(32)))
        .unwrap();
    let play = stage.up().await;
    let found = asked(&play).await;
    assert_eq!(found.last().unwrap(), &("break".to_owned(), 14), "{found:?}");
}

#[tokio::test]
async fn gate_a_process_that_is_killed_leaves_no_finding() {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    six_calls(&stage, &play).await;
    let head = fs::read_to_string(stage.home().join("run/audit.head")).unwrap();
    play.hive.kill().await.unwrap();
    assert_eq!(told(stage.home()), (Some(0), vec![]), "as it was left");
    // Killed between the commit of the last rows and the head; or before it ever kept one.
    let none = format!("{:020} {}\n", 0, "00".repeat(32));
    fs::write(stage.home().join("run/audit.head"), none).unwrap();
    assert_eq!(told(stage.home()), (Some(0), vec![]));
    let mut play = stage.up().await;
    assert_eq!(fs::read_to_string(stage.home().join("run/audit.head")).unwrap(), head);
    assert_eq!(asked(&play).await, []);
    play.hive.kill().await.unwrap();
}

fn exported(home: &Path) -> String {
    let mut skep = Command::new(locate::skep().unwrap());
    let ran = skep.args(["audit", "export", "--home"]).arg(home).output().unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

/// What the script in docs/audit.md says of an export.
fn by_script(export: &str) -> Result<(), String> {
    let docs = include_str!("../../../../docs/audit.md");
    let script = docs.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut python = python.spawn().unwrap();
    python.stdin.take().unwrap().write_all(export.as_bytes()).unwrap();
    let ended = python.wait_with_output().unwrap();
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8(ended.stderr).unwrap()),
    }
}

#[tokio::test]
async fn gate_an_export_can_be_verified_elsewhere_and_rows_say_who_and_why() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    six_calls(&stage, &play).await;
    six_calls(&stage, &play).await;
    let export = exported(stage.home());
    let lines: Vec<Value> = export.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let ids: Vec<i64> = lines.iter().filter_map(|line| line["id"].as_i64()).collect();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>());
    assert_eq!(by_script(&export), Ok(()));
    let changed = by_script(&export.replacen("\"principal\":\"token:", "\"principal\":\"t:", 1));
    assert!(changed.unwrap_err().contains("row 1 was changed"));
    let verdict = play.api().get("/api/v1/audit/verify").await.unwrap().good().unwrap();
    assert_eq!(verdict["hash"], lines[11]["hash"]);
    assert_eq!((&verdict["rows"], &verdict["last"]), (&json!(12), &json!(12)));

    let get = async |query: &str| {
        let page = play.api().get(&format!("/api/v1/audit?{query}")).await.unwrap();
        page.good().unwrap()
    };
    let refused = get("outcome=refused&agent=main&limit=1").await;
    let row = &refused["rows"][0];
    assert_eq!((&row["id"], &row["tool"]), (&json!(12), &json!("nothing_of_that_name")));
    assert!(row["principal"].as_str().unwrap().starts_with("token:"), "{row}");
    assert_eq!(row["arguments"], json!({"ms": 0}));
    assert_eq!(
        row["decision"],
        json!([{"stage": "allow-list", "word": "refused: unknown tool"},
        {"stage": "bound", "word": "whole"}])
    );
    let next = refused["next"].as_i64().unwrap();
    let second = get(&format!("outcome=refused&agent=main&limit=1&cursor={next}")).await;
    assert_eq!(second["rows"][0]["id"], 6);
    let turn = row["turn"].as_str().unwrap();
    let of_turn = get(&format!("turn={turn}&tool=look")).await;
    assert_eq!(of_turn["rows"].as_array().unwrap().len(), 5);
    assert_eq!(get("agent=nobody").await, json!({"rows": []}));
    assert_eq!(get("kind=decision").await["rows"], json!([]));
    let wrong = play.api().get("/api/v1/audit?kind=x").await.unwrap();
    assert_eq!(wrong.status, 400);
    let shown = Command::new(locate::skep().unwrap())
        .args(["audit", "list", "--outcome", "refused", "--home"])
        .arg(stage.home())
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(shown.contains("allow-list: refused: unknown tool"), "{shown}");
}

/// What was changed, by whom, and about whom.
fn change(row: &Value) -> (String, String, String) {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("principal"), text("agent"))
}

#[tokio::test]
async fn gate_what_people_change_is_in_the_trail() {
    let stage = Stage::new().await;
    let asks = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";
    stage.write("teams/main/config.yaml", asks);
    let play = stage.up().await;
    let me = play.principal().await;
    assert_eq!(play.audit("").await, Vec::<Value>::new(), "the first start leaves none");
    // Credentials.
    let body = json!({"name": "anna", "role": "user"});
    let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let (id, secret) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let gone = format!("/api/v1/tokens/{id}");
    assert_eq!(play.api().delete(&gone).await.unwrap().status, 204);
    assert_eq!(play.api().delete(&gone).await.unwrap().status, 404, "and no row");
    // A yes for a time, and its end.
    let wish = json!({"tool": "bash", "command": "ls", "minutes": 5});
    let path = "/api/v1/agents/main/grants";
    let grant = play.api().post(path, &wish).await.unwrap().good().unwrap();
    let grant = grant["id"].as_str().unwrap();
    assert_eq!(play.api().delete(&format!("/api/v1/grants/{grant}")).await.unwrap().status, 204);
    // A rule, by an answer; the file that holds it is read again.
    stage.model.push_all([
        Reply::new().tool("bash", json!({"command": "echo hello"})),
        Reply::say("done"),
    ]);
    let item = play.item("main", "main", "go").await;
    let asked = play.question().await;
    let always = json!({"decision": "approve", "scope": "always", "patterns": ["echo"]});
    play.decision(&asked, always).await.good().unwrap();
    play.ended("main", &item).await;
    // Files, by hand.
    let helper = "teams/helper/config.yaml";
    fault_config::noticed(&play, || stage.write(helper, "allowed_tools: []\n")).await;
    fault_config::noticed(&play, || stage.write(helper, "allowed_tools: 7\n")).await;

    let mut rows = play.audit("kind=change").await;
    rows.reverse();
    let by_me = |what: &str, agent: &str| (what.to_owned(), me.clone(), agent.to_owned());
    let by_hand = |what: &str| (what.to_owned(), String::new(), String::new());
    assert_eq!(
        rows.iter().map(change).collect::<Vec<_>>(),
        [
            by_me("token_made", ""),
            by_me("token_revoked", ""),
            by_me("granted", "main"),
            by_me("grant_revoked", "main"),
            by_me("rule_written", "main"),
            by_hand("config_applied"),
            by_hand("config_applied"),
            by_hand("config_kept"),
        ]
    );
    let named = json!({"token": id, "name": "anna", "role": "user"});
    assert_eq!(rows[1]["arguments"], named);
    let rule = json!({"effect": "allow", "tool": "bash", "path": null, "command": "echo",
                      "host": null});
    assert_eq!(rows[4]["arguments"], json!({"approval": asked["id"], "rules": [rule]}));
    assert_eq!(rows[5]["arguments"]["agents_changed"], json!(["main"]));
    assert_eq!(rows[6]["arguments"]["agents_added"], json!(["helper"]));
    assert_eq!(rows[6]["arguments"]["hive_changed"], false);
    let problem = rows[7]["arguments"]["problems"][0].as_str().unwrap();
    assert!(problem.contains("teams/helper/config.yaml:1"), "{problem}");
    let whole = json!(rows).to_string();
    assert!(!whole.contains(secret), "a token is nowhere but with its owner");
    assert_eq!(self::asked(&play).await, []);
    assert_eq!(by_script(&exported(stage.home())), Ok(()), "also rows that belong to no agent");
}
