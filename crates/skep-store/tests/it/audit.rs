//! The audit trail: a row stands and falls with the result it belongs to.

use serde_json::json;
use skep_core::audit::{AuditKind, AuditRow, AuditVerdict};
use skep_core::cause::Cause;
use skep_core::engine::Capabilities;
use skep_core::event::CallState;
use skep_core::ids::*;
use skep_core::message::Body;
use skep_core::settings::QueueMode;
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::audit::AddAudit;
use skep_store::history::NewHistoryRow;
use skep_store::inbox::{Accept, Accepted, Letter, NewTurn};
use skep_store::journal::{Audit, Entry, Journal, NewCall};
use skep_store::leases::Lease;
use skep_store::retention::Expire;
use skep_store::{OpenOptions, Store, StoreOf};

use crate::lab::Raw;
use crate::sessions::Old;

async fn leased(store: &Store) -> Lease {
    let agents = vec![NewAgent::root(AgentName::new("main"))];
    let agent = store.write(RegisterAgents { agents, now: 1 }).await.unwrap()[0].1;
    let letter = Letter {
        item: ItemId::new("i"),
        message_id: MessageId::new("i"),
        agent,
        agent_name: AgentName::new("main"),
        session_key: SessionKey::new("main"),
        cause: Cause::Message,
        principal: Principal::new("operator"),
        origin: None,
        channel: None,
        text: "go".into(),
        note: None,
        skill: None,
        think: None,
        files: Vec::new(),
        request: None,
        room: None,
        now: 2,
    };
    let engine = Capabilities {
        queue_while_streaming: true,
        interrupt: true,
        tool_events: true,
        full_history: true,
        approvals: true,
        own_tools: false,
    };
    let (turn, session) = (TurnId::new("t"), SessionId::new("s"));
    let slot = NewTurn { turn, session, idle_ms: 1000, node: NodeName::new("n") };
    let (mode, take) = (QueueMode::Queue, Some(slot));
    match store.write(Accept { letter, mode, engine, take, fresh: false }).await.unwrap() {
        Accepted::Started { lease } => *lease,
        _ => panic!("the lane was free"),
    }
}

fn result(row: &str) -> Entry {
    let call = CallId::new("c");
    let audit = Audit {
        call: call.clone(),
        tool: "write".into(),
        arguments: json!({"file_path": "a"}),
        decision: "[]".into(),
        outcome: "refused",
        took_ms: 5,
        bytes: 6,
    };
    let body = Body::tool_result(call.clone(), "write", "no".into(), true);
    let message = NewHistoryRow::new(row.to_owned(), body);
    Entry::Result { message, call, state: CallState::Done, audit: Some(Box::new(audit)) }
}

