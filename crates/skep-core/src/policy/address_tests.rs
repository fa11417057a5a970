//! Each block of addresses at its edges, and each form in which one address hides another.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};

use super::address::AddressKind::{self, *};
use super::address::{embedded, kind_of};

fn check(cases: &[(&str, AddressKind)]) {
    for (text, kind) in cases {
        assert_eq!(kind_of(text.parse().unwrap()), *kind, "{text}");
    }
}

#[test]
fn network_blocks_of_version_4() {
    check(&[
        ("0.0.0.0", Unspecified),
        ("0.255.255.255", Unspecified),
        ("1.0.0.0", Public),
        ("9.255.255.255", Public),
        ("10.0.0.0", Private),
        ("10.255.255.255", Private),
        ("11.0.0.0", Public),
        ("100.63.255.255", Public),
        ("100.64.0.0", Cgnat),
        ("100.127.255.255", Cgnat),
        ("100.128.0.0", Public),
        ("100.100.100.200", Metadata),
        ("126.255.255.255", Public),
        ("127.0.0.0", Loopback),
        ("127.255.255.255", Loopback),
        ("128.0.0.0", Public),
        ("168.63.129.16", Metadata),
        ("168.63.129.17", Public),
        ("169.253.255.255", Public),
        ("169.254.0.0", LinkLocal),
        ("169.254.169.254", Metadata),
        ("169.254.170.2", Metadata),
        ("169.254.170.23", Metadata),
        ("169.254.255.255", LinkLocal),
        ("169.255.0.0", Public),
        ("172.15.255.255", Public),
        ("172.16.0.0", Private),
        ("172.31.255.255", Private),
        ("172.32.0.0", Public),
        ("192.0.0.0", Reserved),
        ("192.0.0.192", Metadata),
        ("192.0.1.0", Public),
        ("192.0.2.1", Documentation),
        ("192.88.99.1", Reserved),
        ("192.167.255.255", Public),
        ("192.168.0.0", Private),
        ("192.168.255.255", Private),
        ("192.169.0.0", Public),
        ("198.17.255.255", Public),
        ("198.18.0.0", Benchmark),
        ("198.19.255.255", Benchmark),
        ("198.20.0.0", Public),
        ("198.51.100.1", Documentation),
        ("203.0.113.1", Documentation),
        ("223.255.255.255", Public),
        ("224.0.0.0", Multicast),
        ("239.255.255.255", Multicast),
        ("240.0.0.0", Reserved),
        ("255.255.255.254", Reserved),
        ("255.255.255.255", Broadcast),
        ("8.8.8.8", Public),
    ]);
}

#[test]
fn network_blocks_of_version_6() {
    check(&[
        ("::", Unspecified),
        ("::1", Loopback),
        ("::2", Unspecified),
        ("1fff:ffff::1", Reserved),
        ("2000::1", Public),
        ("2001:1ff::1", Reserved),
        ("2001:2::1", Benchmark),
        ("2001:20::1", Reserved),
        ("2001:200::1", Public),
        ("2001:db8::1", Documentation),
        ("2001:4860:4860::8888", Public),
        ("2606:4700::1111", Public),
        ("3fff::1", Documentation),
        ("3fff:fff::1", Documentation),
        ("3fff:1000::1", Public),
        ("4000::1", Reserved),
        ("100::1", Reserved),
        ("5f00::1", Reserved),
        ("fbff::1", Reserved),
        ("fc00::1", Private),
        ("fdff:ffff::1", Private),
        ("fd00:ec2::254", Metadata),
        ("fd20:ce::254", Metadata),
        ("fe00::1", Reserved),
        ("fe80::1", LinkLocal),
        ("febf::1", LinkLocal),
        ("fec0::1", Private),
        ("feff::1", Private),
        ("ff02::1", Multicast),
        ("ffff::1", Multicast),
    ]);
}

/// Every form around one inner address, given as the last two groups of an IPv6 address.
fn forms(inner: Ipv4Addr) -> Vec<(&'static str, String)> {
    let [a, b, c, d] = inner.octets();
    let pair = format!("{a:x}{b:02x}:{c:x}{d:02x}");
    let turned = format!("{:x}{:02x}:{:x}{:02x}", !a, !b, !c, !d);
    vec![
        ("mapped", format!("::ffff:{pair}")),
        ("compatible", format!("::{pair}")),
        ("translated", format!("::ffff:0:{pair}")),
        ("NAT64", format!("64:ff9b::{pair}")),
        ("local NAT64", format!("64:ff9b:1::{pair}")),
        ("6to4", format!("2002:{pair}::1")),
        ("Teredo", format!("2001:0:808:808:0:0:{turned}")),
        ("ISATAP", format!("2606:4700::5efe:{pair}")),
        ("ISATAP, global", format!("2606:4700::200:5efe:{pair}")),
    ]
}

#[test]
fn network_an_inner_address_counts_in_every_form() {
    let inner = [
        ("127.0.0.1", Loopback),
        ("10.0.5.7", Private),
        ("192.168.1.1", Private),
        ("172.16.0.1", Private),
        ("100.64.0.1", Cgnat),
        ("169.254.0.1", LinkLocal),
        ("169.254.169.254", Metadata),
        ("224.0.0.1", Multicast),
        ("255.255.255.255", Broadcast),
        ("203.0.113.1", Documentation),
    ];
    for (text, kind) in inner {
        let inner: Ipv4Addr = text.parse().unwrap();
        for (form, written) in forms(inner) {
            let address: IpAddr = written.parse().unwrap();
            assert_eq!(kind_of(address), kind, "{form} of {text}: {written}");
            if form != "mapped" {
                assert_eq!(embedded(address), Some(inner), "{form}: {written}");
            }
        }
    }
}

/// A tunnel that nobody runs is not public because its other end is; a translator in use is.
#[test]
fn network_a_public_inner_address_makes_few_forms_public() {
    for (form, written) in forms(Ipv4Addr::new(8, 8, 8, 8)) {
        let public = ["mapped", "NAT64", "ISATAP", "ISATAP, global"].contains(&form);
        let kind = if public { Public } else { Reserved };
        assert_eq!(kind_of(written.parse().unwrap()), kind, "{form}: {written}");
    }
    assert_eq!(kind_of("fe80::5efe:808:808".parse().unwrap()), LinkLocal);
    assert_eq!(kind_of("fd00::200:5efe:808:808".parse().unwrap()), Private);
    assert_eq!(embedded("8.8.8.8".parse().unwrap()), None);
    assert_eq!(embedded("2606:4700::1111".parse().unwrap()), None);
}

/// The whole of version 4 in steps of a prime: what is public lies in no block of the registry.
#[test]
fn network_public_agrees_with_the_standard_library() {
    for number in (0..=u32::MAX).step_by(65_521) {
        let address = Ipv4Addr::from_bits(number);
        let plain = address.is_private()
            || address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_documentation()
            || address.is_unspecified();
        if plain {
            assert_ne!(kind_of(IpAddr::V4(address)), Public, "{address}");
        }
    }
}
