//! Bytes that have come and have not gone on yet, and how both directions of a connection go on.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use super::NetworkRefusal;

const PIECE: usize = 16 * 1024;
/// How long a connection may be silent.
pub(super) const IDLE: Duration = Duration::from_secs(120);

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// Both sides had said what they wanted to.
    Whole,
    /// A side broke it off: the other one must not take what it has for all there is.
    Broken,
    Idle,
}

enum Halt {
    Refused(NetworkRefusal),
    Broken,
}

/// Carries both directions to their ends; what the client says as far as `check` lets it.
pub(super) async fn carry(
    (client, mut to_server): (Inflow<OwnedReadHalf>, OwnedWriteHalf),
    (server, to_client): (Inflow<OwnedReadHalf>, &mut OwnedWriteHalf),
    check: impl FnMut(&[u8]) -> Result<usize, NetworkRefusal>,
) -> Result<ConnectionEnd, NetworkRefusal> {
    let activity = Activity::new();
    let both = async {
        tokio::try_join!(
            client.pump(&mut to_server, &activity, check),
            server.pump(to_client, &activity, everything),
        )
    };
    let carried = tokio::select! {
        ended = both => match ended {
            Ok(_) => ConnectionEnd::Whole,
            Err(Halt::Broken) => ConnectionEnd::Broken,
            Err(Halt::Refused(refusal)) => return Err(refusal),
        },
        () = activity.idle(IDLE) => ConnectionEnd::Idle,
    };
    if carried != ConnectionEnd::Whole {
        reset(to_server);
    }
    Ok(carried)
}

/// Ends a connection so that the other side sees that it was broken off.
pub(super) fn reset(half: OwnedWriteHalf) {
    // A socket that refuses this is gone already.
    let _ = half.as_ref().set_zero_linger();
    half.forget();
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
        to: &mut OwnedWriteHalf,
        activity: &Activity,
        mut check: impl FnMut(&[u8]) -> Result<usize, NetworkRefusal>,
    ) -> Result<(), Halt> {
        loop {
            let count = check(&self.bytes).map_err(Halt::Refused)?;
            self.pass(to, count).await.map_err(|_| Halt::Broken)?;
            activity.touch();
            if !self.more().await.map_err(|_| Halt::Broken)? {
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
