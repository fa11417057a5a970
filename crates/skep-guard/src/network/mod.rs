//! The network of a confined program: a namespace of its own in which the hive answers.
//!
//! Names are answered here, and a connection goes on to its host only where the egress guard
//! dials it. Nothing else leads out: no other address has a route, no other port a listener.

mod connection;
mod contact;
mod hello;
mod inflow;
mod names;
mod namespace;
#[cfg(test)]
mod network_tests;
mod request;

use std::fmt;
use std::sync::Arc;

use skep_core::policy::host::HostName;
use skep_core::policy::network::NetworkRules;
use skep_core::relay::{RelayConnections, RelayService};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::egress::{Egress, EgressHub, NoNames};
pub(crate) use namespace::NetworkEntrance;

pub use contact::{Contact, NetworkRefusal};

/// Who answers for the network of a program, for as long as it runs.
pub trait ProgramNetwork: Send + Sync {
    /// The guard under the rules of now: they change while a program runs.
    fn egress(self: Arc<Self>) -> Arc<Egress>;

    /// The program asked for a host, for the first time with this verdict.
    fn contact(&self, contact: &Contact);
}

/// One set of rules, and nobody who wants to hear of it.
impl ProgramNetwork for Egress {
    fn egress(self: Arc<Self>) -> Arc<Egress> {
        self
    }

    fn contact(&self, _: &Contact) {}
}

/// What a confined program can reach.
#[derive(Clone, Default)]
pub enum RoomNetwork {
    /// Its own loopback.
    #[default]
    None,
    /// The hosts that an agent's rules list, through the hive.
    Proxy(Arc<dyn ProgramNetwork>),
    /// One service of the hive by its name, and nothing else.
    Service(RelayService),
    /// Whatever this machine reaches, its own ports among it: the operator has asked for it in so
    /// many words.
    Full,
}

impl fmt::Debug for RoomNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Proxy(_) => "Proxy",
            Self::Service(_) => "Service",
            Self::Full => "Full",
        })
    }
}

/// The hive's part of a program's network, for as long as the program runs. Dropped, it ends all
/// connections.
pub(crate) struct ChildNetwork {
    switch: Arc<connection::Switch>,
    /// One task, which owns those of all connections.
    tasks: JoinSet<Option<&'static str>>,
    /// Cancelled once the listeners are there.
    made: CancellationToken,
}

impl ChildNetwork {
    /// To be made before the program starts, which enters by the entrance. None where the hive
    /// answers nothing.
    pub fn of(network: &RoomNetwork) -> Result<Option<(NetworkEntrance, Self)>, String> {
        let (hosts, service) = match network {
            RoomNetwork::None | RoomNetwork::Full => return Ok(None),
            RoomNetwork::Proxy(hosts) => (Arc::clone(hosts), None),
            RoomNetwork::Service(service) => (no_hosts(), Some(InnerService::new(service)?)),
        };
        let rules = Arc::clone(Arc::clone(&hosts).egress().rules());
        let mut ports = rules.ports();
        ports.extend(service.as_ref().map(|service| service.port));
        let (entrance, handover) = namespace::prepare(&rules, &ports)?;
        let switch = Arc::new(connection::Switch::new(hosts, service));
        let (mut tasks, made) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn({
            let (switch, made) = (Arc::clone(&switch), made.clone());
            async move {
                match handover.listeners().await {
                    Ok(listeners) => {
                        made.cancel();
                        switch.serve(listeners).await
                    }
                    Err(why) => why,
                }
            }
        });
        Ok(Some((entrance, Self { switch, tasks, made })))
    }

    /// What the program has asked for so far.
    pub fn contacts(&self) -> Vec<Contact> {
        self.switch.contacts.all()
    }

    /// Why there is no network, of a program that could not be started.
    pub async fn failure(mut self) -> Option<&'static str> {
        tokio::select! {
            ended = self.tasks.join_next() => ended.and_then(Result::ok).flatten(),
            // It is there: something else failed.
            () = self.made.cancelled() => None,
        }
    }
}

/// Nothing is listed: what a program asks for beside its service is refused, and told as that.
fn no_hosts() -> Arc<dyn ProgramNetwork> {
    EgressHub::new(Arc::new(NoNames)).of(0, &Arc::new(NetworkRules::default()))
}

/// A service of the hive, by the name that a program knows it by.
struct InnerService {
    name: HostName,
    port: u16,
    connections: Arc<dyn RelayConnections>,
}

impl InnerService {
    fn new(service: &RelayService) -> Result<Self, String> {
        let name = HostName::parse(&service.host).map_err(|error| error.to_string())?;
        let connections = Arc::clone(&service.connections);
        Ok(Self { name, port: service.port, connections })
    }
}
