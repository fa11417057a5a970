//! The setting `network`: what entries mean, and which are refused.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::host::Host;
use super::network::{AddressEntry, HostEntry, HostVerdict, NetworkEntryError, NetworkRules};

fn rules(value: serde_json::Value) -> NetworkRules {
    serde_json::from_value(value).unwrap()
}

fn judged(rules: &NetworkRules, host: &str, port: u16) -> String {
    match rules.judge(&Host::parse(host).unwrap(), port) {
        HostVerdict::Listed => "listed".to_owned(),
        HostVerdict::Unlisted => "unlisted".to_owned(),
        HostVerdict::Denied { entry } => entry,
    }
}

#[test]
fn network_nothing_is_listed_unless_it_is_written() {
    let none = NetworkRules::default();
    assert_eq!(judged(&none, "example.org", 443), "unlisted");
    assert_eq!(judged(&none, "127.0.0.1", 80), "unlisted");
    assert_eq!(none.ports().into_iter().collect::<Vec<_>>(), [80, 443]);
    assert_eq!(serde_json::to_value(&none).unwrap(), json!({}));
}

#[test]
fn network_entries_and_ports() {
    let rules = rules(json!({
        "hosts": ["Example.org", "*.example.net", "api.example:8443", "9.9.9.9",
                  "[2606:4700::1111]:853", "bücher.example"],
        "deny": ["bad.example.net", "*.evil.example.net", "example.org:80", "9.9.9.10"],
        "private": ["10.0.5.7:8080", "10.0.5.8", "[fd00::7]:81", "::1"],
    }));
    let cases = [
        ("example.org", 443, "listed"),
        ("example.org.", 443, "listed"),
        ("EXAMPLE.ORG", 443, "listed"),
        ("example.org", 80, "example.org:80"),
        ("example.org", 8443, "unlisted"),
        ("a.example.org", 443, "unlisted"),
        ("example.net", 443, "unlisted"),
        ("a.example.net", 443, "listed"),
        ("a.b.example.net", 80, "listed"),
        ("bad.example.net", 443, "bad.example.net"),
        ("bad.example.net", 9999, "bad.example.net"),
        ("x.evil.example.net", 443, "*.evil.example.net"),
        ("evil.example.net", 443, "listed"),
        ("api.example", 8443, "listed"),
        ("api.example", 443, "unlisted"),
        ("9.9.9.9", 443, "listed"),
        ("0x09090909", 443, "listed"),
        ("[::ffff:9.9.9.9]", 443, "listed"),
        ("9.9.9.10", 443, "9.9.9.10"),
        ("[64:ff9b::9.9.9.10]", 443, "9.9.9.10"),
        ("[2606:4700::1111]", 853, "listed"),
        ("[2606:4700::1111]", 443, "unlisted"),
        ("xn--bcher-kva.example", 443, "listed"),
        ("10.0.5.7", 8080, "listed"),
        ("10.0.5.7", 443, "unlisted"),
        ("10.0.5.8", 443, "listed"),
        ("10.0.5.8", 22, "unlisted"),
        ("[fd00::7]", 81, "listed"),
        ("[::1]", 80, "listed"),
        ("127.0.0.1", 80, "unlisted"),
    ];
    for (host, port, verdict) in cases {
        assert_eq!(judged(&rules, host, port), verdict, "{host}:{port}");
    }
    let ports: Vec<u16> = rules.ports().into_iter().collect();
    assert_eq!(ports, [80, 81, 443, 853, 8080, 8443]);
    let addresses: Vec<String> = rules.addresses().map(|it| it.to_string()).collect();
    assert_eq!(addresses, ["10.0.5.7", "10.0.5.8", "fd00::7", "::1", "9.9.9.9", "2606:4700::1111"]);
    assert!(rules.permits_private("10.0.5.7".parse().unwrap(), 8080));
    assert!(rules.permits_private("::ffff:10.0.5.7".parse().unwrap(), 8080));
    assert!(!rules.permits_private("64:ff9b::a00:507".parse().unwrap(), 8080));
    assert!(!rules.permits_private("10.0.5.7".parse().unwrap(), 8081));
    assert!(!rules.permits_private("10.0.5.9".parse().unwrap(), 80));
}

