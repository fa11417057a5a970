//! The server: bound first, so that what is in the way is said before anything runs; then served
//! until it is told to stop.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use skep_core::role::Role;
use skep_core::settings::ServerSettings;
use skep_guard::{limits, socket};
use skep_runtime::Hive;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channel::event_texts::EventTexts;
use crate::channel::hub::{Feed, Hub};
use crate::door::{
    CallTimes, Calls, DoorState, Doors, Lockout, Metrics, Places, Rates, Site, Standing, connection,
};
use crate::rest::events;
use crate::routes;

/// Connections the kernel keeps for us while we accept others: a storm of clients coming back.
const BACKLOG: i32 = 4096;
/// After this long from the moment they were told, connections that are still open are left to
/// the end of the process.
const LAST_CONNECTIONS: Duration = Duration::from_millis(4500);
/// For answers of the last moment, when the hive took all of that time.
const LAST_MOMENT: Duration = Duration::from_millis(300);

#[derive(Clone, Debug)]
pub struct BindOptions {
    pub home: PathBuf,
    /// Where the local socket is; the caller holds the lock in it.
    pub run: PathBuf,
    /// The operator knows that tokens cross the network in plain text.
    pub insecure_bind: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "cannot listen on {address}: another program has this port. \
         Choose another one with --port or server.port in skep.yaml"
    )]
    PortTaken { address: SocketAddr },
    #[error(
        "will not listen on {bind}: it can be reached from other machines and the connection is \
         not encrypted. Use 127.0.0.1 with a TLS proxy in front, or --insecure-bind if the \
         network is yours"
    )]
    TooWide { bind: IpAddr },
    #[error("cannot listen on {address}: {source}. Check server.bind and server.port in skep.yaml")]
    Address { address: SocketAddr, source: io::Error },
    #[error("cannot open the local socket in {run}: {source}. Check who owns the folder")]
    LocalSocket { run: String, source: io::Error },
}

/// The port and the local socket, taken. Nothing is answered yet.
pub struct Listeners {
    address: SocketAddr,
    network: TcpListener,
    local: UnixListener,
    file: SocketFile,
    home: PathBuf,
    owner: u32,
}

/// The local socket's file. One that nobody answers would only puzzle people, so it goes when
/// the server does; the next start would remove it too.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, "the local socket's file stays");
        }
    }
}

pub struct Server {
    network: TcpListener,
    /// With the user whose processes it serves.
    local: (UnixListener, u32),
    file: SocketFile,
    doors: Doors,
    feed: Feed,
}

impl Listeners {
    /// Takes the port and the local socket, before a hive is opened for them.
    pub fn open(settings: &ServerSettings, options: BindOptions) -> Result<Self, BindError> {
        let BindOptions { home, run, insecure_bind } = options;
        if !settings.bind.is_loopback() && !insecure_bind {
            return Err(BindError::TooWide { bind: settings.bind });
        }
        let wanted = SocketAddr::new(settings.bind, settings.port);
        let network = listen(wanted).map_err(|error| refusal(wanted, error))?;
        let address = network.local_addr().map_err(|error| refusal(wanted, error))?;
        let in_run = |source| BindError::LocalSocket { run: run.display().to_string(), source };
        let owner = socket::owner(&home).map_err(in_run)?;
        let local = socket::bind(&run).map_err(in_run)?;
        let file = SocketFile(run.join(socket::SOCKET_NAME));
        Ok(Self { address, network, local, file, home, owner })
    }

    /// Where the network door is, from this machine; with port 0 in the settings, the port that
    /// was found.
    pub fn address(&self) -> SocketAddr {
        from_here(self.address)
    }
}

impl Server {
    /// A link to the page that signs one browser in, once, within ten minutes.
    pub fn sign_in_link(&self) -> String {
        let role = Role::Operator;
        self.doors.site.link(&self.doors.hive.new_link(role.as_str(), role))
    }

    /// Registers the WebSocket channel with the hive.
    pub fn new(
        listening: Listeners,
        settings: &ServerSettings,
        hive: Hive,
        times: CallTimes,
    ) -> Self {
        let address = listening.address();
        let Listeners { network, local, file, home, owner, .. } = listening;
        let (hub, feed) = Hub::new(hive.events());
        hive.add_channel(hub.clone());
        let doors = Arc::new(DoorState {
            site: Site::new(settings, address, &home),
            ws_enabled: settings.ws_enabled,
            calls: Calls::new(times),
            metrics: Metrics::new(&hive),
            stream_texts: EventTexts::new(events::text),
            hive,
            home,
            lockout: Lockout::new(),
            rates: Rates::default(),
            room: Arc::default(),
            standing: Standing::default(),
            hub,
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        Self { network, local: (local, owner), file, doors, feed }
    }

    /// Answers until `shutdown`. When the hive says that it stops, which may be earlier, sockets
    /// are closed and event streams and waits end, while short requests are still answered.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { network, local, file, doors, feed } = self;
        // Before a client can ask again for what it waited for.
        doors.calls.adopt(&doors).await;
        let router = routes::router(Arc::clone(&doors));
        let closing = doors.closing.clone();
        let stopping = doors.hive.stopping();
        let route = Arc::clone(&doors.hub).route(doors.hive.clone(), feed, closing.clone());
        let close = async {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = shutdown.cancelled() => {}
            }
            closing.cancel();
            Instant::now()
        };
        let places = Places::within(limits::open_files());
        let at_network = connection::accept_network(
            network,
            places,
            router.clone(),
            Arc::clone(&doors),
            shutdown.clone(),
        );
        let at_socket =
            connection::accept_local(local, places, router, Arc::clone(&doors), shutdown.clone());
        let (_, told, _, _) =
            tokio::join!(doors.tasks.track_future(route), close, at_network, at_socket);
        doors.tasks.close();
        let end = (told + LAST_CONNECTIONS).max(Instant::now() + LAST_MOMENT);
        if tokio::time::timeout_at(end, doors.tasks.wait()).await.is_err() {
            tracing::warn!(open = doors.tasks.len(), "connections are cut off at the end");
        }
        drop(file);
    }
}

/// No program connects to "every address" itself.
fn from_here(bound: SocketAddr) -> SocketAddr {
    let address = match bound.ip() {
        IpAddr::V4(every) if every.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(every) if every.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        one => one,
    };
    SocketAddr::new(address, bound.port())
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    // The standard library lets a restart have the port while old connections are forgotten.
    let listener = std::net::TcpListener::bind(address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn refusal(address: SocketAddr, source: io::Error) -> BindError {
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::PortTaken { address },
        _ => BindError::Address { address, source },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_link_names_an_address_that_can_be_opened() {
        for (bound, opened) in [
            ("0.0.0.0:7", "127.0.0.1:7"),
            ("[::]:7", "[::1]:7"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("127.0.0.1:7", "127.0.0.1:7"),
        ] {
            assert_eq!(from_here(bound.parse().unwrap()), opened.parse().unwrap());
        }
    }
}
