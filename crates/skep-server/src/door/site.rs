//! Where this hive is found: its names, its address for links, the name of its cookie.

use std::net::SocketAddr;
use std::path::Path;

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use skep_core::settings::ServerSettings;

use crate::door::hosts::Hosts;

pub(crate) struct Site {
    pub(crate) hosts: Hosts,
    address: String,
    public_url: Option<String>,
    /// This hive's own, the same after a restart: a host's cookies go to every port.
    cookie: String,
}

impl Site {
    /// `address` is the one in use: settings with port 0 do not know it.
    pub(crate) fn new(settings: &ServerSettings, address: SocketAddr, home: &Path) -> Self {
        let hash = Sha256::digest(home.as_os_str().as_encoded_bytes());
        let label: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Self {
            hosts: Hosts::new(settings, address.port()),
            address: format!("http://{address}"),
            public_url: settings.public_url.clone(),
            cookie: format!("skep-{label}"),
        }
    }

    pub(crate) fn cookie_of<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs =
            lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| found.trim() == self.cookie).map(|(_, value)| value.trim())
    }

    /// No time left means: forget it.
    pub(crate) fn cookie(&self, value: &str, seconds: i64) -> String {
        let public = self.public_url.as_deref();
        let secure =
            if public.is_some_and(|url| url.starts_with("https:")) { "; Secure" } else { "" };
        let name = &self.cookie;
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
    }

    /// The word stands behind `#`: a browser never sends that part, so no log has it.
    pub(crate) fn link(&self, once: &str) -> String {
        let public = self.public_url.as_deref().map(|url| url.trim_end_matches('/'));
        format!("{}/#once={once}", public.unwrap_or(&self.address))
    }
}
