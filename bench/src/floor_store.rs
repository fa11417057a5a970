//! The least a durable floor needs, written like the product's own store access: one thread with
//! one connection, group commit, the same settings; each row is synced before anyone is told.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, oneshot};

/// As `dialect.rs` of `skep-store` has them for its writer.
const SETTINGS: &str = "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; \
                        PRAGMA synchronous = FULL; \
                        PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 16384; \
                        PRAGMA cache_size = -8192; \
                        PRAGMA journal_size_limit = 67108864;";
const TABLE: &str = "CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO rows (body) VALUES (?1)";
const BATCH: usize = 256;

type Job = (String, oneshot::Sender<()>);

#[derive(Clone)]
pub struct FloorStore {
    queue: mpsc::Sender<Job>,
}

impl FloorStore {
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.execute_batch(SETTINGS)?;
        conn.execute_batch(TABLE)?;
        let (queue, jobs) = mpsc::channel(4096);
        let runtime = tokio::runtime::Handle::current();
        let thread = std::thread::Builder::new().name("floor-writer".to_owned());
        thread.spawn(move || {
            if let Err(error) = runtime.block_on(write(&conn, jobs)) {
                eprintln!("the floor's writer failed: {error:#}");
            }
        })?;
        Ok(Self { queue })
    }

    /// Returns when the row is on the disk.
    pub async fn keep(&self, body: String) -> Result<()> {
        let (told, durable) = oneshot::channel();
        self.queue.send((body, told)).await.ok().context("the floor's writer is gone")?;
        durable.await.context("the floor's writer failed")
    }
}

/// A batch is what queued up during the commit before.
async fn write(conn: &Connection, mut jobs: mpsc::Receiver<Job>) -> Result<()> {
    let mut batch = Vec::new();
    while jobs.recv_many(&mut batch, BATCH).await > 0 {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = conn.prepare_cached(INSERT)?;
        for (body, _) in &batch {
            insert.execute([body])?;
        }
        conn.prepare_cached("COMMIT")?.execute([])?;
        for (_, told) in batch.drain(..) {
            let _ = told.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_kept_stands_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floor.db");
        let store = FloorStore::open(&path).unwrap();
        let all = (0..300).map(|number| store.keep(format!("row {number}")));
        for kept in futures_util::future::join_all(all).await {
            kept.unwrap();
        }
        let other = Connection::open(&path).unwrap();
        let count = "SELECT count(DISTINCT body) FROM rows";
        assert_eq!(other.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 300);
    }
}
