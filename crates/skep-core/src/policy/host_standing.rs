//! How the host that a call names stands with its agent, as people and models are told.

use serde::Serialize;
use utoipa::ToSchema;

use super::address::{AddressKind, kind_of};
use super::host::{Host, WebAddress};
use super::network::{HostEntry, HostVerdict, NetworkRules};

/// What the agent's setting `network` says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostListing {
    /// In `network.hosts` or `network.private`.
    Listed,
    /// In none of the lists: a call of it is asked for.
    Unlisted,
    /// In `network.deny`, or an address that no question lifts.
    Denied,
}

impl HostListing {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Unlisted => "unlisted",
            Self::Denied => "denied",
        }
    }
}

/// The host of a call, in the one spelling that is dialled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostStanding {
    /// In ASCII: letters of other scripts as `xn--…`.
    pub host: String,
    pub port: u16,
    /// The whole address as it would be fetched.
    pub url: String,
    pub standing: HostListing,
    /// The entry of `network.deny` that denies it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_by: Option<String>,
    /// The entry for `network.hosts` that would list it; absent where it is listed or denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// In a sentence without its end.
    #[serde(skip)]
    pub why: String,
}

impl HostStanding {
    pub fn of(rules: &NetworkRules, target: &WebAddress) -> Self {
        let (host, port) = (target.host(), target.port());
        let entry = HostEntry::for_host(host, port).to_string();
        let (standing, denied_by, why) = match rules.judge(host, port) {
            HostVerdict::Denied { entry } => {
                let why = format!("{host} is denied by the agent's network.deny: {entry}");
                (HostListing::Denied, Some(entry), why)
            }
            verdict => match (refused(rules, host, port, &entry), verdict) {
                (Some(why), _) => (HostListing::Denied, None, why),
                (None, HostVerdict::Listed) => {
                    let why = format!("{host} is in the agent's network.hosts");
                    (HostListing::Listed, None, why)
                }
                (None, _) if rules.lists_some_port(host) => {
                    let why = format!(
                        "the agent's network.hosts lists {host}, but not its port {port}, as \
                         `{entry}` does"
                    );
                    (HostListing::Unlisted, None, why)
                }
                (None, _) => {
                    let why = format!("{host} is not in the agent's network.hosts");
                    (HostListing::Unlisted, None, why)
                }
            },
        };
        let missing = standing == HostListing::Unlisted;
        Self {
            host: host.to_string(),
            port,
            url: target.to_string(),
            standing,
            denied_by,
            entry: missing.then_some(entry),
            why,
        }
    }
}

