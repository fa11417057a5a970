//! A database of the schema before the hive's columns, with every kind of row that was there, is
//! opened by this program: nothing is lost, and what was said by prefixes is said by columns.

use serde_json::json;
use skep_core::cause::{CallRef, Cause, Slash};
use skep_core::decision::Decision;
use skep_core::ids::{ApprovalId, CallId, NodeName, SessionId, TurnId};
use skep_store::inbox::NewTurn;
use skep_store::leases::{Lease, LostTurns, Recover, Take};
use skep_store::{
    Command, CommandSet, Conn, MigrationFile, OpenOptions, Row, Schema, StoreOf, approvals,
    history, outcomes,
};

use crate::lab::{self, Raw};

const NEW: Schema = <Command as CommandSet>::SCHEMA;
/// The rows below are those of this schema.
const OLD: Schema = Schema { migrations: before(NEW.migrations, 23), ..NEW };

const fn before(all: &'static [MigrationFile], version: i64) -> &'static [MigrationFile] {
    let mut older = 0;
    while all[older].version < version {
        older += 1;
    }
    all.split_at(older).0
}

skep_store::commands! {
    pub enum Before -> BeforeOutcome, OLD;
    Raw,
}

pub const AGENTS: &str = "INSERT INTO agents (id, name, created_at, status, status_reason) VALUES \
                      (1, 'main', 0, 'active', NULL), (2, 'bad', 0, 'failed', 'no key'), \
                      (3, 'gone', 0, '', NULL)";
pub const CHANNELS: &str = "INSERT INTO channels (id, principal, last_seq, delivered_seq, \
                            created_at) VALUES ('ws:1', 'operator', 3, 2, 0)";
pub const LANES: &str = "INSERT INTO lanes (id, agent, key) VALUES (1, 1, 'a')";

pub fn item(id: &str, ord: i64, state: &str) -> String {
    item_of(id, ord, 1, state, "message", "hello")
}

fn item_of(id: &str, ord: i64, lane: i64, state: &str, kind: &str, body: &str) -> String {
    format!(
        "INSERT INTO items (id, ord, agent, lane, kind, priority, message_id, principal, body, \
         ack, state, created_at) VALUES ('{id}', {ord}, 1, {lane}, '{kind}', 2, '{id}', \
         'operator', '{body}', 'queued', '{state}', 0)"
    )
}

fn frame(seq: i64) -> String {
    format!("INSERT INTO outbox VALUES ('ws:1', {seq}, 'f{seq}', 'ack', 'first', 0, '{{}}')")
}

pub async fn upgraded(folder: &std::path::Path, rows: Vec<String>) -> lab::LabStore {
    let options = OpenOptions::in_run_folder(folder);
    let old = StoreOf::<Before>::open(options, |_| {}).await.unwrap();
    old.write(Raw(rows)).await.unwrap();
    old.close().await;
    lab::open(folder).await
}

/// The columns of each row, as text.
pub async fn rows(store: &lab::LabStore, sql: &'static str, columns: usize) -> Vec<Vec<String>> {
    let read = store.read(async |conn: &mut Conn| {
        let rows = conn.rows(sql, &[]).await?;
        let text = |row: &Row| (0..columns).map(|at| row.text(at)).collect();
        rows.iter().map(text).collect()
    });
    read.await.unwrap()
}

#[tokio::test]
async fn agents_retries_and_frames_keep_what_they_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut old: Vec<String> = [AGENTS, CHANNELS, LANES].map(str::to_owned).into();
    old.extend([item("first", 1, "failed"), item("second", 2, "failed"), item("third", 3, "done")]);
    old.push("INSERT INTO retries VALUES ('second', 'first', 1), ('third', 'first', 2)".to_owned());
    old.extend([1, 2, 3].map(frame));
    let store = upgraded(folder.path(), old).await;

    let agents = "SELECT name, wanted, installed || '', coalesce(failure, '-') FROM agents \
                  ORDER BY id";
    let expected = [
        ["main", "active", "1", "-"],
        ["bad", "active", "1", "no key"],
        ["gone", "active", "0", "-"],
    ];
    assert_eq!(rows(&store, agents, 4).await, expected);

    let retries = "SELECT id, coalesce(retry_of, '-'), coalesce(retried_by, '-') FROM items \
                   ORDER BY ord";
    let expected = [["first", "-", "third"], ["second", "first", "-"], ["third", "first", "-"]];
    assert_eq!(rows(&store, retries, 3).await, expected);

    let frames = "SELECT id, item, state, attempts || '' FROM outbox ORDER BY seq";
    let expected = [
        ["f1", "first", "delivered", "0"],
        ["f2", "first", "delivered", "0"],
        ["f3", "first", "pending", "0"],
    ];
    assert_eq!(rows(&store, frames, 4).await, expected);
    let tried = "SELECT tried_seq || '' FROM channels";
    assert_eq!(rows(&store, tried, 1).await, [["2"]]);
    let buckets = "SELECT count(*) || '' FROM egress_buckets";
    assert_eq!(rows(&store, buckets, 1).await, [["0"]]);
    store.close().await;
}

