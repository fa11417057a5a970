//! The first bytes of a TLS connection: which name the client says it wants to reach.
//!
//! A grammar of what is understood. Whatever else a client may send (several messages in one
//! record, an encrypted second name, no name) is refused: the server might read it otherwise.

use super::NetworkRefusal;

/// The first byte of a TLS handshake; no request of HTTP begins with it.
pub(super) const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const RECORD_BYTES: usize = 16 * 1024;
/// A hello with keys that withstand quantum computers and a session ticket takes 2 to 4 KiB.
pub(super) const HELLO_BYTES: usize = 64 * 1024;

const SERVER_NAME: u16 = 0;
const ENCRYPTED_HELLO: u16 = 0xfe0d;
/// `encrypted_server_name` of the drafts before it.
const ENCRYPTED_NAME: u16 = 0xffce;

/// By this "random" a server asks for a second hello (RFC 8446, 4.1.3).
pub(super) const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Record, handshake and version before the "random" of a server's hello, and that itself.
pub(super) const ANSWER_BYTES: usize = 5 + 4 + 2 + 32;

/// What the client sends to say that a fatal error ended the handshake: access denied.
pub(super) const ALERT: [u8; 7] = [21, 3, 1, 0, 2, 2, 49];

/// How many of these bytes are the hello, whose name must be `name`; `None` while more is needed.
pub(super) fn check(bytes: &[u8], name: &str) -> Result<Option<usize>, NetworkRefusal> {
    let Some((message, length)) = message(bytes)? else { return Ok(None) };
    let hello = server_name(&message).ok_or_else(|| unreadable("its ClientHello is malformed"))?;
    if hello.encrypted {
        return Err(NetworkRefusal::new(
            "tls_encrypted_name",
            "the client hides a second name (ECH) in its TLS hello; switch that off in the client",
        ));
    }
    match hello.name {
        Some(found) if found.eq_ignore_ascii_case(name.as_bytes()) => Ok(Some(length)),
        Some(found) => Err(NetworkRefusal::new(
            "tls_name_differs",
            format!(
                "its TLS hello names {}, but the address belongs to {name}",
                String::from_utf8_lossy(found).escape_default()
            ),
        )),
        None => Err(NetworkRefusal::new(
            "tls_name_missing",
            "its TLS hello names no host (SNI), so that nobody can tell whom it is for",
        )),
    }
}

/// Whether a server, by the first `ANSWER_BYTES` it sends, asks for a second hello.
pub(super) fn asks_again(answer: &[u8]) -> bool {
    answer.len() >= ANSWER_BYTES
        && answer[0] == HANDSHAKE
        && answer[5] == SERVER_HELLO
        && answer[11..ANSWER_BYTES] == RETRY
}

/// Whether bytes can still become such an answer.
pub(super) fn may_ask_again(answer: &[u8]) -> bool {
    answer.first().is_none_or(|kind| *kind == HANDSHAKE)
        && answer.get(5).is_none_or(|kind| *kind == SERVER_HELLO)
}

/// Bytes of the record that these begin with, when it is none of a handshake.
pub(super) fn other_record(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [kind, _, _, high, low, ..] if *kind != HANDSHAKE => {
            Some(5 + usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    }
}

fn unreadable(why: &str) -> NetworkRefusal {
    NetworkRefusal::new("tls_unreadable", format!("what it sends is not understood: {why}"))
}

/// The first handshake message, put together from its records, and where the last one ends.
fn message(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, NetworkRefusal> {
    let (mut message, mut at) = (Vec::new(), 0);
    loop {
        let Some(header) = bytes[at..].first_chunk::<5>() else {
            if bytes.get(at).is_some_and(|kind| *kind != HANDSHAKE) {
                return Err(unreadable("no TLS handshake"));
            }
            return waiting(bytes);
        };
        let [kind, major, _, high, low] = *header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 {
            return Err(unreadable("no TLS handshake"));
        }
        if length == 0 || length > RECORD_BYTES {
            return Err(unreadable("a TLS record of a size that there is not"));
        }
        let Some(record) = bytes.get(at + 5..at + 5 + length) else { return waiting(bytes) };
        message.extend_from_slice(record);
        at += 5 + length;
        if message[0] != CLIENT_HELLO {
            return Err(unreadable("the first TLS message is no ClientHello"));
        }
        if let Some([_, a, b, c]) = message.first_chunk::<4>() {
            let whole = 4 + usize::from(*a) * 65_536 + usize::from(*b) * 256 + usize::from(*c);
            if whole > HELLO_BYTES {
                return Err(unreadable("a ClientHello of more than 64 KiB"));
            }
            match message.len() {
                length if length == whole => return Ok(Some((message.split_off(4), at))),
                length if length > whole => {
                    return Err(unreadable("more than a ClientHello in its records"));
                }
                _ => {}
            }
        }
    }
}

fn waiting<T>(bytes: &[u8]) -> Result<Option<T>, NetworkRefusal> {
    match bytes.len() {
        0..HELLO_BYTES => Ok(None),
        _ => Err(unreadable("a ClientHello of more than 64 KiB")),
    }
}

struct Hello<'a> {
    name: Option<&'a [u8]>,
    encrypted: bool,
}

/// The name in the body of a ClientHello; `None` where the body is not what the standard says.
fn server_name(body: &[u8]) -> Option<Hello<'_>> {
    let mut rest = Fields(body);
    // Version and random.
    rest.take(2 + 32)?;
    let session = rest.short()?;
    let suites = rest.long()?;
    let compression = rest.short()?;
    if session.len() > 32 || suites.len() % 2 != 0 || suites.is_empty() || compression.is_empty() {
        return None;
    }
    let mut hello = Hello { name: None, encrypted: false };
    if rest.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = Fields(rest.long()?);
    if !rest.0.is_empty() {
        return None;
    }
    let mut seen = std::collections::HashSet::new();
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.long()?;
        if !seen.insert(kind) {
            return None;
        }
        match kind {
            SERVER_NAME => hello.name = Some(host_name(content)?),
            ENCRYPTED_HELLO | ENCRYPTED_NAME => hello.encrypted = true,
            _ => {}
        }
    }
    Some(hello)
}

/// Of a list with exactly one name.
fn host_name(content: &[u8]) -> Option<&[u8]> {
    let mut outer = Fields(content);
    let mut list = Fields(outer.long()?);
    let [kind] = list.take(1)? else { return None };
    let name = list.long()?;
    let alone = *kind == 0 && list.0.is_empty() && outer.0.is_empty() && !name.is_empty();
    alone.then_some(name)
}

/// Fields one after another, each taken once.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))
    }

    /// With its length in one byte.
    fn short(&mut self) -> Option<&'a [u8]> {
        let count = usize::from(*self.take(1)?.first()?);
        self.take(count)
    }

    /// With its length in two.
    fn long(&mut self) -> Option<&'a [u8]> {
        let count = usize::from(self.number()?);
        self.take(count)
    }
}
