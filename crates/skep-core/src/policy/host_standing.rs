//! How the host that a call names stands with its agent, as people and models are told.

use serde::Serialize;
use utoipa::ToSchema;

use super::host::WebAddress;
use super::network::{HostEntry, HostVerdict, NetworkRules};

/// What the agent's setting `network` says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostListing {
    /// In `network.hosts` or `network.private`.
    Listed,
    /// In none of the lists: a call of it is asked for.
    Unlisted,
    /// In `network.deny`.
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
}

impl HostStanding {
    pub fn of(rules: &NetworkRules, target: &WebAddress) -> Self {
        let (host, port) = (target.host(), target.port());
        let (standing, denied_by) = match rules.judge(host, port) {
            HostVerdict::Listed => (HostListing::Listed, None),
            HostVerdict::Unlisted => (HostListing::Unlisted, None),
            HostVerdict::Denied { entry } => (HostListing::Denied, Some(entry)),
        };
        let missing = standing == HostListing::Unlisted;
        Self {
            host: host.to_string(),
            port,
            url: target.to_string(),
            standing,
            denied_by,
            entry: missing.then(|| HostEntry::for_host(host, port).to_string()),
        }
    }

    /// In a sentence without its end.
    pub fn why(&self) -> String {
        let host = &self.host;
        match (self.standing, &self.denied_by) {
            (HostListing::Listed, _) => format!("{host} is in the agent's network.hosts"),
            (HostListing::Denied, Some(entry)) => {
                format!("{host} is denied by the agent's network.deny: {entry}")
            }
            (HostListing::Denied, None) => format!("{host} is denied by the agent's network.deny"),
            (HostListing::Unlisted, _) => format!("{host} is not in the agent's network.hosts"),
        }
    }
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
            ("http://10.0.0.7/", "10.0.0.7", HostListing::Unlisted, Some("10.0.0.7")),
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
        let other = decide(vec![rule]).at_host(standing("https://other.org/"));
        assert_eq!(other.effect, Effect::Allow);
        let asked = decide(Vec::new()).at_host(standing("https://other.org/"));
        assert_eq!(asked.effect, Effect::Ask);
        assert!(asked.why.ends_with("; other.org is not in the agent's network.hosts"));
        assert_eq!(decide(Vec::new()).at_unread_host().effect, Effect::Deny);
    }
}