fn lane_of_turn(lane: i64, turn: &str, state: &str, ended: &str) -> [String; 3] {
    [
        format!("INSERT INTO lanes (id, agent, key, token) VALUES ({lane}, 1, 'k{lane}', 1)"),
        format!(
            "INSERT INTO sessions (id, agent, key, created_at, last_at) \
             VALUES ('s{lane}', 1, 'k{lane}', 0, 0)"
        ),
        format!(
            "INSERT INTO turns (id, lane, agent, session, priority, ord, token, state, first_seq, \
             started_at, changed_at, ended_at) VALUES ('{turn}', {lane}, 1, 's{lane}', 2, {lane}, \
             1, '{state}', 1, 0, 0, {ended})"
        ),
    ]
}

fn ready_lane(lane: i64, ord: i64) -> String {
    format!(
        "INSERT INTO lanes (id, agent, key, pending, ready_priority, ready_ord) \
         VALUES ({lane}, 1, 'k{lane}', 1, 2, {ord})"
    )
}

fn call(turn: &str, id: &str, state: &str, decision: &str) -> String {
    format!(
        "INSERT INTO calls (turn, call_id, seq, position, tool, retry_safe, state, decision, \
         changed_at) VALUES ('{turn}', '{id}', 1, 0, 'bash', 0, '{state}', {decision}, 0)"
    )
}

