//! The least a durable floor needs: one writer, group commit, each row synced before anyone is
//! told.

use std::path::Path;

use anyhow::{Context, Result};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

#[derive(Clone)]
pub struct FloorStore {
    queue: mpsc::Sender<(String, oneshot::Sender<()>)>,
}

impl FloorStore {
    pub async fn open(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let mut conn = options.connect().await?;
        sqlx::query("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
            .execute(&mut conn)
            .await?;
        let (queue, jobs) = mpsc::channel(4096);
        tokio::spawn(write(conn, jobs));
        Ok(Self { queue })
    }

    /// Returns when the row is on the disk.
    pub async fn keep(&self, body: String) -> Result<()> {
        let (told, durable) = oneshot::channel();
        self.queue.send((body, told)).await.ok().context("the floor's writer is gone")?;
        durable.await.context("the floor's writer failed")
    }
}

async fn write(
    mut conn: SqliteConnection,
    mut jobs: mpsc::Receiver<(String, oneshot::Sender<()>)>,
) {
    let mut batch = Vec::new();
    while jobs.recv_many(&mut batch, 256).await > 0 {
        if commit(&mut conn, &batch).await.is_err() {
            return;
        }
        for (_, told) in batch.drain(..) {
            let _ = told.send(());
        }
    }
}

async fn commit(
    conn: &mut SqliteConnection,
    batch: &[(String, oneshot::Sender<()>)],
) -> Result<()> {
    let mut transaction = conn.begin().await?;
    for (body, _) in batch {
        let insert = sqlx::query("INSERT INTO rows (body) VALUES ($1)").bind(body);
        insert.execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}
