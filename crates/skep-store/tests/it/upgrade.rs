//! A database of the schema before the hive's columns, with every kind of row that was there, is
//! opened by this program: nothing is lost, and what was said by prefixes is said by columns.

use skep_store::{Command, CommandSet, Conn, MigrationFile, OpenOptions, Row, Schema, StoreOf};

use crate::lab::{self, Raw};

const NEW: Schema = <Command as CommandSet>::SCHEMA;
/// Without the newest.
const OLD: Schema = Schema {
    migrations: match NEW.migrations.split_last() {
        Some((MigrationFile { version: 23, .. }, before)) => before,
        _ => panic!("the rows below are those of the schema before 23"),
    },
    ..NEW
};

skep_store::commands! {
    pub enum Before -> BeforeOutcome, OLD;
    Raw,
}

const AGENTS: &str = "INSERT INTO agents (id, name, created_at, status, status_reason) VALUES \
                      (1, 'main', 0, 'active', NULL), (2, 'bad', 0, 'failed', 'no key'), \
                      (3, 'gone', 0, '', NULL)";
const CHANNELS: &str = "INSERT INTO channels (id, principal, last_seq, delivered_seq, created_at) \
                        VALUES ('ws:1', 'operator', 3, 2, 0)";
const LANES: &str = "INSERT INTO lanes (id, agent, key) VALUES (1, 1, 'a')";

fn item(id: &str, ord: i64, state: &str) -> String {
    format!(
        "INSERT INTO items (id, ord, agent, lane, kind, priority, message_id, principal, body, \
         ack, state, created_at) VALUES ('{id}', {ord}, 1, 1, 'message', 2, '{id}', 'operator', \
         'hello', 'queued', '{state}', 0)"
    )
}

fn frame(seq: i64) -> String {
    format!("INSERT INTO outbox VALUES ('ws:1', {seq}, 'f{seq}', 'ack', 'first', 0, '{{}}')")
}

async fn upgraded(folder: &std::path::Path, rows: Vec<String>) -> lab::LabStore {
    let options = OpenOptions::in_run_folder(folder);
    let old = StoreOf::<Before>::open(options, |_| {}).await.unwrap();
    old.write(Raw(rows)).await.unwrap();
    old.close().await;
    lab::open(folder).await
}

/// The columns of each row, as text.
async fn rows(store: &lab::LabStore, sql: &'static str, columns: usize) -> Vec<Vec<String>> {
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
    store.close().await;
}
