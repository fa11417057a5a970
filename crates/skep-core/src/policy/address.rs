//! What an address belongs to. Only [`AddressKind::Public`] may be dialled without an exception.
//!
//! Said is what is public; everything else has a kind only for the text of a refusal. An address
//! of version 4 inside one of version 6 counts as the inner one, in every form that some router,
//! tunnel or kernel unwraps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// On the internet.
    Public,
    /// This machine.
    Loopback,
    /// `0.0.0.0/8`, `::`: kernels take it for this machine.
    Unspecified,
    /// A network behind a router.
    Private,
    LinkLocal,
    /// Between a provider and its customers.
    Cgnat,
    Multicast,
    Broadcast,
    /// Hands out a cloud machine's credentials.
    Metadata,
    Documentation,
    /// For measurements of networks.
    Benchmark,
    /// Tunnels that nobody runs any more, and what is not assigned.
    Reserved,
}

impl AddressKind {
    /// For people: "it is …".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Loopback => "this machine itself",
            Self::Unspecified => "no address of a machine",
            Self::Private => "in a private network",
            Self::LinkLocal => "link-local",
            Self::Cgnat => "inside a provider's network",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::Metadata => "the metadata service of a cloud",
            Self::Documentation => "for documentation only",
            Self::Benchmark => "for network tests only",
            Self::Reserved => "reserved",
        }
    }

    /// Whether an operator may list such an address as an exception. What names no single machine
    /// is none, and credentials of the machine are never an agent's.
    pub fn may_be_listed(self) -> bool {
        match self {
            Self::Loopback
            | Self::Private
            | Self::LinkLocal
            | Self::Cgnat
            | Self::Documentation
            | Self::Benchmark
            | Self::Reserved => true,
            Self::Public
            | Self::Unspecified
            | Self::Multicast
            | Self::Broadcast
            | Self::Metadata => false,
        }
    }
}

pub fn kind_of(address: IpAddr) -> AddressKind {
    match address.to_canonical() {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => kind_of_v6(address),
    }
}

/// The address of version 4 that this one carries inside, in whatever form.
pub fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => wrapped(address).map(|(_, inner)| inner),
    }
}

/// By the registry of special-purpose addresses (IANA), and the services of clouds.
fn kind_of_v4(address: Ipv4Addr) -> AddressKind {
    match address.octets() {
        // AWS, Azure, Google and others; AWS for containers; Alibaba; Azure; Oracle.
        [169, 254, 169, 254]
        | [169, 254, 170, 2 | 23]
        | [100, 100, 100, 200]
        | [168, 63, 129, 16]
        | [192, 0, 0, 192] => AddressKind::Metadata,
        [0, ..] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressKind::Private,
        [169, 254, ..] => AddressKind::LinkLocal,
        [100, 64..=127, ..] => AddressKind::Cgnat,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressKind::Documentation,
        [198, 18 | 19, ..] => AddressKind::Benchmark,
        [224..=239, ..] => AddressKind::Multicast,
        [255, 255, 255, 255] => AddressKind::Broadcast,
        // Protocol assignments, relays of 6to4, class E.
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => AddressKind::Reserved,
        [1..=223, ..] => AddressKind::Public,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> AddressKind {
    let parts = address.segments();
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => return AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => return AddressKind::Loopback,
        // AWS, Google.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            return AddressKind::Metadata;
        }
        _ => {}
    }
    if let Some((form, inner)) = wrapped(address) {
        let inner = kind_of_v4(inner);
        if inner != AddressKind::Public || form == Form::Nat64 {
            return inner;
        }
        if form != Form::Isatap {
            return AddressKind::Reserved;
        }
    }
    match parts {
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => AddressKind::Private,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressKind::Documentation,
        [0x2001, 2, 0, ..] => AddressKind::Benchmark,
        [0x2001, 0..=0x1ff, ..] => AddressKind::Reserved,
        [0x2000..=0x3fff, ..] => AddressKind::Public,
        _ => AddressKind::Reserved,
    }
}

/// How one address carries another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `64:ff9b::/96`: a router translates. The one form in daily use.
    Nat64,
    /// `64:ff9b:1::/48`: the same inside one network.
    LocalNat64,
    /// `::a.b.c.d` and `::ffff:0:a.b.c.d`.
    Compatible,
    /// `2002::/16`.
    SixToFour,
    /// `2001::/32`.
    Teredo,
    /// `…:5efe:a.b.c.d` in any network.
    Isatap,
}

fn wrapped(address: Ipv6Addr) -> Option<(Form, Ipv4Addr)> {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    let last = v4(parts[6], parts[7]);
    Some(match parts {
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => (Form::Compatible, last),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => (Form::Nat64, last),
        [0x64, 0xff9b, 1, ..] => (Form::LocalNat64, last),
        [0x2002, high, low, ..] => (Form::SixToFour, v4(high, low)),
        // The client behind it is written with every bit turned round.
        [0x2001, 0, ..] => (Form::Teredo, v4(!parts[6], !parts[7])),
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => (Form::Isatap, last),
        _ => return None,
    })
}
