//! The setting `network`: which hosts an agent's programs and tools may reach.
//!
//! `hosts` lists names and public addresses, `private` the addresses inside own networks that may
//! be dialled in spite of that, `deny` wins over both. An entry without port means 80 and 443, in
//! `deny` every port.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::address::{AddressKind, embedded, kind_of};
use super::host::{Host, HostError, HostName};

/// What an entry without port means.
const WEB_PORTS: [u16; 2] = [80, 443];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkRules {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<HostEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<AddressEntry>,
}

/// What the lists say of a host. Its addresses are judged apart from that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostVerdict {
    Listed,
    Unlisted,
    /// By this entry of `deny`.
    Denied {
        entry: String,
    },
}

/// `example.org`, `*.example.org` (everything below), `*`, an address; each with or without port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct HostEntry {
    hosts: HostSet,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostSet {
    Any,
    Below(HostName),
    Exactly(Host),
}

/// `10.0.5.7`, `10.0.5.7:8080`, `[fd00::7]:8080`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AddressEntry {
    address: IpAddr,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkEntryError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("that is the address of a page: write the host alone, `{0}`")]
    Address(String),
    #[error("`{0}` is a range, and ranges of addresses are not offered: list each address")]
    Range(String),
    #[error("`{0}` is no port: it is a number from 1 to 65535")]
    Port(String),
    #[error("`{0}` is a name: `private` lists addresses such as 10.0.5.7:8080")]
    NotAnAddress(String),
    #[error("{0} is public: list it in `hosts`")]
    Public(IpAddr),
    #[error("{address} is {kind}: list it in `private`")]
    Private { address: IpAddr, kind: &'static str },
    #[error("{address} is {kind}: no agent may reach it, whatever is listed")]
    Never { address: IpAddr, kind: &'static str },
}

impl NetworkRules {
    /// What both lists reach; what either denies is denied.
    #[must_use]
    pub fn within(&self, above: &Self) -> Self {
        let mut deny = self.deny.clone();
        deny.extend(above.deny.iter().filter(|entry| !self.deny.contains(entry)).cloned());
        let pairs = self.hosts.iter().flat_map(|own| above.hosts.iter().map(move |it| (own, it)));
        let mut hosts: Vec<HostEntry> = Vec::new();
        for entry in pairs.filter_map(|(own, above)| own.and(above)) {
            if !hosts.contains(&entry) {
                hosts.push(entry);
            }
        }
        let pairs =
            self.private.iter().flat_map(|own| above.private.iter().map(move |it| (own, it)));
        let private = pairs.filter_map(|(own, above)| {
            let port = ports(own.port, above.port)?;
            (own.address == above.address).then_some(AddressEntry { address: own.address, port })
        });
        Self { hosts, deny, private: private.collect() }
    }

    /// What may be reached, for people and models: hosts, then addresses.
    pub fn listed(&self) -> Vec<String> {
        let hosts = self.hosts.iter().map(ToString::to_string);
        hosts.chain(self.private.iter().map(ToString::to_string)).collect()
    }

    /// Whether the lists allow a connection to this port of the host.
    pub fn judge(&self, host: &Host, port: u16) -> HostVerdict {
        if let Some(entry) = self.deny.iter().find(|entry| entry.denies(host, port)) {
            return HostVerdict::Denied { entry: entry.to_string() };
        }
        let excepted =
            matches!(host, Host::Address(address) if self.permits_private(*address, port));
        match excepted || self.hosts.iter().any(|entry| entry.lists(host, port)) {
            true => HostVerdict::Listed,
            false => HostVerdict::Unlisted,
        }
    }

    /// Whether `hosts` names it, for whatever port.
    pub fn lists_some_port(&self, host: &Host) -> bool {
        self.hosts.iter().any(|entry| entry.covers(host))
    }

    /// Whether an address that is not public may be dialled in spite of that.
    pub fn permits_private(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let covers = |entry: &AddressEntry| entry.address == address && fits(entry.port, port);
        self.private.iter().any(covers)
    }

    /// Every port that an entry can lead to.
    pub fn ports(&self) -> BTreeSet<u16> {
        let named = self.hosts.iter().filter_map(|entry| entry.port);
        let private = self.private.iter().filter_map(|entry| entry.port);
        named.chain(private).chain(WEB_PORTS).collect()
    }

    /// Those that are listed as such, in `private` or in `hosts`.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let public = self.hosts.iter().filter_map(|entry| match entry.hosts {
            HostSet::Exactly(Host::Address(address)) => Some(address),
            _ => None,
        });
        self.private.iter().map(|entry| entry.address).chain(public)
    }
}

/// The ports of two entries that both mean; nothing where there are none.
fn ports(own: Option<u16>, other: Option<u16>) -> Option<Option<u16>> {
    match (own, other) {
        (Some(port), entry) | (entry, Some(port)) => fits(entry, port).then_some(Some(port)),
        (None, None) => Some(None),
    }
}

