//! One page or file from the web, through an agent's guard.
//!
//! Every hop of a redirect is judged like the first address. The caller reads the body in pieces
//! and gets at most as many bytes as it asked for; nothing is decompressed here.
//!
//! ```
//! # use skep_core::policy::host::WebAddress;
//! # use skep_guard::egress::{Egress, FetchRequest};
//! async fn size(egress: &Egress, url: &str) -> Result<usize, Box<dyn std::error::Error>> {
//!     let mut page = egress.fetch(FetchRequest::get(WebAddress::parse(url)?)).await?;
//!     let mut bytes = 0;
//!     while let Some(piece) = page.chunk().await? {
//!         bytes += piece.len();
//!     }
//!     Ok(bytes)
//! }
//! ```

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use skep_core::policy::address::{AddressKind, kind_of};
use skep_core::policy::host::{Host, WebAddress};
use skep_core::policy::network::HostEntry;
use tokio::time::Instant;

use super::client::{Deadline, HttpError, HttpResponse, within};
use super::error::EgressError;
use super::hub::Egress;
use super::redirect::{self, Hop, RedirectError};

/// What a request carries about its connection and its length is ours to say; with another `Host`
/// a server would answer for a host that nobody judged.
const OURS: [HeaderName; 10] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
];

pub struct FetchRequest {
    pub method: Method,
    pub address: WebAddress,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub limits: FetchLimits,
    pub unlisted: Unlisted,
    pub secrets: CarriedSecrets,
}

/// Secrets in a request, and the only hosts they may go to.
#[derive(Clone, Debug, Default)]
pub struct CarriedSecrets {
    pub headers: Vec<HeaderName>,
    pub in_body: bool,
    /// One list for each secret.
    pub hosts: Vec<Vec<HostEntry>>,
}

impl CarriedSecrets {
    /// Why what of them is still in the request may not go to its address.
    fn refusal(&self, hop: &Hop) -> Option<FetchError> {
        let in_headers = self.headers.iter().any(|name| hop.headers.contains_key(name));
        let in_body = self.in_body && hop.with_body;
        if !in_headers && !in_body {
            return None;
        }
        let (host, port) = (hop.address.host(), hop.address.port());
        let listed = |hosts: &Vec<HostEntry>| hosts.iter().any(|entry| entry.lists(host, port));
        if !self.hosts.iter().all(listed) {
            return Some(FetchError::SecretHost { address: hop.address.clone() });
        }
        // Inside an own network somebody chose to do without.
        let own = matches!(host, Host::Address(it) if kind_of(*it) != AddressKind::Public);
        let is_plain = !self.hosts.is_empty() && !hop.address.is_https() && !own;
        is_plain.then(|| FetchError::SecretPlain { address: hop.address.clone() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// From the first look-up to the last byte.
    pub time: Duration,
    /// Bytes of the body, as they come over the wire.
    pub bytes: u64,
    pub redirects: usize,
}

/// What becomes of a host that the rules do not list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlisted {
    Refuse,
    /// A person approved this host and port for this one fetch, and with them the same host over
    /// https. A redirect elsewhere is judged by the lists.
    Approved(Host, u16),
}

/// An answer whose body is still to come.
pub struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Where the answer comes from, after redirects.
    pub address: WebAddress,
    /// How many redirects led there.
    pub redirects: usize,
    response: HttpResponse,
    deadline: Deadline,
    /// Of the body.
    limit: u64,
    left: u64,
    /// More came than the limit allows.
    cut: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{}{source}", redirected(.redirects))]
    Egress { address: WebAddress, source: EgressError, redirects: usize },
    #[error("cannot fetch {address}: a redirect to `{location}` is not followed: {source}")]
    Redirect { address: WebAddress, location: String, source: RedirectError },
    #[error("cannot fetch {address}: it redirects more than {limit} times; fetch the last address")]
    Redirects { address: WebAddress, limit: usize },
    #[error("cannot fetch {address}: the header `{header}` is set by the connection; leave it out")]
    Header { address: WebAddress, header: HeaderName },
    #[error("cannot fetch {address}: it is not complete after {} s; try again, or allow more time",
            .limit.as_secs())]
    Timeout { address: WebAddress, limit: Duration },
    #[error("cannot fetch {address}: {why}; try again")]
    Broken { address: WebAddress, why: String },
    #[error(
        "cannot fetch {address}: a vault entry in the request may not be sent there. A person \
             names its hosts with `skep vault set NAME --host HOST --keep`"
    )]
    SecretHost { address: WebAddress },
    #[error(
        "cannot fetch {address}: a vault entry in the request would go there unencrypted; use \
             https"
    )]
    SecretPlain { address: WebAddress },
    #[error("the body is longer than {limit} bytes")]
    TooLong { limit: u64 },
}

fn redirected(count: &usize) -> &'static str {
    if *count == 0 { "" } else { "after a redirect, " }
}

