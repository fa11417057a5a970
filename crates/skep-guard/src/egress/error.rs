//! Why a connection was not made.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use skep_core::policy::address::kind_of;
use skep_core::policy::host::Host;
use skep_core::policy::network::HostEntry;

use super::buckets::RateLimited;

/// The text says what was attempted, why it failed and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressError {
    pub host: Host,
    pub port: u16,
    pub cause: EgressCause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressCause {
    /// The agent's `network.hosts` does not list the host.
    HostUnlisted,
    /// The agent's `network.deny` does, with this entry.
    HostDenied { entry: String },
    /// An address of the host is not public, and not in `network.private`.
    AddressRefused { address: IpAddr },
    /// It leads to a port that the hive itself listens on.
    OwnDoor { address: IpAddr },
    /// Nobody knows an address of the name, or nobody could be asked.
    NameUnknown { why: String },
    /// No address of the host accepts a connection.
    Unreachable { kind: io::ErrorKind, why: String },
    /// No connection within this time.
    Timeout { after: Duration },
    /// The agent asked the host too often.
    RateLimited(RateLimited),
    /// The host cannot prove who it is, or does not speak TLS.
    Tls { why: String },
}

impl EgressError {
    pub(crate) fn new(host: &Host, port: u16, cause: EgressCause) -> Self {
        Self { host: host.clone(), port, cause }
    }

    /// What a resolver found, where that is an address at all.
    pub(crate) fn unless_found(
        host: &Host,
        port: u16,
        found: io::Result<Vec<IpAddr>>,
    ) -> Result<Vec<IpAddr>, Self> {
        let why = match found {
            Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
            Ok(_) => "it has none".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(Self::new(host, port, EgressCause::NameUnknown { why }))
    }

    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self.cause {
            EgressCause::HostUnlisted => "host_unlisted",
            EgressCause::HostDenied { .. } => "host_denied",
            EgressCause::AddressRefused { .. } | EgressCause::OwnDoor { .. } => "address_refused",
            EgressCause::NameUnknown { .. } => "name_unknown",
            EgressCause::Unreachable { .. } => "unreachable",
            EgressCause::Timeout { .. } => "connect_timeout",
            EgressCause::RateLimited(_) => "rate_limited",
            EgressCause::Tls { .. } => "tls_failed",
        }
    }

    /// Whether a rule forbids it: the same attempt fails again until a person changes the rule.
    pub fn is_refusal(&self) -> bool {
        matches!(self.code(), "host_unlisted" | "host_denied" | "address_refused")
    }

    /// Why, and what to do.
    pub fn reason(&self) -> String {
        let Self { host, port, cause } = self;
        match cause {
            EgressCause::HostUnlisted => {
                let entry = HostEntry::for_host(host, *port);
                format!("`network.hosts` of the agent does not list it; list `{entry}` there")
            }
            EgressCause::HostDenied { entry } => format!(
                "`network.deny` of the agent holds `{entry}`; only whoever wrote that may lift it"
            ),
            EgressCause::AddressRefused { address } => {
                let (kind, shown) = (kind_of(*address), Host::of_address(*address));
                let remedy = match kind.may_be_listed() {
                    true => format!(
                        "not on the internet; if it is meant, list `{shown}:{port}` in \
                         `network.private` of the agent"
                    ),
                    false => "which no agent may reach; use another host".to_owned(),
                };
                format!("its address {shown} is {}, {remedy}", kind.as_str())
            }
            EgressCause::OwnDoor { address } => {
                let shown = Host::of_address(*address);
                format!("{shown}:{port} is a door of this hive; an agent uses its tools instead")
            }
            EgressCause::NameUnknown { why } => format!(
                "no address of that name is known ({why}); check its spelling and the name server \
                 here"
            ),
            EgressCause::Unreachable { why, .. } => {
                format!("{why}; check whether the server runs and the port is right")
            }
            EgressCause::Timeout { after } => {
                let after = after.as_secs_f32();
                format!("nothing answers within {after} s; check whether the server runs there")
            }
            EgressCause::RateLimited(RateLimited { per_minute, wait }) => format!(
                "this agent may send it {per_minute} requests a minute \
                 (`limits.requests_per_minute`); try again in {} s",
                (wait + 999) / 1000
            ),
            EgressCause::Tls { why } => {
                format!("{why}; check the host, its certificate, and whether it speaks https")
            }
        }
    }
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot connect to {}:{}: {}", self.host, self.port, self.reason())
    }
}

impl std::error::Error for EgressError {}
