//! The names of a confined program: DNS that is answered on this machine alone.
//!
//! An allowed name has an address of its own for as long as the program runs; by it a connection
//! tells whom it is for. Whatever else is asked is answered "there is no such name". Nothing of a
//! question leaves the machine.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use skep_core::policy::host::HostName;

/// 127.9.0.0/16: loopback, so that no route leads out, and nothing else uses it.
const FIRST: u32 = u32::from_be_bytes([127, 9, 0, 1]);
/// Names of one program; a wildcard allows any number of them.
const MOST_NAMES: usize = 4096;
/// A name keeps its address until the program ends, so any time will do.
const SECONDS_TO_LIVE: u32 = 60;
pub(super) const QUESTION_BYTES: usize = 512;

const ADDRESS: u16 = 1;
const OPTIONS: u16 = 41;
const INTERNET: u16 = 1;

/// What is answered; the codes are those of RFC 1035, 4.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameAnswer {
    Address(Ipv4Addr),
    /// There is such a name, and nothing of what was asked for.
    Empty,
    Malformed,
    /// The program asked for too many names.
    Full,
    Unknown,
}

/// Which address stands for which name.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    addresses: HashMap<HostName, Ipv4Addr>,
    names: HashMap<Ipv4Addr, HostName>,
}

impl NameTable {
    pub fn name_of(&self, address: Ipv4Addr) -> Option<&HostName> {
        self.names.get(&address)
    }

    /// The address of an allowed name; `None` when there are too many.
    pub fn address_of(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        if let Some(known) = self.addresses.get(name) {
            return Some(*known);
        }
        let count = self.addresses.len();
        let address = Ipv4Addr::from(FIRST + u32::try_from(count).ok()?);
        (count < MOST_NAMES).then(|| {
            self.addresses.insert(name.clone(), address);
            self.names.insert(address, name.clone());
            address
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct NameQuestion {
    /// As it was spelled, without the last point.
    pub name: String,
    kind: u16,
    class: u16,
    /// Where the question ends in the message.
    end: usize,
}

impl NameQuestion {
    /// `None`: no question, or one that is not understood.
    pub fn read(message: &[u8]) -> Option<Self> {
        let header = message.first_chunk::<12>()?;
        // A question (not an answer), of the usual kind, whole; recursion, AD and CD as they like.
        let plain = header[2] & 0b1111_1010 == 0 && header[3] & 0b1100_1111 == 0;
        let counts = [header[4], header[5], header[6], header[7], header[8], header[9], header[10]];
        if !plain || counts != [0, 1, 0, 0, 0, 0, 0] || message.len() > QUESTION_BYTES {
            return None;
        }
        let (mut at, mut name) = (12, String::new());
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            // No pointers, and no longer than a name may be.
            let label = message.get(at..at + length).filter(|_| length < 64 && name.len() < 254)?;
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(str::from_utf8(label).ok().filter(|label| !label.contains('.'))?);
            at += length;
        }
        let [kind_high, kind_low, class_high, class_low] =
            *message.get(at..)?.first_chunk::<4>()?;
        let end = at + 4;
        let more = &message[end..];
        let options = [0, 0, u8::try_from(OPTIONS).ok()?];
        let understood = match header[11] {
            0 => more.is_empty(),
            1 => more.len() >= 11 && more.starts_with(&options),
            _ => false,
        };
        understood.then(|| Self {
            name,
            kind: u16::from_be_bytes([kind_high, kind_low]),
            class: u16::from_be_bytes([class_high, class_low]),
            end,
        })
    }

    /// Whether it is about the name of a host, and not about an address or a service.
    pub fn is_forward(&self) -> bool {
        self.class == INTERNET && !self.name.ends_with(".arpa")
    }

    /// What to answer when the name has this address.
    pub fn answer_with(&self, address: Ipv4Addr) -> NameAnswer {
        match (self.class, self.kind) {
            (INTERNET, ADDRESS) => NameAnswer::Address(address),
            _ => NameAnswer::Empty,
        }
    }

    /// The message that answers `asked`, whose question this is.
    pub fn reply(&self, asked: &[u8], answer: NameAnswer) -> Vec<u8> {
        let mut reply = header(asked, answer);
        reply[5] = 1;
        reply.extend_from_slice(&asked[12..self.end]);
        if let NameAnswer::Address(address) = answer {
            reply[7] = 1;
            // The name of the question, by its place.
            reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
            reply.extend_from_slice(&SECONDS_TO_LIVE.to_be_bytes());
            reply.extend_from_slice(&[0, 4]);
            reply.extend_from_slice(&address.octets());
        }
        reply
    }
}

/// The answer to what is no question that we understand; none to what is an answer itself.
pub(super) fn refusal(asked: &[u8]) -> Option<Vec<u8>> {
    let is_question = asked.len() >= 12 && asked[2] & 0x80 == 0;
    is_question.then(|| header(asked, NameAnswer::Malformed))
}

fn header(asked: &[u8], answer: NameAnswer) -> Vec<u8> {
    let code = match answer {
        NameAnswer::Address(_) | NameAnswer::Empty => 0,
        NameAnswer::Malformed => 1,
        NameAnswer::Full => 2,
        NameAnswer::Unknown => 3,
    };
    // An answer, recursion available; whether it was asked for comes from the question.
    vec![asked[0], asked[1], 0x80 | (asked[2] & 1), 0x80 | code, 0, 0, 0, 0, 0, 0, 0, 0]
}