impl FetchError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Egress { source, .. } => source.code(),
            Self::Redirect { source: RedirectError::Downgrade, .. } => "redirect_downgrade",
            Self::Redirect { .. } => "redirect_refused",
            Self::Redirects { .. } => "redirects_exceeded",
            Self::Header { .. } => "header_refused",
            Self::Timeout { .. } => "fetch_timeout",
            Self::Broken { .. } => "fetch_broken",
            Self::SecretHost { .. } => "vault_host",
            Self::SecretPlain { .. } => "vault_unencrypted",
            Self::TooLong { .. } => "body_too_long",
        }
    }
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(30), bytes: 1 << 20, redirects: 10 }
    }
}

impl FetchRequest {
    pub fn get(address: WebAddress) -> Self {
        Self {
            method: Method::GET,
            address,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            limits: FetchLimits::default(),
            unlisted: Unlisted::Refuse,
            secrets: CarriedSecrets::default(),
        }
    }
}

impl Egress {
    /// Sends the request and follows redirects until an answer comes, each hop judged anew.
    pub async fn fetch(&self, request: FetchRequest) -> Result<Fetched, FetchError> {
        let FetchRequest { method, address, headers, body, limits, unlisted, secrets } = request;
        if let Some(header) = headers.keys().find(|name| OURS.contains(name)) {
            return Err(FetchError::Header { address, header: header.clone() });
        }
        let deadline = Deadline { at: Instant::now() + limits.time, limit: limits.time };
        let mut hop = Hop { method, address, headers, with_body: !body.is_empty() };
        for redirects in 0..=limits.redirects {
            self.judge_hop(&hop.address, &unlisted)
                .and_then(|()| self.count(hop.address.host(), hop.address.port()))
                .map_err(|source| FetchError::Egress {
                    address: hop.address.clone(),
                    source,
                    redirects,
                })?;
            if let Some(error) = secrets.refusal(&hop) {
                return Err(error);
            }
            let sent = self.client().send(rendered(&hop, &body));
            let response = within(Some(deadline), sent)
                .await
                .map_err(|error| broken(error, &hop.address, redirects))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let Some(location) = redirect::location(status, &headers) else {
                let (address, limit) = (hop.address, limits.bytes);
                return Ok(Fetched {
                    status,
                    headers,
                    address,
                    redirects,
                    response,
                    deadline,
                    limit,
                    left: limit,
                    cut: false,
                });
            };
            let from = hop.address.clone();
            hop = hop.follow(status, location).map_err(|source| {
                let location = skep_scrub::known().clean(location).chars().take(200).collect();
                FetchError::Redirect { address: from, location, source }
            })?;
        }
        Err(FetchError::Redirects { address: hop.address, limit: limits.redirects })
    }

    fn judge_hop(&self, address: &WebAddress, unlisted: &Unlisted) -> Result<(), EgressError> {
        let (host, port) = (address.host(), address.port());
        match unlisted {
            Unlisted::Approved(own, own_port)
                if own == host && (*own_port == port || (*own_port, port) == (80, 443)) =>
            {
                self.judge().not_denied(host, port)
            }
            Unlisted::Approved(..) | Unlisted::Refuse => self.judge().listed(host, port),
        }
    }
}

fn rendered(hop: &Hop, body: &Bytes) -> Request<Full<Bytes>> {
    let body = if hop.with_body { body.clone() } else { Bytes::new() };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = hop.method.clone();
    *request.headers_mut() = hop.headers.clone();
    // Both read the same grammar; what one of them would not take is an address of nobody.
    *request.uri_mut() = hop.address.as_str().parse().unwrap_or_default();
    let usual = |name: HeaderName, value: &'static str, headers: &mut HeaderMap| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    usual(header::ACCEPT, "*/*", request.headers_mut());
    usual(header::USER_AGENT, concat!("skep/", env!("CARGO_PKG_VERSION")), request.headers_mut());
    request
}

fn broken(error: HttpError, address: &WebAddress, redirects: usize) -> FetchError {
    let address = address.clone();
    match error {
        HttpError::Egress(source) => FetchError::Egress { address, source, redirects },
        HttpError::Timeout(limit) => FetchError::Timeout { address, limit },
        other => FetchError::Broken { address, why: other.to_string() },
    }
}

impl Fetched {
    /// The next piece of the body; none at its end. Bytes up to the limit are handed out, then
    /// comes [`FetchError::TooLong`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        if self.cut {
            return Err(FetchError::TooLong { limit: self.limit });
        }
        let read = within(Some(self.deadline), self.response.chunk()).await;
        let Some(mut piece) = read.map_err(|error| broken(error, &self.address, 0))? else {
            return Ok(None);
        };
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        self.cut = piece.len() > left;
        piece.truncate(left);
        self.left -= piece.len() as u64;
        Ok(Some(piece))
    }

    /// The whole body; an error where it is longer than the limit.
    pub async fn read(mut self) -> Result<Vec<u8>, FetchError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.chunk().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}