/// A turn that asked for two calls and has ended, a waiting one with decisions, and one that the
/// process died in; behind them what was accepted and not begun.
fn old_work() -> Vec<String> {
    let body = json!({"role": "assistant", "content": [
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
    ]});
    let again = json!({"again": {"tool": "bash", "arguments": {"command": "ls"}, "turn": "asked",
                                 "call_id": "c1", "asked_by": ["anna", "ben"]}});
    let yes = json!({"approval": "p2", "approve": true, "by": "operator", "note": null});
    let no = json!({"approval": "p3", "approve": false, "by": "carl", "note": "it's late"});
    let quoted = |text: &serde_json::Value| format!("'{}'", text.to_string().replace('\'', "''"));
    let mut old = vec![AGENTS.to_owned(), CHANNELS.to_owned()];
    old.extend(lane_of_turn(1, "asked", "ended", "5"));
    old.extend([item("a1", 1, "done"), item("a2", 2, "done")]);
    old.push("UPDATE items SET turn = 'asked', principal = 'anna' WHERE id = 'a1'".to_owned());
    old.push("UPDATE items SET turn = 'asked', principal = 'ben' WHERE id = 'a2'".to_owned());
    old.push(format!(
        "INSERT INTO history (session, seq, id, turn, at, spoken, body) \
         VALUES ('s1', 1, 'h1', 'asked', 0, 0, '{body}')"
    ));
    old.push(call("asked", "c1", "unknown", "NULL"));
    old.extend(lane_of_turn(2, "waits", "waiting", "NULL"));
    old.push(item_of("w1", 3, 2, "waiting", "message", "hello"));
    old.push("UPDATE items SET turn = 'waits' WHERE id = 'w1'".to_owned());
    old.push(call("waits", "c1", "waiting", &quoted(&yes)));
    old.push(call("waits", "c2", "waiting", &quoted(&no)));
    old.push(call("waits", "c3", "waiting", &quoted(&json!({"blue": [1]}))));
    old.push(call("waits", "c4", "waiting", "'7'"));
    old.extend(lane_of_turn(3, "died", "running", "NULL"));
    old.push(item_of("d1", 4, 3, "running", "message", "It runs again."));
    old.push(format!(
        "UPDATE items SET turn = 'died', principal = 'anna', again = {} WHERE id = 'd1'",
        quoted(&again)
    ));
    old.extend([ready_lane(4, 5), item_of("e1", 5, 4, "pending", "message", "Approved now.")]);
    old.push(
        "INSERT INTO approvals (id, agent, session, session_key, turn, call_id, tool, class, \
         arguments, cwd, files, hash, why, state, reopened, asked_by, asked_at, expires_at, \
         pattern) VALUES ('p1', 1, 's1', 'k1', 'asked', 'c1', 'bash', 'run', '{}', '/', '[]', \
         'h', '{}', 'approved', 1, 'anna, ben', 0, 9, 'echo \"a\"')"
            .to_owned(),
    );
    old.push(
        "UPDATE items SET principal = 'approval:p1', approval = 'p1' WHERE id = 'e1'".to_owned(),
    );
    let line = "  /Compact\tthe plan\nand more ";
    old.extend([ready_lane(5, 6), item_of("f1", 6, 5, "pending", "command", line)]);
    let ended = ["/stop", "/ABORT now", "/new", "/model fast", "/think", "/status", "/etc/x y"];
    for (ord, line) in (7..).zip(ended) {
        old.push(item_of(line, ord, 1, "done", "command", line));
    }
    old.push(
        "UPDATE agents SET pending = 2, running = 1, waiting = 1, turns = 2, ready_priority = 2 \
         WHERE id = 1"
            .to_owned(),
    );
    old
}

async fn take(store: &lab::LabStore, number: i64, only: Option<&str>) -> Lease {
    let slot = NewTurn {
        turn: TurnId(format!("new{number}")),
        session: SessionId(format!("new{number}")),
        idle_ms: 1000,
        node: NodeName::new("n"),
    };
    let take = Take { slot, only: only.map(TurnId::new), admits: None, now: 10 };
    *store.write(take).await.unwrap().unwrap()
}

async fn asked_by(store: &lab::LabStore, turn: &TurnId) -> Vec<String> {
    store.read(async |conn| approvals::asked_by(conn, turn).await).await.unwrap()
}

