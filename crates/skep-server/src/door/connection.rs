//! Connections: accepted, bounded in number and patience, and served one request at a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::TryFutureExt;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::door::admission::{ConnectionSlot, Peer};
use crate::door::linger::{Linger, UnreadRequest};
use crate::door::lockout::whole_network;
use crate::door::pace::{Pace, PacedBody, PacedStream};
use crate::door::state::Doors;
use crate::door::strangers::Strangers;
use crate::request::{Intake, Sender};

/// Connections there are places for; further ones wait in the kernel until one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) network: usize,
    /// Of the local socket, apart so that the network cannot lock the owner out.
    pub(crate) local: usize,
}

impl Places {
    pub(crate) const MOST: Self = Self { network: 16_384, local: 1024 };
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

/// What belongs to one connection.
struct Guest {
    slot: ConnectionSlot,
    intake: Intake,
    /// Another needs its place.
    unwanted: CancellationToken,
}

/// For a whole request head, counted from when the connection became idle.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(30);
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
pub(crate) const HEADERS: usize = 64;
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
    let strangers = Strangers::within(places.network);
    while let Some((slot, accepted)) = next(&slots, &shutdown, || listener.accept()).await {
        let Some((stream, remote)) = accepted else { continue };
        let Ok(local) = prepare(&stream) else { continue };
        let peer = Peer::Network { remote, local };
        let address = whole_network(remote.ip());
        let (place, unwanted) = strangers.enter(address);
        let slot = ConnectionSlot::of_stranger(slot, place);
        let intake = Intake::new(Arc::clone(&doors.room), Sender::Stranger(address));
        let guest = Guest { slot, intake, unwanted };
        let connection = serve(stream, peer, guest, router.clone(), shutdown.clone());
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
        let intake = Intake::new(Arc::clone(&doors.room), Sender::Owner);
        let slot = ConnectionSlot::new(slot);
        let guest = Guest { slot, intake, unwanted: CancellationToken::new() };
        let connection = serve(stream, peer, guest, router.clone(), shutdown.clone());
        doors.tasks.spawn(connection);
    }
}

/// The next connection, or a failed attempt at one; `None` when the server stops.
async fn next<T, F: Future<Output = io::Result<T>>>(
    slots: &Arc<Semaphore>,
    shutdown: &CancellationToken,
    accept: impl FnOnce() -> F,
) -> Option<(OwnedSemaphorePermit, Option<T>)> {
    let accepting = async {
        let permit = Arc::clone(slots).acquire_owned().await.ok()?;
        match accept().await {
            Ok(accepted) => Some((permit, Some(accepted))),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                Some((permit, None))
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

async fn serve<S>(stream: S, peer: Peer, guest: Guest, router: Router, shutdown: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let doors = TowerToHyperService::new(router);
    let pace = Pace::default();
    let Guest { slot, intake, unwanted } = guest;
    let refused = UnreadRequest::default();
    let linger = Linger::new(refused.clone());
    let stream = PacedStream { stream, pace: pace.clone(), intake: intake.clone(), linger };
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(slot.clone());
        request.extensions_mut().insert(intake.clone());
        let (pace, intake, refused) = (pace.clone(), intake.clone(), refused.clone());
        let has_body = !request.body().is_end_stream();
        doors.call(request).map_ok(move |answer| {
            refused.note(has_body && answer.status().as_u16() >= 400);
            drop(intake.hand_over());
            answer.map(|body| PacedBody { body, pace })
        })
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(HEADERS)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(HEAD_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = unwanted.cancelled() => return,
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
    #![allow(clippy::unwrap_used)]
    use axum::http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    use super::*;

    async fn serving<S>(stream: S, router: Router) -> JoinHandle<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let slots = Arc::new(Semaphore::new(1));
        let slot = ConnectionSlot::new(slots.acquire_owned().await.unwrap());
        let intake = Intake::new(Arc::default(), Sender::Owner);
        let guest = Guest { slot, intake, unwanted: CancellationToken::new() };
        let end = CancellationToken::new();
        tokio::spawn(serve(stream, Peer::Stranger, guest, router, end))
    }

    /// The first line of what is answered to these bytes, which are sent before anything is read.
    async fn answered(
        mut client: impl AsyncRead + AsyncWrite + Unpin,
        bytes: &[u8],
    ) -> io::Result<String> {
        client.write_all(bytes).await?;
        let mut answer = Vec::new();
        while !answer.contains(&b'\n') {
            if client.read_buf(&mut answer).await? == 0 {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
    }

    /// As nginx and many other clients do: they read when all is sent.
    #[tokio::test]
    async fn a_refusal_reaches_a_client_that_still_sends() {
        let router = Router::new().fallback(|| async { StatusCode::PAYLOAD_TOO_LARGE });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let serving = serving(server, router).await;
        let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n";
        let request = [head.as_bytes(), &vec![b'x'; 5_000_000]].concat();
        let answer = answered(client, &request).await.unwrap();
        assert_eq!(answer, "HTTP/1.1 413 Payload Too Large");
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_head_is_as_long_as_the_docs_say() {
        for (bytes, expected) in [
            (HEAD_BYTES, "HTTP/1.1 404 Not Found"),
            (HEAD_BYTES + 1, "HTTP/1.1 431 Request Header Fields Too Large"),
            (2 * HEAD_BYTES - 1, "HTTP/1.1 431 Request Header Fields Too Large"),
        ] {
            let (client, server) = tokio::io::duplex(4 * HEAD_BYTES);
            let begin = "GET / HTTP/1.1\r\nHost: h\r\nX-Long: ";
            let fill = "x".repeat(bytes - begin.len() - 4);
            let head = format!("{begin}{fill}\r\n\r\n");
            assert_eq!(head.len(), bytes);
            let serving = serving(server, Router::new()).await;
            assert_eq!(answered(client, head.as_bytes()).await.unwrap(), expected, "{bytes}");
            serving.await.unwrap();
        }
    }

    /// A byte each second does not make a head.
    #[tokio::test(start_paused = true)]
    async fn a_slow_head_is_given_up() {
        let (mut client, server) = tokio::io::duplex(1024);
        let serving = serving(server, Router::new()).await;
        let begun = Instant::now();
        while client.write_all(b"X").await.is_ok() && begun.elapsed() < 2 * HEAD_TIME {
            sleep(Duration::from_secs(1)).await;
        }
        serving.await.unwrap();
        let took = begun.elapsed();
        assert!(took >= HEAD_TIME && took < HEAD_TIME + Duration::from_secs(3), "{took:?}");
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        assert!(!rest.starts_with(b"HTTP/1.1 2"), "{rest:?}");
    }

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