#[tokio::test]
async fn audit_rows_come_with_their_result_and_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(OpenOptions::in_run_folder(folder.path()), |_| {}).await.unwrap();
    let lease = leased(&store).await;
    let journal = |token: Token, entries: Vec<Entry>| {
        let turn = lease.turn.clone();
        store.write(Journal { turn, token, entries, steer: false, active_ms: 0, now: 3 })
    };
    let said = Entry::Assistant {
        message: NewHistoryRow::new("m".into(), Body::assistant(Vec::new(), None)),
        calls: vec![NewCall {
            id: CallId::new("c"),
            tool: "write".into(),
            retry_safe: false,
            decision: None,
            own: false,
        }],
    };
    journal(lease.token, vec![said]).await.unwrap();
    let stale = Token(lease.token.0 + 1);
    assert!(journal(stale, vec![result("r0")]).await.is_err(), "another's token");
    journal(lease.token, vec![result("r1")]).await.unwrap();
    assert!(journal(lease.token, vec![result("r2")]).await.is_err(), "a second result");
    let rows = store.read(async |conn| {
        let sql = "SELECT turn || ' ' || call_id || ' ' || tool || ' ' || arguments || ' ' || \
                   decision || ' ' || outcome || ' ' || took_ms || ' ' || bytes FROM audit";
        conn.rows(sql, &[]).await?.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(rows.await.unwrap(), ["t c write {\"file_path\":\"a\"} [] refused 5 6"]);
}

fn noted(at: i64) -> AddAudit {
    AddAudit { row: AuditRow::new(AuditKind::Change, at, "done") }
}

async fn verified(store: &Store) -> (bool, i64, i64, i64) {
    let AuditVerdict { ok, rows, first, last, .. } = store.verify_audit().await.unwrap();
    (ok, rows, first, last)
}

#[tokio::test]
async fn audit_rows_are_let_go_at_a_checkpoint_and_the_rest_still_holds() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::in_run_folder(folder.path());
    let store = Store::open(options.clone(), |_| {}).await.unwrap();
    for at in 1..=10 {
        store.write(noted(at)).await.unwrap();
    }
    let expire = |audit_before| Expire {
        events_before: 0,
        frames_before: 0,
        frames_after: String::new(),
        ids_before: 0,
        files_before: 0,
        audit_before,
        now: 11,
    };
    assert!(store.write(expire(5)).await.unwrap().is_none());
    assert_eq!(verified(&store).await, (true, 7, 5, 11), "five and later, and the checkpoint");
    assert!(store.write(expire(5)).await.unwrap().is_none());
    assert_eq!(verified(&store).await, (true, 7, 5, 11), "nothing to let go, nothing to tell");
    assert!(store.write(expire(11)).await.unwrap().is_none());
    assert_eq!(verified(&store).await, (true, 2, 11, 12));
    store.write(noted(12)).await.unwrap();
    store.close().await;
    let store = Store::open(options, |_| {}).await.unwrap();
    assert_eq!(verified(&store).await, (true, 3, 11, 13));
}

#[tokio::test]
async fn audit_rows_of_older_versions_are_sealed_when_they_are_first_opened() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::in_run_folder(folder.path());
    let old = StoreOf::<Old>::open(options.clone(), |_| {}).await.unwrap();
    let row = "INSERT INTO audit (at, turn, agent, call_id, tool, arguments, decision, outcome, \
               took_ms, bytes) VALUES (5, 't', 1, 'c', 'bash', '{}', '[]', 'ok', 1, 2)";
    old.write(Raw(vec![row.to_owned(); 700])).await.unwrap();
    old.close().await;
    assert!(Store::verify_closed_audit(&options).await.is_err(), "there is no chain yet");
    let store = Store::open(options.clone(), |_| {}).await.unwrap();
    assert_eq!(store.report().trail, None);
    assert_eq!(verified(&store).await, (true, 700, 1, 700));
    store.write(noted(6)).await.unwrap();
    store.close().await;
    let verdict = Store::verify_closed_audit(&options).await.unwrap().unwrap();
    assert_eq!((verdict.ok, verdict.rows), (true, 701));
    let head = std::fs::read_to_string(&options.audit_head).unwrap();
    assert_eq!(head, format!("{:020} {}\n", 701, verdict.hash));
}

#[tokio::test]
async fn audit_a_foreign_row_stops_nobody_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(OpenOptions::in_run_folder(folder.path()), |_| {}).await.unwrap();
    store.write(noted(1)).await.unwrap();
    let database = folder.path().join("skep.db");
    let forged = "INSERT INTO audit SELECT 2, at, kind, principal, agent, session, turn, call_id, \
                  tool, arguments, decision, outcome, took_ms, bytes, hash, agent_id FROM audit";
    let ran = std::process::Command::new("sqlite3").arg(database).arg(forged).status().unwrap();
    assert!(ran.success());
    store.write(noted(3)).await.unwrap();
    let verdict = store.verify_audit().await.unwrap();
    let named: Vec<_> = verdict.findings.iter().map(|it| (it.kind.as_str(), it.row)).collect();
    assert_eq!((verdict.rows, named), (3, vec![("changed", 2)]));
}
