//! The pool of reading connections. They never wait for the writer: a hung sync leaves every
//! read as it was. A read runs in its caller's thread: it finds its rows by an index, most often
//! in memory, and is over before another thread would have begun it. For those that take longer,
//! or come in great numbers, there is `aside`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::{SqlError, StoreError};

/// Reads that may wait for a connection before further ones are turned away.
const WAITING: usize = 4096;

pub(crate) struct Readers {
    database: PathBuf,
    /// Who may use a connection now, and who may wait for one.
    running: Semaphore,
    admitted: Semaphore,
    /// Only ever locked to push or pop, never across an await.
    idle: Mutex<Vec<Conn>>,
}

impl Readers {
    pub(crate) fn new(database: PathBuf, connections: usize, first: Conn) -> Self {
        Self {
            database,
            running: Semaphore::new(connections),
            admitted: Semaphore::new(connections + WAITING),
            idle: Mutex::new(vec![first]),
        }
    }

    /// Runs `query` inside one read transaction: all its statements see the same moment.
    pub(crate) async fn read<T>(
        &self,
        query: impl AsyncFnOnce(&mut Conn) -> Result<T, SqlError>,
    ) -> Result<T, StoreError> {
        let _admitted = self.admitted.try_acquire().map_err(|error| match error {
            tokio::sync::TryAcquireError::Closed => StoreError::Closed,
            tokio::sync::TryAcquireError::NoPermits => StoreError::Busy,
        })?;
        let _running = self.running.acquire().await.map_err(|_| StoreError::Closed)?;
        let mut conn = match self.pop() {
            Some(conn) => conn,
            None => dialect::connect_reader(&self.database).await?,
        };
        // A caller that goes away before this ends drops the connection with its open
        // transaction; the next reader opens a new one.
        let (answer, usable) = in_transaction(&mut conn, query).await;
        if usable {
            self.push(conn);
        }
        Ok(answer?)
    }

    /// Refuses new reads and closes the idle connections.
    pub(crate) async fn close(&self) {
        self.admitted.close();
        self.running.close();
        let idle = std::mem::take(&mut *self.idle());
        for conn in idle {
            let _ = conn.close().await;
        }
    }

    fn pop(&self) -> Option<Conn> {
        self.idle().pop()
    }

    fn push(&self, conn: Conn) {
        if !self.running.is_closed() {
            self.idle().push(conn);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `query` inside one read transaction; whether the connection can be used afterwards.
pub(crate) async fn in_transaction<T>(
    conn: &mut Conn,
    query: impl AsyncFnOnce(&mut Conn) -> Result<T, SqlError>,
) -> (Result<T, SqlError>, bool) {
    if let Err(error) = conn.run(dialect::BEGIN_READ, &[]).await {
        return (Err(error), false);
    }
    let answer = query(conn).await;
    let ended = conn.run(dialect::ROLLBACK, &[]).await;
    let usable = answer.as_ref().err().is_none_or(|error| !error.fails_batch());
    (answer, ended.is_ok() && usable)
}
