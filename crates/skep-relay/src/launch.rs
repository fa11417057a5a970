//! One process of an engine, as the relay knows it: its bearer, what it may ask for, and the turn
//! that is open on it.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, header};
use skep_core::relay::{
    ModelRelay, RelayLaunch, RelayLease, RelayService, RelayTools, RelayTurn, RelayTurnGuard,
    RelayTurns, RelayWire,
};
use skep_core::settings::SandboxLevel;
use skep_guard::random;
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::bounds::BodyRoom;
use crate::connection::{self, Door};
use crate::refusal::RelayRefusal;

/// The name that a process knows the relay by. Nobody has such a name outside.
const HOST: &str = "model.skep";
const PORT: u16 = 80;
/// Who one is, at either vendor.
pub(crate) const KEY_HEADER: &str = "x-api-key";

/// Opens a way to its model for each process of an engine.
#[derive(Debug, Default)]
pub struct Relay {}

pub(crate) struct RelayProcess {
    pub wire: RelayWire,
    pub tools: RelayTools,
    pub room: BodyRoom,
    /// Cancelled with the lease: nothing is answered any more.
    pub ended: CancellationToken,
    bearer: String,
    /// Locked for a look or an exchange.
    turn: Mutex<Option<Arc<RelayedTurn>>>,
}

/// A turn for as long as it may ask a model.
pub(crate) struct RelayedTurn {
    pub turn: RelayTurn,
    /// Cancelled when it closes: what runs is cut.
    pub closed: CancellationToken,
}

impl ModelRelay for Relay {
    fn open(&self, launch: RelayLaunch) -> RelayLease {
        let RelayLaunch { agent, wire, allowed_tools, level } = launch;
        let bearer = random::token();
        let launch = Arc::new(RelayProcess {
            wire,
            tools: allowed_tools,
            room: BodyRoom::new(),
            ended: CancellationToken::new(),
            bearer: bearer.clone(),
            turn: Mutex::default(),
        });
        let door = Arc::new(Door { launch: Arc::clone(&launch) });
        let base_url = match level {
            SandboxLevel::Confined => format!("http://{HOST}"),
            // There it shares the machine's loopback: only the bearer tells it apart.
            SandboxLevel::Host => {
                let port = listen(&door).unwrap_or_else(|error| {
                    tracing::error!(%agent, %error, "the model relay has no port to listen on");
                    0
                });
                format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
            }
        };
        let service = RelayService { host: HOST.to_owned(), port: PORT, connections: door };
        RelayLease { base_url, bearer, turns: Arc::new(Turns { launch }), service }
    }
}

fn listen(door: &Arc<Door>) -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    // Ends with the lease.
    tokio::spawn(connection::accept(listener, Arc::<Door>::clone(door)));
    Ok(port)
}

impl RelayProcess {
    /// Whether whoever asks is the process: every word about that has to be right.
    pub fn admit(&self, head: &HeaderMap) -> Result<(), RelayRefusal> {
        let keys = head.get_all(KEY_HEADER).iter().map(|key| key.as_bytes());
        let bearers = head.get_all(header::AUTHORIZATION).iter().map(|value| {
            let value = value.as_bytes();
            match value.split_at_checked(7) {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token,
                _ => &[],
            }
        });
        let mut said = keys.chain(bearers).peekable();
        let any = said.peek().is_some();
        let right = said.all(|token| bool::from(token.ct_eq(self.bearer.as_bytes())));
        if any && right && !self.ended.is_cancelled() {
            Ok(())
        } else {
            Err(RelayRefusal::bearer())
        }
    }

    pub fn turn(&self) -> Result<Arc<RelayedTurn>, RelayRefusal> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        turn.clone().ok_or_else(RelayRefusal::closed)
    }

    fn put(&self, turn: Option<Arc<RelayedTurn>>) -> Option<Arc<RelayedTurn>> {
        std::mem::replace(&mut self.turn.lock().unwrap_or_else(PoisonError::into_inner), turn)
    }

    /// Unless another one has taken its place.
    fn close(&self, turn: &Arc<RelayedTurn>) {
        turn.closed.cancel();
        let mut open = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        open.take_if(|open| Arc::ptr_eq(open, turn));
    }
}

/// The lease's hold on its launch.
struct Turns {
    launch: Arc<RelayProcess>,
}

impl RelayTurns for Turns {
    fn open(&self, turn: RelayTurn) -> RelayTurnGuard {
        let turn = Arc::new(RelayedTurn { turn, closed: CancellationToken::new() });
        if let Some(before) = self.launch.put(Some(Arc::clone(&turn))) {
            before.closed.cancel();
        }
        RelayTurnGuard::new(ClosesTurn { launch: Arc::clone(&self.launch), turn })
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.launch.ended.cancel();
    }
}

struct ClosesTurn {
    launch: Arc<RelayProcess>,
    turn: Arc<RelayedTurn>,
}

impl Drop for ClosesTurn {
    fn drop(&mut self) {
        self.launch.close(&self.turn);
    }
}
