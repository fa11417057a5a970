//! Whom a connection is for: a DNS name, or an address.
//!
//! A host is read once, as browsers read it (WHATWG), and from then on is a value with one
//! spelling. What is judged, resolved, sent as SNI and compared with rules is that value, never
//! the text it came from: no second reader can understand the text in another way.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use url::Url;

/// A DNS name in ASCII, lower case, without a last dot. Never an address in any spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct HostName(String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(HostName),
    /// Never an IPv4 address in IPv6 clothes (`::ffff:127.0.0.1`): that is the IPv4 address.
    Address(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("there is no host")]
    Empty,
    #[error("a host has no {0}")]
    Character(&'static str),
    #[error("`{0}` is no address of version 6: it is written like [2001:db8::1], without a zone")]
    Version6(String),
    #[error("`{0}` is neither a DNS name nor an address")]
    Malformed(String),
    #[error("`{0}` is an address, and a name is needed here")]
    NotAName(IpAddr),
    #[error("`{0}` is no web address: it is written like https://example.org/page")]
    NotAnAddress(String),
    #[error("`{0}:` is not fetched: only http and https are")]
    Scheme(String),
    #[error("the address holds a user name or password: leave out what stands before the `@`")]
    Credentials,
}

/// DNS: a name is at most this long. A part of it that is too long simply has no address.
const NAME_BYTES: usize = 253;
/// More text than any name has before its conversion to ASCII.
const TEXT_BYTES: usize = 1024;
const URL_BYTES: usize = 8 * 1024;

impl HostName {
    pub fn parse(text: &str) -> Result<Self, HostError> {
        match Host::parse(text)? {
            Host::Name(name) => Ok(name),
            Host::Address(address) => Err(HostError::NotAName(address)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it lies below `above`: `a.example.org` below `example.org`.
    pub fn is_below(&self, above: &HostName) -> bool {
        let rest = self.0.strip_suffix(above.as_str());
        rest.is_some_and(|below| below.len() > 1 && below.ends_with('.'))
    }
}

impl Host {
    /// Reads a host without port, as it stands in a web address, or a bare address of version 6.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        refuse_characters(text)?;
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.starts_with('[') || text.contains(':') {
            let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let address = inside.unwrap_or(text).parse::<Ipv6Addr>();
            let address = address.map_err(|_| HostError::Version6(shown(text)))?;
            return Ok(Self::of_address(IpAddr::V6(address)));
        }
        if text.len() > TEXT_BYTES {
            return Err(HostError::Malformed(shown(text)));
        }
        match url::Host::parse(text) {
            Ok(url::Host::Domain(name)) => name_of(&name).ok_or_else(|| shown(text)),
            Ok(url::Host::Ipv4(address)) => Ok(Self::Address(IpAddr::V4(address))),
            Ok(url::Host::Ipv6(address)) => Ok(Self::of_address(IpAddr::V6(address))),
            Err(_) => Err(shown(text)),
        }
        .map_err(HostError::Malformed)
    }

    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }

    pub fn name(&self) -> Option<&HostName> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

/// The name in its one spelling; none where it is not one that DNS can carry.
fn name_of(ascii: &str) -> Option<Host> {
    let name = ascii.strip_suffix('.').unwrap_or(ascii);
    let fits = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'
    };
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(fits);
    // Resolvers read more texts as an address than browsers do: no name ends in a number.
    let last = name.rsplit('.').next()?;
    let is_number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    let fine = name.len() <= NAME_BYTES && !is_number && name.split('.').all(is_label);
    fine.then(|| Host::Name(HostName(name.to_owned())))
}

/// What the URL reader would drop, decode or take for something else.
fn refuse_characters(text: &str) -> Result<(), HostError> {
    let named = |letter: char| match letter {
        '%' => Some("`%`: neither an encoded letter nor a zone"),
        '@' => Some("`@`: leave out user name and password"),
        '/' | '\\' | '?' | '#' => Some("path"),
        letter if letter.is_control() => Some("control character"),
        letter if letter.is_whitespace() => Some("blank"),
        _ => None,
    };
    text.chars().find_map(named).map_or(Ok(()), |what| Err(HostError::Character(what)))
}

/// Enough of a text to recognise it, on one line.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As it stands in a web address: version 6 in brackets.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl TryFrom<String> for HostName {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        Self::parse(&text)
    }
}

impl From<Ipv4Addr> for Host {
    fn from(address: Ipv4Addr) -> Self {
        Self::Address(IpAddr::V4(address))
    }
}

/// A web address that may be fetched: http or https, a host, no user name, no fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress {
    url: Url,
    host: Host,
    port: u16,
}

impl WebAddress {
    pub fn parse(text: &str) -> Result<Self, HostError> {
        refuse_url_characters(text)?;
        let url = Url::parse(text).map_err(|_| HostError::NotAnAddress(shown(text)))?;
        let written = text.split_once(':').map_or("", |(_, rest)| rest);
        // `http:host` and `http:///host` are repaired by browsers; nobody means them.
        let begins = written.strip_prefix("//").is_some_and(|rest| !rest.starts_with('/'));
        if matches!(url.scheme(), "http" | "https") && !begins {
            return Err(HostError::NotAnAddress(shown(text)));
        }
        // The URL reader drops an empty user name without a word.
        let authority = written.trim_start_matches('/').split(['/', '?', '#']).next();
        if authority.is_some_and(|authority| authority.contains('@')) {
            return Err(HostError::Credentials);
        }
        Self::of(url)
    }

    /// The same for an address that the operator wrote, where user name and password may stand
    /// before the host: the address without them, and both as `user:password`.
    pub fn of_operator(text: &str) -> Result<(Self, Option<String>), HostError> {
        refuse_url_characters(text)?;
        let mut url = Url::parse(text).map_err(|_| HostError::NotAnAddress(shown(text)))?;
        let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let password = url.password().map(decoded).unwrap_or_default();
        let user = decoded(url.username());
        let named = !user.is_empty() || !password.is_empty();
        // Fails for schemes that are refused below.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        Ok((Self::of(url)?, named.then(|| format!("{user}:{password}"))))
    }

    /// Where a redirect leads.
    pub fn join(&self, location: &str) -> Result<Self, HostError> {
        refuse_url_characters(location)?;
        let url = self.url.join(location);
        Self::of(url.map_err(|_| HostError::NotAnAddress(shown(location)))?)
    }

    fn of(mut url: Url) -> Result<Self, HostError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HostError::Scheme(shown(url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(HostError::Credentials);
        }
        let host = Host::parse(url.host_str().ok_or(HostError::Empty)?)?;
        let port = url.port_or_known_default().ok_or(HostError::Empty)?;
        // So that what is sent is the one spelling, too: `[::ffff:1.2.3.4]` and a last dot go.
        let set = url.set_host(Some(&host.to_string()));
        set.map_err(|_| HostError::Malformed(shown(url.as_str())))?;
        url.set_fragment(None);
        Ok(Self { url, host, port })
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Same scheme, host and port: what was meant for one is meant for the other.
    pub fn has_origin_of(&self, other: &Self) -> bool {
        self.is_https() == other.is_https() && self.host == other.host && self.port == other.port
    }
}

/// What the URL reader would silently drop or turn around.
fn refuse_url_characters(text: &str) -> Result<(), HostError> {
    let odd = |letter: char| letter.is_control() || letter.is_whitespace() || letter == '\\';
    match text.contains(odd) || text.len() > URL_BYTES {
        true => Err(HostError::NotAnAddress(shown(text))),
        false => Ok(()),
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}
