//! The key `network` of an agent and of the defaults: the hosts its tools and programs may reach.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use skep_core::policy::network::{AddressEntry, HostEntry, NetworkEntryError, NetworkRules};

use super::environment::Reader;
use super::mistake::Mistake;
use super::scalar::{TextScalar, present};

/// The hosts that tools and programs of an agent may reach.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-expected" = "a mapping with the keys hosts, deny, private (none, proxy and \
                                  full belong to sandbox.network)"))]
pub struct RawNetwork {
    /// May be reached: `example.org`, `*.example.org` for everything below, `host:8443` for
    /// another port than 80 and 443 (none).
    #[serde(deserialize_with = "present")]
    #[schemars(
        with = "Vec<String>",
        extend("x-holds" = "host entry", "x-expected" = "a list, each entry a string: [docs.rs]")
    )]
    hosts: Option<Vec<TextScalar>>,
    /// Never reached, whatever else says; those of the defaults count for every agent (none).
    #[schemars(extend(
        "x-holds" = "host entry", "x-expected" = "a list, each entry a string: [docs.rs]"
    ))]
    deny: Vec<TextScalar>,
    /// Addresses inside own networks that may be reached: `10.0.5.7`, `10.0.5.7:8080` (none).
    #[serde(deserialize_with = "present")]
    #[schemars(
        with = "Vec<String>",
        extend(
            "x-holds" = "private address",
            "x-expected" = "a list, each entry a string: [\"10.0.5.7:8080\"]"
        )
    )]
    private: Option<Vec<TextScalar>>,
}

/// `raw` over `usual`: a list that is written takes the place of the usual one, and what is denied
/// there stays denied.
pub fn rules(
    raw: &RawNetwork,
    reader: &Reader<'_>,
    usual: &NetworkRules,
) -> Result<Arc<NetworkRules>, Mistake> {
    const HOST: &str = "example.org, *.example.org, or one of them with a port";
    const ADDRESS: &str = "an address such as 10.0.5.7 or 10.0.5.7:8080";
    let mut deny = usual.deny.clone();
    for entry in entries(&raw.deny, reader, HostEntry::parse, HOST)? {
        if !deny.contains(&entry) {
            deny.push(entry);
        }
    }
    let hosts = match &raw.hosts {
        Some(hosts) => entries(hosts, reader, HostEntry::parse_listed, HOST)?,
        None => usual.hosts.clone(),
    };
    let private = match &raw.private {
        Some(private) => entries(private, reader, AddressEntry::parse, ADDRESS)?,
        None => usual.private.clone(),
    };
    Ok(Arc::new(NetworkRules { hosts, deny, private }))
}

fn entries<T>(
    raw: &[TextScalar],
    reader: &Reader<'_>,
    parse: fn(&str) -> Result<T, NetworkEntryError>,
    expected: &str,
) -> Result<Vec<T>, Mistake> {
    let entry = |text: &TextScalar| {
        let written = reader.text(text)?;
        parse(&written).map_err(|error| {
            reader.mistake(text, format!("`{written}`: {error}")).expecting(expected)
        })
    };
    raw.iter().map(entry).collect()
}
