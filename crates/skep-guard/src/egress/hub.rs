//! One guard per agent, and what all of them share.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use skep_core::policy::address::{AddressKind, kind_of};
use skep_core::policy::host::Host;
use skep_core::policy::network::{HostVerdict, NetworkRules};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::buckets::HostBuckets;
use super::client::HttpClient;
use super::connect::connect_to;
use super::connector::{Dial, DialFuture, EgressSocket, Trust};
use super::error::{EgressCause, EgressError};
use super::resolver::NameResolver;
use crate::clock;

/// For a name to be resolved and a connection to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Names that one agent looks up at the same time; another agent's are not held up by them.
const LOOKUPS: usize = 8;
/// Guards that are kept. One more drops those that nobody uses, with their idle connections.
const KEPT: usize = 1024;

/// Made once, by the composition root.
pub struct EgressHub {
    way: Arc<Way>,
    /// Locked for a look or an exchange, never while waiting.
    agents: Mutex<HashMap<i64, Arc<Egress>>>,
}

/// What the guards of all agents share.
struct Way {
    resolver: Arc<dyn NameResolver>,
    /// Ports that the hive listens on.
    doors: RwLock<BTreeSet<u16>>,
    trust: Trust,
    buckets: Arc<HostBuckets>,
}

/// The way out of one agent under one set of rules. Rules never change inside it: under others the
/// agent gets another one, and with it no connection that was made under these.
pub struct Egress {
    /// The agent.
    owner: i64,
    judge: Arc<Judge>,
    client: HttpClient,
}

/// Decides about hosts and addresses, and connects to those it allowed.
pub(super) struct Judge {
    pub(super) rules: Arc<NetworkRules>,
    way: Arc<Way>,
    lookups: Semaphore,
}

impl EgressHub {
    pub fn new(resolver: Arc<dyn NameResolver>) -> Self {
        let (doors, trust, buckets) = (RwLock::default(), Trust::default(), Arc::default());
        let way = Way { resolver, doors, trust, buckets };
        Self { way: Arc::new(way), agents: Mutex::default() }
    }

    /// How often each agent may still ask each host; counted where somebody sets a rate.
    pub fn buckets(&self) -> &Arc<HostBuckets> {
        &self.way.buckets
    }

    /// The hive listens there: no agent connects to that port of this machine, even where its
    /// rules list the address.
    pub fn protect(&self, door: SocketAddr) {
        let mut doors = self.way.doors.write().unwrap_or_else(PoisonError::into_inner);
        doors.insert(door.port());
    }

    /// The guard of an agent. The same one as long as the rules stay the same.
    pub fn of(&self, owner: i64, rules: &Arc<NetworkRules>) -> Arc<Egress> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(egress) = agents.get(&owner) {
            let own = &egress.judge.rules;
            if Arc::ptr_eq(own, rules) || own == rules {
                return Arc::clone(egress);
            }
        }
        if agents.len() >= KEPT {
            agents.retain(|_, egress| Arc::strong_count(egress) > 1);
        }
        let egress = Arc::new(Egress::new(owner, Arc::clone(&self.way), Arc::clone(rules)));
        agents.insert(owner, Arc::clone(&egress));
        egress
    }
}

impl Egress {
    fn new(owner: i64, way: Arc<Way>, rules: Arc<NetworkRules>) -> Self {
        let trust = way.trust.clone();
        let judge = Arc::new(Judge { rules, way, lookups: Semaphore::new(LOOKUPS) });
        let dial: Arc<dyn Dial> = Arc::<Judge>::clone(&judge);
        Self { owner, judge, client: HttpClient::new(dial, trust, CONNECT) }
    }

    /// A connection to a host that the rules list: the name is judged, resolved, every address
    /// judged, and one of these is dialled.
    pub async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, EgressError> {
        self.judge.listed(host, port)?;
        self.judge.connect(host, port).await
    }

    /// The same for a host that a person approved for this one call. That lifts the list alone:
    /// `deny` and what is said of addresses hold.
    pub async fn connect_approved(&self, host: &Host, port: u16) -> Result<TcpStream, EgressError> {
        self.judge.connect(host, port).await
    }

    pub fn rules(&self) -> &Arc<NetworkRules> {
        &self.judge.rules
    }

