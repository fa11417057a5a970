//! One content is kept once, as long as somebody refers to it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use rusqlite::Connection;
use skep_core::cause::Cause;
use skep_core::engine::Capabilities;
use skep_core::ids::*;
use skep_core::message::{Block, Body};
use skep_core::settings::QueueMode;

use super::*;
use crate::tables::agents::{NewAgent, RegisterAgents};
use crate::tables::history::{self, NewHistoryRow};
use crate::tables::inbox::{Accept, Accepted, Letter, NewTurn};
use crate::tables::journal::{Entry, Journal};
use crate::tables::leases::Lease;
use crate::tables::retention::Expire;
use crate::{OpenOptions, Refusal, Store, StoreError};

async fn open(folder: &Path) -> Store {
    Store::open(OpenOptions::in_run_folder(folder), |_| {}).await.unwrap()
}

/// Takes a message in; its turn begins with it when the lane is free.
async fn accept(store: &Store, number: usize, files: Vec<File>) -> Option<Lease> {
    let agents = vec![NewAgent::root(AgentName::new("main"))];
    let agent = store.write(RegisterAgents { agents, now: 1 }).await.unwrap()[0].1;
    let id = format!("i{number}");
    let letter = Letter {
        item: ItemId::new(&id),
        message_id: MessageId::new(&id),
        agent,
        agent_name: AgentName::new("main"),
        session_key: SessionKey::new("main"),
        cause: Cause::Message,
        principal: Principal::new("operator"),
        origin: None,
        channel: None,
        skill: None,
        think: None,
        text: "look".to_owned(),
        note: None,
        files,
        request: None,
        room: None,
        now: 5,
    };
    let engine = Capabilities {
        queue_while_streaming: true,
        interrupt: true,
        tool_events: true,
        full_history: true,
        approvals: false,
        own_tools: false,
    };
    let (turn, session) = (TurnId(format!("t{number}")), SessionId(format!("s{number}")));
    let take = Some(NewTurn { turn, session, idle_ms: 1000, node: NodeName::new("n") });
    let accept = Accept { letter, mode: QueueMode::Queue, engine, take, fresh: false };
    match store.write(accept).await.unwrap() {
        Accepted::Started { lease } => Some(*lease),
        _ => None,
    }
}

fn result(lease: &Lease, files: Vec<File>) -> Journal {
    let content = files.into_iter().map(Block::File).collect();
    let message = NewHistoryRow::new("m1".to_owned(), Body::assistant(content, None));
    let entries = vec![Entry::Assistant { message, calls: Vec::new() }];
    let (turn, token) = (lease.turn.clone(), lease.token);
    Journal { turn, token, entries, steer: true, active_ms: 1, now: 6 }
}

/// How many contents there are, and how often each is referred to.
async fn uses(store: &Store) -> Vec<i64> {
    let read = store.read(async |conn| {
        let rows = conn.rows("SELECT uses FROM files ORDER BY uses", &[]).await?;
        rows.iter().map(|row| row.int(0)).collect()
    });
    read.await.unwrap()
}

async fn expire(store: &Store, files_before: i64) -> bool {
    let (events_before, frames_before, frames_after, ids_before) = (0, 0, String::new(), 0);
    let (audit_before, now) = (0, 0);
    let expire = Expire {
        events_before,
        frames_before,
        frames_after,
        ids_before,
        files_before,
        audit_before,
        now,
    };
    store.write(expire).await.unwrap().is_some()
}

#[tokio::test]
async fn a_content_is_kept_once_and_let_go_with_its_last_reader() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let (bee, wasp) = (File::new("bee", "text/plain", &b"bee"[..]), &b"wasp"[..]);
    let wasp = File::new("wasp", "text/plain", wasp);
    let lease = accept(&store, 1, vec![bee.clone(), wasp.clone()]).await.unwrap();
    accept(&store, 2, vec![File { name: "again".to_owned(), ..bee.clone() }]).await;
    // Two items, the first message, the answer, and the second message that joins the turn.
    let written = store.write(result(&lease, vec![bee.without_data()])).await.unwrap();
    assert_eq!(written.steered[0].body.files().next().unwrap().name, "again");
    assert_eq!(uses(&store).await, [2, 5]);
    assert!(!expire(&store, i64::MAX).await);

    let (name, session) = (AgentName::new("main"), lease.session.clone());
    let read = store.read(async |conn| {
        let mut rows = history::whole(conn, &name, &session, 0).await?;
        let stored = serde_json::to_string(&rows).unwrap();
        fill(conn, rows.iter_mut(), |file| file.name != "wasp").await?;
        Ok((rows, stored))
    });
    let (rows, stored) = read.await.unwrap();
    assert!(!stored.contains("data"), "{stored}");
    let filled = rows.iter().flat_map(|row| row.body.files()).map(|file| file.data.clone());
    let data = bee.data.clone();
    assert_eq!(filled.collect::<Vec<_>>(), [data.clone(), None, data.clone(), data]);

    store.close().await;
    let conn = Connection::open(folder.path().join("skep.db")).unwrap();
    for sql in ["DELETE FROM history WHERE seq > 1", "DELETE FROM item_files"] {
        conn.execute(sql, []).unwrap();
    }
    conn.close().unwrap();
    let store = open(folder.path()).await;
    assert_eq!(uses(&store).await, [1, 1]);
    assert!(!expire(&store, i64::MAX).await);
    store.close().await;
    let conn = Connection::open(folder.path().join("skep.db")).unwrap();
    conn.execute("DELETE FROM history", []).unwrap();
    conn.close().unwrap();
    let store = open(folder.path()).await;
    assert!(!expire(&store, 5).await, "it came at 5");
    assert!(expire(&store, 6).await);
    assert_eq!(uses(&store).await, Vec::<i64>::new());
    store.close().await;
}

#[tokio::test]
async fn a_row_cannot_speak_of_a_content_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = accept(&store, 1, Vec::new()).await.unwrap();
    let unknown = File::new("bee", "text/plain", &b"bee"[..]).without_data();
    let refused = store.write(result(&lease, vec![unknown])).await;
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::Sql(_)))), "{:?}", refused.err());
    store.close().await;
}