#[test]
fn network_all_hosts_but_some() {
    let open = rules(json!({"hosts": ["*", "*:8443"], "deny": ["*.internal", "9.9.9.9:443"]}));
    assert_eq!(judged(&open, "anything.example", 443), "listed");
    assert_eq!(judged(&open, "anything.example", 8443), "listed");
    assert_eq!(judged(&open, "anything.example", 22), "unlisted");
    assert_eq!(judged(&open, "db.internal", 443), "*.internal");
    assert_eq!(judged(&open, "9.9.9.9", 443), "9.9.9.9:443");
    assert_eq!(judged(&open, "9.9.9.9", 80), "listed");
    let closed = rules(json!({"hosts": ["example.org"], "deny": ["*"]}));
    assert_eq!(judged(&closed, "example.org", 443), "*");
    assert_eq!(judged(&closed, "9.9.9.9", 1), "*");
}

#[test]
fn network_entries_are_written_as_they_are_compared() {
    let written = json!({
        "hosts": ["EXAMPLE.org.", "*.Example.net:8443", "0x08080808", "2606:4700::1111"],
        "deny": ["*"],
        "private": ["0x0a000507:8080", "[::ffff:10.0.5.8]", "fd00:0:0::7"],
    });
    let read = json!({
        "hosts": ["example.org", "*.example.net:8443", "8.8.8.8", "[2606:4700::1111]"],
        "deny": ["*"],
        "private": ["10.0.5.7:8080", "10.0.5.8", "[fd00::7]"],
    });
    assert_eq!(serde_json::to_value(rules(written)).unwrap(), read);
    assert_eq!(rules(read.clone()), rules(serde_json::to_value(rules(read)).unwrap()));
}

#[test]
fn network_wrong_entries_are_refused_with_a_reason() {
    let wrong = [
        "",
        ":80",
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:+80",
        "example.org:http",
        "https://example.org",
        "example.org/path",
        "user@example.org",
        "*example.org",
        "*.",
        "**.example.org",
        "a.*.example.org",
        "*.10.0.0.1",
        "*.*",
        "exa mple.org",
        "example.org,other.example",
        "10.0.0.0/8",
        "[::1%lo]",
        "[::1]x",
    ];
    for text in wrong {
        assert!(HostEntry::parse(text).is_err(), "{text:?}");
        assert!(AddressEntry::parse(text).is_err(), "{text:?}");
    }
    let page = HostEntry::parse("https://example.org:8443/path").unwrap_err().to_string();
    assert_eq!(page, "that is the address of a page: write the host alone, `example.org:8443`");
    for range in ["10.0.0.0/8", "fd00::/8", "[fd00::]/8"] {
        assert_eq!(HostEntry::parse(range), Err(NetworkEntryError::Range(range.to_owned())));
        assert_eq!(AddressEntry::parse(range), Err(NetworkEntryError::Range(range.to_owned())));
    }
    let listed = |text: &str| HostEntry::parse_listed(text).map_err(|error| error.to_string());
    assert_eq!(
        listed("10.0.5.8:81"),
        Err("10.0.5.8 is in a private network: list it in `private`".to_owned())
    );
    assert!(listed("169.254.169.254").unwrap_err().contains("no agent may reach it"));
    assert!(listed("9.9.9.9").is_ok() && listed("*:81").is_ok() && listed("localhost").is_ok());
    let private = |text: &str| AddressEntry::parse(text).unwrap_err();
    assert!(matches!(private("db.internal:80"), NetworkEntryError::NotAnAddress(_)));
    assert!(matches!(private("8.8.8.8"), NetworkEntryError::Public(_)));
    for never in [
        "0.0.0.0:80",
        "0",
        "::",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "[fd00:ec2::254]",
        "[64:ff9b::a9fe:a9fe]",
        "168.63.129.16",
    ] {
        assert!(matches!(private(never), NetworkEntryError::Never { .. }), "{never}");
    }
    assert!(serde_json::from_value::<NetworkRules>(json!({"host": ["example.org"]})).is_err());
    assert!(serde_json::from_value::<NetworkRules>(json!({"hosts": ["a b"]})).is_err());
}

#[test]
fn network_the_entry_for_a_host_lists_that_host_alone() {
    for (host, port, entry) in [
        ("example.org", 443, "example.org"),
        ("example.org", 8443, "example.org:8443"),
        ("[2606:4700::1111]", 853, "[2606:4700::1111]:853"),
    ] {
        let host = Host::parse(host).unwrap();
        let narrow = HostEntry::for_host(&host, port);
        assert_eq!(narrow.to_string(), entry);
        let rules = NetworkRules { hosts: vec![narrow], ..NetworkRules::default() };
        assert_eq!(rules.judge(&host, port), HostVerdict::Listed);
    }
}