    /// Counts a request to the host; refused where there were too many.
    pub(super) fn count(&self, host: &Host, port: u16) -> Result<(), EgressError> {
        let buckets = &self.judge.way.buckets;
        let counted = buckets.take(self.owner, &host.to_string(), clock::now_ms());
        let refused = |limited| EgressError::new(host, port, EgressCause::RateLimited(limited));
        counted.map_err(refused)
    }

    pub(super) fn judge(&self) -> &Judge {
        &self.judge
    }

    pub(super) fn client(&self) -> &HttpClient {
        &self.client
    }
}

impl Judge {
    /// Whether the lists allow the host.
    pub(super) fn listed(&self, host: &Host, port: u16) -> Result<(), EgressError> {
        let cause = match self.rules.judge(host, port) {
            HostVerdict::Listed => return Ok(()),
            // It cannot be listed among hosts, nor can anybody approve it.
            HostVerdict::Unlisted => match host {
                Host::Address(address) if kind_of(*address) != AddressKind::Public => {
                    EgressCause::AddressRefused { address: *address }
                }
                _ => EgressCause::HostUnlisted,
            },
            HostVerdict::Denied { entry } => EgressCause::HostDenied { entry },
        };
        Err(EgressError::new(host, port, cause))
    }

    pub(super) fn not_denied(&self, host: &Host, port: u16) -> Result<(), EgressError> {
        match self.rules.judge(host, port) {
            HostVerdict::Denied { entry } => {
                Err(EgressError::new(host, port, EgressCause::HostDenied { entry }))
            }
            HostVerdict::Listed | HostVerdict::Unlisted => Ok(()),
        }
    }

    /// Everything but the list of hosts: `deny`, the addresses, then the connection.
    async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, EgressError> {
        let failed = |cause| EgressError::new(host, port, cause);
        self.not_denied(host, port)?;
        let made = async {
            let addresses = self.resolve(host, port).await?;
            // Every one is judged before the first one is dialled.
            for address in &addresses {
                self.allowed(host, *address, port)?;
            }
            connect_to(host, &addresses, port).await
        };
        let late = |_| failed(EgressCause::Timeout { after: CONNECT });
        tokio::time::timeout(CONNECT, made).await.map_err(late)?
    }

    async fn resolve(&self, host: &Host, port: u16) -> Result<Vec<IpAddr>, EgressError> {
        let name = match host {
            Host::Address(address) => return Ok(vec![address.to_canonical()]),
            Host::Name(name) => name,
        };
        // Never closed; whoever waits here too long runs into the deadline.
        let _place = self.lookups.acquire().await;
        let found = self.way.resolver.resolve(name).await;
        let addresses = EgressError::unless_found(host, port, found)?;
        Ok(addresses.iter().map(IpAddr::to_canonical).collect())
    }

    /// Whether an address of the host may be dialled.
    fn allowed(&self, host: &Host, address: IpAddr, port: u16) -> Result<(), EgressError> {
        let failed = |cause| EgressError::new(host, port, cause);
        if let HostVerdict::Denied { entry } = self.rules.judge(&Host::Address(address), port) {
            return Err(failed(EgressCause::HostDenied { entry }));
        }
        let kind = kind_of(address);
        if self.is_door(address, kind, port) {
            return Err(failed(EgressCause::OwnDoor { address }));
        }
        let excepted = kind.may_be_listed() && self.rules.permits_private(address, port);
        match kind == AddressKind::Public || excepted {
            true => Ok(()),
            false => Err(failed(EgressCause::AddressRefused { address })),
        }
    }

    /// Whether the hive itself listens there. This machine has more addresses than loopback.
    fn is_door(&self, address: IpAddr, kind: AddressKind, port: u16) -> bool {
        let doors = self.way.doors.read().unwrap_or_else(PoisonError::into_inner);
        doors.contains(&port)
            && (kind == AddressKind::Loopback || is_of_this_machine(address, port))
    }
}

/// A connection to an own address comes from that address. The kernel says which one it would
/// come from; nothing is sent.
fn is_of_this_machine(address: IpAddr, port: u16) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, port))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

impl Dial for Judge {
    /// The list was asked when the request was made; a connection is the same under both answers.
    fn dial<'a>(&'a self, host: &'a Host, port: u16) -> DialFuture<'a> {
        Box::pin(async move { Ok(EgressSocket::Tcp(self.connect(host, port).await?)) })
    }
}
