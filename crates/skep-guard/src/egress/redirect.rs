//! Where an answer sends the client, and what of the request may go there.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};
use skep_core::policy::host::{HostError, WebAddress};

/// What says nothing about the caller. Everything else a caller set was meant for one host.
const HARMLESS: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// The request as it goes to the next address.
pub(super) struct Hop {
    pub(super) method: Method,
    pub(super) address: WebAddress,
    pub(super) headers: HeaderMap,
    pub(super) with_body: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    #[error("it names no address that can be fetched: {0}")]
    Address(#[from] HostError),
    #[error("it leads from https to http, where anybody on the way can read and change the page")]
    Downgrade,
    #[error("it leads to another host and would take the body of the request there")]
    Body,
    #[error("it leads to another host and would take a secret there, in the address")]
    Secret,
}

/// Whether the answer is a redirect, and its target as written.
pub(super) fn location(status: StatusCode, headers: &HeaderMap) -> Option<&str> {
    let moved = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    // A header in another encoding than ASCII is no address.
    moved.then(|| headers.get(header::LOCATION)).flatten().map(|to| to.to_str().unwrap_or(""))
}

impl Hop {
    pub(super) fn follow(self, status: StatusCode, location: &str) -> Result<Self, RedirectError> {
        let to = self.address.join(location).map_err(|error| match holds_secret(location) {
            true => RedirectError::Secret,
            false => error.into(),
        })?;
        if self.address.is_https() && !to.is_https() {
            return Err(RedirectError::Downgrade);
        }
        let mut next = Self { address: to, ..self };
        let keeps = matches!(status.as_u16(), 307 | 308);
        // What was posted is not posted again, as browsers do it.
        if !keeps && next.method != Method::HEAD {
            next.method = Method::GET;
            next.with_body = false;
            next.headers.remove(header::CONTENT_TYPE);
        }
        if !next.address.has_origin_of(&self.address) {
            if next.with_body {
                return Err(RedirectError::Body);
            }
            let target = next.address.to_string();
            if [location, &target].iter().any(|text| holds_secret(text)) {
                return Err(RedirectError::Secret);
            }
            next.headers = HARMLESS
                .into_iter()
                .filter_map(|name| next.headers.get(&name).cloned().map(|value| (name, value)))
                .collect();
        }
        Ok(next)
    }
}

/// Addresses that are signed for a while look like secrets, and are followed.
fn holds_secret(text: &str) -> bool {
    matches!(skep_scrub::known().clean_file(text), Cow::Owned(_))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hop(address: &str, method: Method) -> Hop {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "cookie", "content-type", "accept"] {
            headers.insert(name, "x".parse().unwrap());
        }
        let with_body = method == Method::POST;
        Hop { method, address: WebAddress::parse(address).unwrap(), headers, with_body }
    }

    fn followed(from: &str, method: Method, status: u16, to: &str) -> String {
        match hop(from, method).follow(StatusCode::from_u16(status).unwrap(), to) {
            Ok(Hop { method, address, headers, with_body }) => {
                let body = if with_body { " with body" } else { "" };
                format!("{method} {address} {}{body}", headers.len())
            }
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn network_what_goes_along_with_a_redirect() {
        let cases = [
            ("http://a/", Method::GET, 302, "/b", "GET http://a/b 3"),
            ("http://a/", Method::HEAD, 302, "/b", "HEAD http://a/b 4"),
            ("http://a/", Method::POST, 302, "/b", "GET http://a/b 3"),
            ("http://a/", Method::POST, 303, "/b", "GET http://a/b 3"),
            ("http://a/", Method::POST, 307, "/b", "POST http://a/b 4 with body"),
            ("http://a/", Method::POST, 308, "/b", "POST http://a/b 4 with body"),
            ("http://a/", Method::GET, 302, "http://b/", "GET http://b/ 1"),
            ("http://a/", Method::GET, 302, "http://a:81/", "GET http://a:81/ 1"),
            ("http://a/", Method::GET, 302, "https://a/", "GET https://a/ 1"),
            ("http://a/", Method::POST, 301, "http://b/", "GET http://b/ 1"),
            ("http://a/", Method::POST, 307, "http://b/", "Body"),
            ("https://a/", Method::GET, 302, "http://a/", "Downgrade"),
            ("https://a/", Method::GET, 302, "//b/", "GET https://b/ 1"),
            ("http://a/", Method::GET, 302, "ftp://b/", "Address(Scheme(\"ftp\"))"),
            ("http://a/", Method::GET, 302, "http://u@b/", "Address(Credentials)"),
        ];
        for (from, method, status, to, expected) in cases {
            assert_eq!(followed(from, method.clone(), status, to), expected, "{method} {to}");
        }
    }

    #[test]
    fn network_a_redirect_takes_no_secret_to_another_host() {
        skep_scrub::known().add([skep_scrub::Secret::new("redirect.test", "R3direct-canary-51")]);
        let cases = [
            ("/b?k=R3direct-canary-51", "GET http://a/b?k=R3direct-canary-51 3"),
            ("http://b/?k=R3direct-canary-51", "Secret"),
            ("http://b/?k=R3direct%2Dcanary%2D51", "Secret"),
            ("http://b/?k=UjNkaXJlY3QtY2FuYXJ5LTUx", "Secret"),
            ("http://b/#R3direct-canary-51", "Secret"),
            ("http://R3direct-canary-51/", "Secret"),
            ("R3direct-canary-51://b/", "Secret"),
            ("http://R3direct-canary-51!/", "Secret"),
            ("http://b/?k=other", "GET http://b/?k=other 1"),
        ];
        for (to, expected) in cases {
            assert_eq!(followed("http://a/", Method::GET, 302, to), expected, "{to}");
        }
    }

    #[test]
    fn network_what_is_a_redirect() {
        let mut headers = HeaderMap::new();
        assert_eq!(location(StatusCode::FOUND, &headers), None);
        headers.insert(header::LOCATION, "/b".parse().unwrap());
        for status in [301, 302, 303, 307, 308] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(location(status, &headers), Some("/b"));
        }
        for status in [200, 201, 300, 304, 305, 306, 400] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(location(status, &headers), None, "{status}");
        }
    }
}