/// Why an address that is not public is refused: only an operator's list lifts that, so nobody is
/// asked.
fn refused(rules: &NetworkRules, host: &Host, port: u16, entry: &str) -> Option<String> {
    let Host::Address(address) = host else { return None };
    let kind = kind_of(*address);
    if kind == AddressKind::Public {
        return None;
    }
    let is = kind.as_str();
    if !kind.may_be_listed() {
        return Some(format!("{host} is {is}: no agent may reach it"));
    }
    (!rules.permits_private(*address, port)).then(|| {
        format!(
            "{host} is {is}, and the agent's network.private does not list it for port {port}; an \
             operator lists it with `network: {{private: [\"{entry}\"]}}`"
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::policy::evaluate::{PolicyQuery, Verdict};
    use crate::policy::rule::{Piece, Rule};
    use crate::policy::{Class, Effect, Policy};
    use crate::vocab::configuration::SandboxLevel;

    fn standing(url: &str) -> HostStanding {
        let rules: NetworkRules = serde_json::from_value(json!({
            "hosts": ["example.org"], "deny": ["*.example.com"], "private": ["10.0.0.7:81"],
        }))
        .unwrap();
        HostStanding::of(&rules, &WebAddress::parse(url).unwrap())
    }

    #[test]
    fn gate_hosts_stand_as_the_lists_say() {
        let cases = [
            ("https://EXAMPLE.org./a", "example.org", HostListing::Listed, None),
            ("http://10.0.0.7:81/", "10.0.0.7", HostListing::Listed, None),
            ("http://10.0.0.7/", "10.0.0.7", HostListing::Denied, None),
            ("http://127.1:81/", "127.0.0.1", HostListing::Denied, None),
            ("http://169.254.169.254/", "169.254.169.254", HostListing::Denied, None),
            ("http://9.9.9.9/", "9.9.9.9", HostListing::Unlisted, Some("9.9.9.9")),
            (
                "https://example.org:81/",
                "example.org",
                HostListing::Unlisted,
                Some("example.org:81"),
            ),
            (
                "https://bücher.de:8443/",
                "xn--bcher-kva.de",
                HostListing::Unlisted,
                Some("xn--bcher-kva.de:8443"),
            ),
            ("https://a.example.com/", "a.example.com", HostListing::Denied, None),
        ];
        for (url, host, listing, entry) in cases {
            let found = standing(url);
            assert_eq!((found.host.as_str(), found.standing), (host, listing), "{url}");
            assert_eq!(found.entry.as_deref(), entry, "{url}");
        }
        assert_eq!(standing("https://a.example.com/").denied_by.as_deref(), Some("*.example.com"));
    }

    #[test]
    fn gate_an_address_that_is_not_public_is_told_where_it_is_listed() {
        let open: NetworkRules = serde_json::from_value(json!({"hosts": ["*", "*:81"]})).unwrap();
        for (url, told) in [
            ("http://10.0.0.7:81/", "`network: {private: [\"10.0.0.7:81\"]}`"),
            ("http://[fd00::7]/", "`network: {private: [\"[fd00::7]\"]}`"),
            ("http://169.254.169.254/", "of a cloud: no agent may reach it"),
            ("http://[::ffff:169.254.169.254]/", "of a cloud: no agent may reach it"),
            ("http://224.0.0.1/", "is a multicast address: no agent may reach it"),
        ] {
            let found = HostStanding::of(&open, &WebAddress::parse(url).unwrap());
            assert_eq!(found.standing, HostListing::Denied, "{url}");
            assert!(found.why.ends_with(told), "{url}: {}", found.why);
        }
        assert_eq!(
            standing("https://example.org:81/").why,
            "the agent's network.hosts lists example.org, but not its port 81, as \
             `example.org:81` does"
        );
    }

    #[test]
    fn gate_a_denied_host_is_denied_whatever_else_says() {
        let rule = Rule {
            effect: Effect::Allow,
            tool: "*".to_owned(),
            path: None,
            command: None,
            host: None,
            grants: Vec::new(),
            approvers: Vec::new(),
            place: "config.yaml:1".to_owned(),
        };
        let decide = |rules: Vec<Rule>| -> Verdict {
            let policy = Policy { rules, ..Policy::default() };
            let (class, level) = (Class::Reach, SandboxLevel::Confined);
            let pieces = &[Piece::Host(Some("h".to_owned()))];
            policy.decide(&PolicyQuery { tool: "t", class, level, pieces, who: &[] }, &[])
        };
        let denied = decide(vec![rule.clone()]).at_host(standing("https://a.example.com/"));
        assert_eq!(denied.effect, Effect::Deny);
        assert_eq!(
            denied.why,
            "a.example.com is denied by the agent's network.deny: *.example.com"
        );
        assert_eq!(denied.parts[0].effect, Effect::Deny);
        assert_eq!(denied.rule.as_deref(), Some("network.deny"));
        let inside = decide(vec![rule.clone()]).at_host(standing("http://127.0.0.1/"));
        assert_eq!((inside.effect, inside.rule.as_deref()), (Effect::Deny, Some("network")));
        let other = decide(vec![rule]).at_host(standing("https://other.org/"));
        assert_eq!(other.effect, Effect::Allow);
        let asked = decide(Vec::new()).at_host(standing("https://other.org/"));
        assert_eq!(asked.effect, Effect::Ask);
        assert!(asked.why.ends_with("; other.org is not in the agent's network.hosts"));
        assert_eq!(decide(Vec::new()).at_unread_host().effect, Effect::Deny);
    }
}
