//! `ModelRelay`: how an engine that is a process reaches its model. The process speaks its vendor's
//! wire to an address inside its own network; the hive answers there, adds the key and counts.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::BoxFuture;
use crate::settings::{Profile, SandboxLevel};
use crate::traits::engine::Allowance;
use crate::traits::provider::Providers;
use crate::vocab::ids::AgentName;
use crate::vocab::message::Meta;

pub trait ModelRelay: Send + Sync {
    /// Makes an address and a bearer for one process of an engine.
    fn open(&self, launch: RelayLaunch) -> RelayLease;
}

/// What a process may ask for, whatever its turns are.
#[derive(Clone, Debug)]
pub struct RelayLaunch {
    pub agent: AgentName,
    pub wire: RelayWire,
    /// Names and types that may stand in `tools` of a request.
    pub allowed_tools: RelayTools,
    /// Where the process runs: on the host it has no network of its own.
    pub level: SandboxLevel,
}

/// The protocol that the process speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayWire {
    Anthropic,
    Responses,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayTools {
    pub names: BTreeSet<String>,
    /// Names that begin so.
    pub prefixes: Vec<String>,
    /// Of tools that have a `type`; one without a type is a plain tool.
    pub types: BTreeSet<String>,
}

/// One process of an engine. It is answered only while a turn is open on it. Dropped, its bearer is
/// worth nothing.
pub struct RelayLease {
    pub base_url: String,
    pub bearer: String,
    pub turns: Arc<dyn RelayTurns>,
    pub service: RelayService,
}

pub trait RelayTurns: Send + Sync {
    /// Requests of the process are answered from now on, for this turn, until the guard is dropped;
    /// those that run are cut then.
    fn open(&self, turn: RelayTurn) -> RelayTurnGuard;
}

/// The turn that pays for what the process asks.
pub struct RelayTurn {
    pub profile: Arc<Profile>,
    pub providers: Providers,
    pub allowance: Allowance,
    pub used: mpsc::Sender<RelayUsage>,
}

/// What one request used; `message` is the vendor's id of the message, where it gave one.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayUsage {
    pub message: Option<String>,
    pub meta: Meta,
}

/// Closes its turn when it is dropped.
pub struct RelayTurnGuard {
    _closes: Box<dyn Send + Sync>,
}

impl RelayTurnGuard {
    /// `closes` does so when it is dropped.
    pub fn new(closes: impl Send + Sync + 'static) -> Self {
        Self { _closes: Box::new(closes) }
    }
}

/// What the network of the process needs to answer at `host` and `port`: nothing else is reached.
#[derive(Clone)]
pub struct RelayService {
    pub host: String,
    pub port: u16,
    pub connections: Arc<dyn RelayConnections>,
}

pub trait RelayConnections: Send + Sync {
    /// Answers one connection of the process to its end.
    fn serve(&self, connection: Box<dyn RelayConnection>) -> BoxFuture<'static, ()>;
}

/// A connection as it comes out of the network of the process.
pub trait RelayConnection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> RelayConnection for C {}

impl fmt::Debug for RelayService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelayService({}:{})", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_guard_closes_its_turn_when_it_is_dropped() {
        struct Closes(Arc<AtomicBool>);
        impl Drop for Closes {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let closed = Arc::new(AtomicBool::new(false));
        let guard = RelayTurnGuard::new(Closes(Arc::clone(&closed)));
        assert!(!closed.load(Ordering::Relaxed));
        drop(guard);
        assert!(closed.load(Ordering::Relaxed));
    }
}
