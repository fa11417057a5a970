//! Which `Host` and `Origin` a request may carry. A page of another site can make a browser send
//! requests here (also by pointing its own name at this address), but cannot forge these two.

use std::net::{IpAddr, SocketAddr};

use axum::http::Uri;
use skep_core::settings::ServerSettings;

#[derive(Debug)]
pub(crate) struct Hosts {
    port: u16,
    /// Bound to every address of the machine: the one a connection came in on counts as ours.
    any_local_address: bool,
    /// As they stand in a `Host` header, in lower case.
    own: Vec<String>,
    public: Option<Public>,
    origins: Vec<String>,
}

/// The address people use when something stands in front of us.
#[derive(Debug)]
struct Public {
    origin: String,
    hosts: Vec<String>,
}

impl Hosts {
    /// `port` is the port in use, which settings with port 0 do not know.
    pub(crate) fn new(settings: &ServerSettings, port: u16) -> Self {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        if !settings.bind.is_unspecified() {
            names.push(host_of(settings.bind));
        }
        Self {
            port,
            any_local_address: settings.bind.is_unspecified(),
            own: names.iter().flat_map(|name| with_port(name, port, 80)).collect(),
            public: settings.public_url.as_deref().and_then(Public::parse),
            origins: settings.allowed_origins.iter().map(|origin| tidy_origin(origin)).collect(),
        }
    }

    /// `local` is the address the connection came in on.
    pub(crate) fn allows_host(&self, host: &str, local: SocketAddr) -> bool {
        let host = host.to_ascii_lowercase();
        self.is_own(&host, local)
            || self.public.as_ref().is_some_and(|public| public.hosts.contains(&host))
    }

    /// A page may call when it came from the very address it calls, or when it is listed.
    pub(crate) fn allows_origin(
        &self,
        origin: &str,
        host: Option<&str>,
        local: Option<SocketAddr>,
    ) -> bool {
        if self.lists_origin(origin) {
            return true;
        }
        let origin = origin.to_ascii_lowercase();
        let (Some(host), Some(local)) = (host.map(str::to_ascii_lowercase), local) else {
            return false;
        };
        let same = self.is_own(&host, local) && origin == format!("http://{host}");
        let public = self
            .public
            .as_ref()
            .is_some_and(|public| public.hosts.contains(&host) && public.origin == origin);
        same || public
    }

    /// Whether the operator let pages of this origin in.
    pub(crate) fn lists_origin(&self, origin: &str) -> bool {
        self.origins.contains(&origin.to_ascii_lowercase())
    }

    fn is_own(&self, host: &str, local: SocketAddr) -> bool {
        let name = || host_of(local.ip().to_canonical());
        self.own.iter().any(|own| own == host)
            || (self.any_local_address
                && with_port(&name(), self.port, 80).iter().any(|own| own == host))
    }
}

impl Public {
    fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let usual = if scheme == "https" { 443 } else { 80 };
        let name = uri.host()?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(usual);
        let hosts = with_port(&name, port, usual);
        // Browsers leave the usual port out of an origin.
        let origin = format!("{scheme}://{}", hosts.last()?);
        Some(Self { origin, hosts })
    }
}

/// The forms a client may write: the port can be left out where it is the usual one.
fn with_port(name: &str, port: u16, usual: u16) -> Vec<String> {
    let mut forms = vec![format!("{name}:{port}")];
    if port == usual {
        forms.push(name.to_owned());
    }
    forms
}

fn host_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn tidy_origin(origin: &str) -> String {
    origin.trim_end_matches('/').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn settings(bind: &str, public_url: Option<&str>, origins: &[&str]) -> ServerSettings {
        ServerSettings {
            bind: bind.parse().unwrap(),
            port: 0,
            public_url: public_url.map(str::to_owned),
            allowed_origins: origins.iter().map(|&origin| origin.to_owned()).collect(),
            ws_enabled: true,
        }
    }

    fn local(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn hosts_of_a_loopback_hive() {
        let hosts = Hosts::new(&settings("127.0.0.1", None, &[]), 4747);
        let at = local("127.0.0.1:4747");
        for good in ["127.0.0.1:4747", "localhost:4747", "LocalHost:4747", "[::1]:4747"] {
            assert!(hosts.allows_host(good, at), "{good}");
        }
        let bad = [
            "",
            "localhost",
            "localhost:",
            "localhost:80",
            "localhost:04747",
            "localhost.:4747",
            "localhost.evil.example:4747",
            "evil.example:4747",
            "127.0.0.1.nip.io:4747",
            "127.0.0.2:4747",
            "0.0.0.0:4747",
            "127.1:4747",
            "user@localhost:4747",
            "localhost:4747 ",
            "::1:4747",
            "[::ffff:127.0.0.1]:4747",
        ];
        for bad in bad {
            assert!(!hosts.allows_host(bad, at), "{bad}");
        }
    }

    #[test]
    fn the_public_address_and_the_usual_ports() {
        let hosts = Hosts::new(&settings("127.0.0.1", Some("https://Skep.example/x"), &[]), 80);
        let at = local("127.0.0.1:80");
        for good in ["localhost", "localhost:80", "skep.example", "skep.example:443"] {
            assert!(hosts.allows_host(good, at), "{good}");
        }
        for bad in ["skep.example:80", "skep.example:8443", "xskep.example"] {
            assert!(!hosts.allows_host(bad, at), "{bad}");
        }
    }

    #[test]
    fn bound_to_every_address_the_one_connected_to_counts() {
        for bind in ["0.0.0.0", "::"] {
            let hosts = Hosts::new(&settings(bind, None, &[]), 4747);
            let at = local("[::ffff:192.0.2.7]:4747");
            assert!(hosts.allows_host("192.0.2.7:4747", at), "{bind}");
            assert!(hosts.allows_host("localhost:4747", at), "{bind}");
            assert!(!hosts.allows_host("192.0.2.8:4747", at), "{bind}");
            assert!(!hosts.allows_host("evil.example:4747", at), "{bind}");
        }
    }

    #[test]
    fn origins() {
        let listed = ["https://desk.example/", "http://localhost:5173"];
        let hosts = Hosts::new(&settings("127.0.0.1", Some("https://skep.example"), &listed), 4747);
        let at = Some(local("127.0.0.1:4747"));
        let cases = [
            ("http://127.0.0.1:4747", "127.0.0.1:4747", true),
            ("http://localhost:4747", "localhost:4747", true),
            ("http://localhost:4747", "127.0.0.1:4747", false),
            ("https://localhost:4747", "localhost:4747", false),
            ("http://localhost:4748", "localhost:4747", false),
            ("http://localhost", "localhost:4747", false),
            ("http://localhost:4747.evil.example", "localhost:4747", false),
            ("http://evil.example", "localhost:4747", false),
            ("null", "localhost:4747", false),
            ("", "localhost:4747", false),
            ("http://localhost:5173", "localhost:4747", true),
            ("https://desk.example", "localhost:4747", true),
            ("https://xdesk.example", "localhost:4747", false),
            ("https://skep.example", "skep.example", true),
            ("https://skep.example", "localhost:4747", false),
            ("http://skep.example", "skep.example", false),
        ];
        for (origin, host, allowed) in cases {
            assert_eq!(hosts.allows_origin(origin, Some(host), at), allowed, "{origin} at {host}");
        }
        assert!(!hosts.allows_origin("http://localhost:4747", None, None));
        assert!(hosts.allows_origin("https://desk.example", None, None));
    }
}
