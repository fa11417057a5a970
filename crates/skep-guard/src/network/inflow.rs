//! Bytes that have come and have not gone on yet, and how both directions of a connection go on.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::NetworkRefusal;

const PIECE: usize = 16 * 1024;
/// How long a connection may be silent.
pub(super) const IDLE: Duration = Duration::from_secs(120);

/// Carries both directions to their ends; what the client says as far as `check` lets it.
pub(super) async fn carry(
    (client, to_server): (Inflow<impl AsyncRead + Unpin>, impl AsyncWrite + Unpin),
    (server, to_client): (Inflow<impl AsyncRead + Unpin>, impl AsyncWrite + Unpin),
    check: impl FnMut(&[u8]) -> Result<usize, NetworkRefusal>,
) -> Result<(), NetworkRefusal> {
    let activity = Activity::new();
    let both = async {
        tokio::try_join!(
            client.pump(to_server, &activity, check),
            server.pump(to_client, &activity, everything),
        )
    };
    tokio::select! {
        ended = both => ended.map(drop),
        () = activity.idle(IDLE) => Ok(()),
    }
}

pub(super) fn everything(bytes: &[u8]) -> Result<usize, NetworkRefusal> {
    Ok(bytes.len())
}

/// A direction of a connection, as it is read.
#[derive(Debug)]
pub(super) struct Inflow<R> {
    stream: R,
    pub bytes: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Inflow<R> {
    pub fn new(stream: R) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    /// Whether more has come; else it has ended.
    pub async fn more(&mut self) -> io::Result<bool> {
        self.bytes.reserve(PIECE);
        Ok(self.stream.read_buf(&mut self.bytes).await? > 0)
    }

    /// Hands the first `count` bytes on.
    pub async fn pass(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        count: usize,
    ) -> io::Result<()> {
        to.write_all(&self.bytes[..count]).await?;
        self.bytes.drain(..count);
        Ok(())
    }

    /// Hands on what `check` lets pass, to the end; then the other side hears of the end.
    async fn pump(
        mut self,
        mut to: impl AsyncWrite + Unpin,
        activity: &Activity,
        mut check: impl FnMut(&[u8]) -> Result<usize, NetworkRefusal>,
    ) -> Result<(), NetworkRefusal> {
        loop {
            let count = check(&self.bytes)?;
            if self.pass(&mut to, count).await.is_err() {
                return Ok(());
            }
            activity.touch();
            if !self.more().await.unwrap_or(false) {
                let _ = to.shutdown().await;
                return Ok(());
            }
        }
    }
}

/// When bytes went through a connection last.
#[derive(Debug)]
struct Activity {
    begun: Instant,
    /// Milliseconds since then.
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self { begun: Instant::now(), last: AtomicU64::new(0) }
    }

    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Returns once nothing has gone through for so long.
    async fn idle(&self, limit: Duration) {
        loop {
            let last = self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if last.elapsed() >= limit {
                return;
            }
            tokio::time::sleep_until(last + limit).await;
        }
    }
}
