//! Connections: accepted, bounded in number and patience, and served one request at a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::TryFutureExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::door::admission::{ConnectionSlot, Peer};
use crate::door::pace::{Pace, PacedBody, PacedStream};
use crate::door::state::Doors;

/// Connections there are places for; further ones wait in the kernel until one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    network: usize,
    /// Of the local socket, apart so that the network cannot lock the owner out.
    local: usize,
}

impl Places {
    const MOST: Self = Self { network: 16_384, local: 1024 };
    /// Descriptors for everything else: the database, the log, model calls, tools.
    const OTHER: usize = 1024;

    /// As many as this process can open files for. A place that has no descriptor would make
    /// accepting fail at both doors.
    pub(crate) fn within(open_files: Option<u64>) -> Self {
        let Some(files) = open_files.and_then(|files| usize::try_from(files).ok()) else {
            return Self::MOST;
        };
        let other = Self::OTHER.min(files / 2);
        let local = Self::MOST.local.min((files - other) / 4).max(1);
        let network = Self::MOST.network.min((files - other).saturating_sub(local)).max(1);
        Self { network, local }
    }
}
/// For a whole request head, counted from when the connection became idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
const HEAD_BYTES: usize = 64 * 1024;
const HEADERS: usize = 64;
/// For a request in flight when the server stops.
const LAST_ANSWER: Duration = Duration::from_secs(2);
/// Pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes the kernel keeps for a network connection beyond those under way: megabytes otherwise, for
/// each reader that does not read.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 16 * 1024;
/// Data that the other side does not take for this long ends the connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(90);

pub(crate) async fn accept_network(
    listener: TcpListener,
    places: Places,
    router: Router,
    doors: Doors,
    shutdown: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(places.network));
    while let Some((slot, accepted)) = next(&slots, &shutdown, || listener.accept()).await {
        let Some((stream, remote)) = accepted else { continue };
        let Ok(local) = prepare(&stream) else { continue };
        let peer = Peer::Network { remote, local };
        let connection = serve(stream, peer, slot, router.clone(), shutdown.clone());
        doors.tasks.spawn(connection);
    }
}

/// `owner` is the user whose processes the socket serves.
pub(crate) async fn accept_local(
    (listener, owner): (UnixListener, u32),
    places: Places,
    router: Router,
    doors: Doors,
    shutdown: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(places.local));
    while let Some((slot, accepted)) = next(&slots, &shutdown, || listener.accept()).await {
        let Some((stream, _)) = accepted else { continue };
        let peer = match skep_guard::socket::peer_is(&stream, owner) {
            Ok(true) => Peer::Owner,
            Ok(false) | Err(_) => Peer::Stranger,
        };
        let connection = serve(stream, peer, slot, router.clone(), shutdown.clone());
        doors.tasks.spawn(connection);
    }
}

/// The next connection, or a failed attempt at one; `None` when the server stops.
async fn next<T, F: Future<Output = io::Result<T>>>(
    slots: &Arc<Semaphore>,
    shutdown: &CancellationToken,
    accept: impl FnOnce() -> F,
) -> Option<(ConnectionSlot, Option<T>)> {
    let accepting = async {
        let permit = Arc::clone(slots).acquire_owned().await.ok()?;
        match accept().await {
            Ok(accepted) => Some((ConnectionSlot::new(permit), Some(accepted))),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                Some((ConnectionSlot::new(permit), None))
            }
        }
    };
    tokio::select! {
        accepted = accepting => accepted,
        () = shutdown.cancelled() => None,
    }
}

fn prepare(stream: &TcpStream) -> io::Result<std::net::SocketAddr> {
    // Without it a streamed word waits up to 40 ms for the one before to be acknowledged.
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    skep_guard::socket::keep_little_unsent(stream, UNSENT)?;
    #[cfg(target_os = "linux")]
    {
        let millis = u32::try_from(UNACKNOWLEDGED.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    stream.local_addr()
}

async fn serve<S>(
    stream: S,
    peer: Peer,
    slot: ConnectionSlot,
    router: Router,
    shutdown: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let doors = TowerToHyperService::new(router);
    let pace = Pace::default();
    let stream = PacedStream { stream, pace: pace.clone() };
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(slot.clone());
        let pace = pace.clone();
        doors.call(request).map_ok(|answer| answer.map(|body| PacedBody { body, pace }))
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(LAST_ANSWER, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection broke");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_limit_of_open_files() {
        let cases = [
            (None, 16_384, 1024),
            (Some(1 << 20), 16_384, 1024),
            (Some(8192), 6144, 1024),
            (Some(4096), 2304, 768),
            (Some(1024), 384, 128),
            (Some(256), 96, 32),
            (Some(4), 1, 1),
            (Some(0), 1, 1),
        ];
        for (files, network, local) in cases {
            assert_eq!(Places::within(files), Places { network, local }, "{files:?}");
        }
    }
}
