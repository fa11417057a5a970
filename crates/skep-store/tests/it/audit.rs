//! The audit trail: a row stands and falls with the result it belongs to.

use serde_json::json;
use skep_core::engine::Capabilities;
use skep_core::event::CallState;
use skep_core::ids::*;
use skep_core::message::Body;
use skep_core::settings::QueueMode;
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::history::NewMessage;
use skep_store::inbox::{Accept, Accepted, Letter, Slot};
use skep_store::journal::{Audit, Entry, Journal, NewCall};
use skep_store::leases::Lease;
use skep_store::{OpenOptions, Store};

async fn leased(store: &Store) -> Lease {
    let agents = vec![NewAgent { name: AgentName::new("main"), failed: None }];
    let agent = store.write(RegisterAgents { agents, now: 1 }).await.unwrap()[0].1;
    let letter = Letter {
        item: ItemId::new("i"),
        message_id: MessageId::new("i"),
        agent,
        agent_name: AgentName::new("main"),
        session_key: SessionKey::new("main"),
        principal: Principal::new("operator"),
        channel: None,
        text: "go".into(),
        note: None,
        think: None,
        files: Vec::new(),
        request: None,
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
    let slot = Slot { turn: TurnId::new("t"), session: SessionId::new("s"), idle_ms: 1000 };
    let (mode, take) = (QueueMode::Queue, Some(slot));
    match store
        .write(Accept { letter, mode, engine, take, fresh: false, order: false })
        .await
        .unwrap()
    {
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
    let message = NewMessage { id: row.to_owned(), body };
    Entry::Result { message, call, state: CallState::Done, audit: Some(audit) }
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
        message: NewMessage { id: "m".into(), body: Body::assistant(Vec::new(), None) },
        calls: vec![NewCall { id: CallId::new("c"), tool: "write".into(), retry_safe: false }],
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