fn fits(entry: Option<u16>, port: u16) -> bool {
    entry.map_or(WEB_PORTS.contains(&port), |own| own == port)
}

impl HostEntry {
    pub fn parse(text: &str) -> Result<Self, NetworkEntryError> {
        let (host, port) = split_port(text)?;
        let hosts = match host.strip_prefix('*') {
            Some("") => HostSet::Any,
            Some(below) => HostSet::Below(HostName::parse(
                below.strip_prefix('.').ok_or_else(|| HostError::Malformed(text.to_owned()))?,
            )?),
            None => HostSet::Exactly(Host::parse(host)?),
        };
        Ok(Self { hosts, port })
    }

    /// As an entry of `hosts`: an address there is public, for no other one would be dialled.
    pub fn parse_listed(text: &str) -> Result<Self, NetworkEntryError> {
        let entry = Self::parse(text)?;
        let HostSet::Exactly(Host::Address(address)) = entry.hosts else { return Ok(entry) };
        let kind = kind_of(address);
        match kind {
            AddressKind::Public => Ok(entry),
            _ if kind.may_be_listed() => {
                Err(NetworkEntryError::Private { address, kind: kind.as_str() })
            }
            _ => Err(NetworkEntryError::Never { address, kind: kind.as_str() }),
        }
    }

    /// The entry that lists this host and port, as narrow as an entry can be.
    pub fn for_host(host: &Host, port: u16) -> Self {
        let port = (!WEB_PORTS.contains(&port)).then_some(port);
        Self { hosts: HostSet::Exactly(host.clone()), port }
    }

    /// What both entries list. One set of hosts is part of the other, or they share none.
    fn and(&self, other: &Self) -> Option<Self> {
        let port = ports(self.port, other.port)?;
        let hosts = match () {
            () if self.hosts.is_part_of(&other.hosts) => &self.hosts,
            () if other.hosts.is_part_of(&self.hosts) => &other.hosts,
            () => return None,
        };
        Some(Self { hosts: hosts.clone(), port })
    }

    pub fn lists(&self, host: &Host, port: u16) -> bool {
        self.covers(host) && fits(self.port, port)
    }

    fn denies(&self, host: &Host, port: u16) -> bool {
        let inner = match host {
            Host::Address(address) => embedded(*address).map(Host::from),
            Host::Name(_) => None,
        };
        let covers = self.covers(host) || inner.is_some_and(|inner| self.covers(&inner));
        covers && self.port.is_none_or(|own| own == port)
    }

    fn covers(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (HostSet::Any, _) => true,
            (HostSet::Below(above), Host::Name(name)) => name.is_below(above),
            (HostSet::Below(_), Host::Address(_)) => false,
            (HostSet::Exactly(own), host) => own == host,
        }
    }
}

impl HostSet {
    fn is_part_of(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Any) => true,
            (Self::Below(own), Self::Below(above)) => own == above || own.is_below(above),
            (Self::Exactly(Host::Name(name)), Self::Below(above)) => name.is_below(above),
            (own, other) => own == other,
        }
    }
}

impl AddressEntry {
    pub fn parse(text: &str) -> Result<Self, NetworkEntryError> {
        let (host, port) = split_port(text)?;
        let Host::Address(address) = Host::parse(host)? else {
            return Err(NetworkEntryError::NotAnAddress(text.to_owned()));
        };
        let kind = kind_of(address);
        match kind {
            AddressKind::Public => Err(NetworkEntryError::Public(address)),
            kind if kind.may_be_listed() => Ok(Self { address, port }),
            kind => Err(NetworkEntryError::Never { address, kind: kind.as_str() }),
        }
    }
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`, or a bare address of version 6.
fn split_port(text: &str) -> Result<(&str, Option<u16>), NetworkEntryError> {
    if let Some((_, host)) = text.split_once("://") {
        return Err(NetworkEntryError::Address(host.split('/').next().unwrap_or(host).to_owned()));
    }
    if let Some((address, bits)) = text.split_once('/')
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && matches!(Host::parse(address), Ok(Host::Address(_)))
    {
        return Err(NetworkEntryError::Range(text.to_owned()));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port),
        _ => return Ok((text, None)),
    };
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if is_number && port > 0 => Ok((host, Some(port))),
        _ => Err(NetworkEntryError::Port(port.to_owned())),
    }
}

impl fmt::Display for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            HostSet::Any => f.write_str("*")?,
            HostSet::Below(above) => write!(f, "*.{above}")?,
            HostSet::Exactly(host) => host.fmt(f)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Display for AddressEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Host::Address(self.address).fmt(f)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

macro_rules! written_as_text {
    ($($name:ident),+) => {$(
        impl From<$name> for String {
            fn from(entry: $name) -> Self {
                entry.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = NetworkEntryError;

            fn try_from(text: String) -> Result<Self, NetworkEntryError> {
                Self::parse(&text)
            }
        }
    )+};
}

written_as_text!(HostEntry, AddressEntry);