#[tokio::test]
async fn items_and_decisions_go_on_as_what_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let store = upgraded(folder.path(), old_work()).await;
    let recover = Recover { node: NodeName::new("n"), lost: LostTurns::AtStart, now: 10 };
    assert_eq!(store.write(recover).await.unwrap(), 1);

    let died = take(&store, 1, Some("died")).await;
    let again = CallRef { turn: TurnId::new("asked"), call: CallId::new("c1") };
    assert_eq!(died.cause, Cause::Again(again.clone()));
    let made = store.read(async |conn| outcomes::made(conn, &again).await).await.unwrap();
    assert_eq!(made, Some(("bash".to_owned(), json!({"command": "ls"}))));
    assert_eq!(asked_by(&store, &died.turn).await, ["anna", "ben"]);
    let kept = store.read(async |conn| approvals::find(conn, "p1").await).await.unwrap().unwrap();
    assert_eq!(kept.patterns, Some(vec!["echo \"a\"".to_owned()]));

    let waits = take(&store, 2, Some("waits")).await;
    assert_eq!(waits.cause, Cause::Message);
    let calls = store.read(async |conn| history::calls(conn, &waits.turn).await).await.unwrap();
    let mut decisions: Vec<_> =
        calls.into_iter().map(|call| (call.call_id.0, call.decision.unwrap())).collect();
    decisions.sort_by(|one, other| one.0.cmp(&other.0));
    let approval = |id: &str, approve, by: &str, note: Option<&str>| Decision::Approval {
        id: ApprovalId::new(id),
        approve,
        by: by.to_owned(),
        note: note.map(str::to_owned),
    };
    let expected = [
        ("c1".to_owned(), approval("p2", true, "operator", None)),
        ("c2".to_owned(), approval("p3", false, "carl", Some("it's late"))),
        ("c3".to_owned(), Decision::Tool(json!({"blue": [1]}))),
        ("c4".to_owned(), Decision::Tool(json!(7))),
    ];
    assert_eq!(decisions, expected);

    let approved = take(&store, 3, None).await;
    assert_eq!(approved.cause, Cause::Approved(ApprovalId::new("p1")));
    assert_eq!(asked_by(&store, &approved.turn).await, ["anna", "ben"]);
    let origin = "SELECT origin_principal, principal FROM items WHERE id = 'e1'";
    assert_eq!(rows(&store, origin, 2).await, [["anna", "approval:p1"]]);

    let compact = take(&store, 4, None).await;
    let keep = Some("the plan\nand more".to_owned());
    assert_eq!(compact.cause, Cause::Command(Slash::Compact { keep }));

    let commands = "SELECT id, kind, cause FROM items WHERE ord > 6 ORDER BY ord";
    let expected = [
        ("/stop", Slash::Stop),
        ("/ABORT now", Slash::Stop),
        ("/new", Slash::New { rest: None }),
        ("/model fast", Slash::Model { wanted: Some("fast".to_owned()) }),
        ("/think", Slash::Think { wanted: None }),
        ("/status", Slash::Status),
        ("/etc/x y", Slash::Unknown { word: "/etc/x".to_owned() }),
    ];
    let found = rows(&store, commands, 3).await;
    assert_eq!(found.len(), expected.len());
    for (row, (line, slash)) in found.iter().zip(expected) {
        assert_eq!(row[0], line);
        assert_eq!(Cause::read(&row[1], Some(&row[2])), Ok(Cause::Command(slash)));
    }
    store.close().await;
}

/// Migration 30 writes the same checks in other words.
#[tokio::test]
async fn a_column_of_words_takes_no_other_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut old = old_work();
    old.push(frame(1));
    old.push("INSERT INTO requests VALUES ('ws:1', 'm1', x'00', 'a1', 7)".to_owned());
    let store = upgraded(folder.path(), old).await;
    let lists = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN \
                 ('items', 'turns', 'outbox', 'calls') AND (sql LIKE '%state IN (%' \
                 OR sql LIKE '%resolved IN (%')";
    assert_eq!(rows(&store, lists, 1).await, Vec::<Vec<String>>::new());
    let ids = "SELECT scope, id, item, created_at || '', coalesce(answer, '-') FROM requests";
    assert_eq!(rows(&store, ids, 5).await, [["ws:1", "m1", "a1", "7", "-"]]);
    let words = [
        ("items", "state", "dead"),
        ("turns", "state", "ready"),
        ("turns", "cancel", "stop"),
        ("outbox", "state", "refused"),
        ("calls", "state", "planned"),
        ("calls", "resolved", "did_not"),
    ];
    for (table, column, word) in words {
        let set = |word| Raw(vec![format!("UPDATE {table} SET {column} = '{word}'")]);
        assert!(store.write(set("other")).await.is_err(), "{table}.{column}");
        store.write(set(word)).await.unwrap();
    }
    store.close().await;
}
