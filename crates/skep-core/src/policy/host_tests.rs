//! Every spelling of a host that some reader takes for another one.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use super::host::{Host, HostError, HostName, WebAddress};

fn read(text: &str) -> String {
    Host::parse(text).map_or_else(|error| format!("refused: {error}"), |host| host.to_string())
}

#[test]
fn network_an_address_in_any_spelling_is_that_address() {
    let loopback = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.01",
        "0177.0x0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "::ffff:7f00:1",
        // Digits and dots of other scripts.
        "１２７.０.０.１",
        "127。0。0。1",
        "127．0．0．1",
        "127｡0｡0｡1",
        "①②⑦.⓪.⓪.①",
        // A soft hyphen, which the mapping drops.
        "12\u{ad}7.0.0.1",
    ];
    for text in loopback {
        assert_eq!(read(text), "127.0.0.1", "{text:?}");
    }
    let others = [
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("10.1", "10.0.0.1"),
        ("3232235777", "192.168.1.1"),
        ("[::1]", "[::1]"),
        ("::1", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("[64:ff9b::7f00:1]", "[64:ff9b::7f00:1]"),
        ("[::127.0.0.1]", "[::7f00:1]"),
        ("[2001:DB8::1]", "[2001:db8::1]"),
    ];
    for (text, address) in others {
        assert_eq!(read(text), address, "{text:?}");
        assert!(matches!(Host::parse(text), Ok(Host::Address(_))), "{text:?}");
    }
}

#[test]
fn network_a_name_has_one_spelling() {
    let long = format!("{}.example", "a".repeat(63));
    let cases = [
        ("example.org", "example.org"),
        ("EXAMPLE.Org", "example.org"),
        ("example.org.", "example.org"),
        ("my_box.lan", "my_box.lan"),
        ("localhost", "localhost"),
        ("1.2.3.4.example", "1.2.3.4.example"),
        ("127.0.0.1.nip.io", "127.0.0.1.nip.io"),
        ("0xdead.example", "0xdead.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("ｅｘａｍｐｌｅ.org", "example.org"),
        ("evil。example．org｡", "evil.example.org"),
        ("exa\u{200b}mple.org", "example.org"),
        (long.as_str(), long.as_str()),
    ];
    for (text, name) in cases {
        assert_eq!(read(text), name, "{text:?}");
        assert_eq!(HostName::parse(text).unwrap().as_str(), name, "{text:?}");
    }
}

#[test]
fn network_what_can_be_read_in_two_ways_is_no_host() {
    let long_name = ["abcdefg"; 40].join(".");
    let endless = "a".repeat(5_000);
    let refused = [
        "",
        ".",
        "..",
        "example..org",
        ".example.org",
        "example.org..",
        "127.0.0.1..",
        "256.1.1.1",
        "1.2.3.4.5",
        "0x100000000",
        "4294967296",
        "09.1.1.1",
        "a.0x",
        "a.1",
        "a.0xzz",
        "user@example.org",
        "user:pass@example.org",
        "example.org@127.0.0.1",
        "example.org:80",
        "example.org/",
        "example.org/path",
        "example.org?query",
        "example.org#part",
        "example.org\\@evil",
        "exa mple.org",
        " example.org",
        "example.org\n",
        "exa\tmple.org",
        "example.org\0",
        "example.org\0.evil",
        "exam%70le.org",
        "127.0.0.1%00.example.org",
        "%31%32%37.0.0.1",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "fe80::1%eth0",
        "[::1",
        "::1]",
        "[127.0.0.1]",
        "[]",
        "[::ffff:127.1]",
        "[v1.fe]",
        "xn--a.example",
        "xn--zn7c.com",
        "a<b.example",
        "a|b.example",
        "*.example.org",
        "*",
        "exa\u{0}mple",
        long_name.as_str(),
        endless.as_str(),
    ];
    for text in refused {
        assert!(Host::parse(text).is_err(), "{text:?} is read as {}", read(text));
        assert!(HostName::parse(text).is_err(), "{text:?}");
    }
    let address: IpAddr = "127.0.0.1".parse().unwrap();
    assert_eq!(HostName::parse("127.1"), Err(HostError::NotAName(address)));
}

#[test]
fn network_a_name_is_below_another_by_whole_labels() {
    let is_below = |name: &str, above: &str| {
        HostName::parse(name).unwrap().is_below(&HostName::parse(above).unwrap())
    };
    assert!(is_below("a.example.org", "example.org"));
    assert!(is_below("a.b.example.org", "example.org"));
    assert!(!is_below("example.org", "example.org"));
    assert!(!is_below("badexample.org", "example.org"));
    assert!(!is_below("example.org.evil", "example.org"));
}

#[test]
fn network_a_web_address_is_sent_as_it_was_judged() {
    let cases = [
        ("http://example.org", "http://example.org/", "example.org", 80),
        ("HTTPS://EXAMPLE.org./a?b#c", "https://example.org/a?b", "example.org", 443),
        ("http://example.org:8080/", "http://example.org:8080/", "example.org", 8080),
        ("https://example.org:443/", "https://example.org/", "example.org", 443),
        ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://%31%32%37.0.0.1/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://127。1/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://[::ffff:127.0.0.1]:81/", "http://127.0.0.1:81/", "127.0.0.1", 81),
        ("http://[::1]/", "http://[::1]/", "[::1]", 80),
        ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4", "", 443),
    ];
    for (text, sent, host, port) in cases {
        let address = WebAddress::parse(text).unwrap();
        assert_eq!((address.as_str(), address.port()), (sent, port), "{text}");
        if !host.is_empty() {
            assert_eq!(address.host().to_string(), host, "{text}");
        }
    }
}

#[test]
fn network_what_is_no_web_address_is_refused() {
    let refused = [
        "",
        "example.org",
        "/page",
        "//example.org/",
        "http:",
        "http://",
        "http:///example.org",
        "http:example.org",
        "http:/example.org",
        "http:\\\\example.org",
        "http://example.org\\@evil/",
        "http://user@example.org/",
        "http://user:pass@example.org/",
        "http://:pass@example.org/",
        "http://@example.org/",
        "http://example.org@127.0.0.1/",
        "http://example.org:80@127.0.0.1/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://example.org:99999/",
        "http://example.org:-1/",
        "http://exa mple.org/",
        "http://example.org/a b",
        "http://example.org\0/",
        "http://example.org%00/",
        "http://example.org%2f@evil/",
        "ht\ttp://example.org/",
        " http://example.org/",
        "http://example.org/\n",
        "http://a..b/",
        "http://1.2.3.4.5/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "data:text/plain,hi",
        "javascript:alert(1)",
        "ws://example.org/",
        "unix:/run/docker.sock",
        "http+unix://%2Frun%2Fdocker.sock/",
    ];
    for text in refused {
        assert!(WebAddress::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn network_a_redirect_is_read_against_its_page() {
    let page = WebAddress::parse("https://example.org/a/b?c").unwrap();
    let joined = |location: &str| page.join(location).map(|to| to.to_string());
    assert_eq!(joined("d").unwrap(), "https://example.org/a/d");
    assert_eq!(joined("/d#e").unwrap(), "https://example.org/d");
    assert_eq!(joined("//other.example/").unwrap(), "https://other.example/");
    assert_eq!(joined("http://0x7f.1/").unwrap(), "http://127.0.0.1/");
    for refused in ["file:///etc/passwd", "http://u@x.example/", "/\\evil", "ftp://x/", "//a\0/"] {
        assert!(joined(refused).is_err(), "{refused:?}");
    }
    let same = |a: &str, b: &str| {
        WebAddress::parse(a).unwrap().has_origin_of(&WebAddress::parse(b).unwrap())
    };
    assert!(same("https://example.org/a", "https://EXAMPLE.org:443/b"));
    assert!(!same("https://example.org/", "http://example.org/"));
    assert!(!same("https://example.org/", "https://example.org:444/"));
    assert!(!same("https://example.org/", "https://a.example.org/"));
}

#[test]
fn network_an_operator_may_write_user_and_password() {
    let read = |text: &str| {
        let (address, login) = WebAddress::of_operator(text).unwrap();
        (address.to_string(), login)
    };
    let login = |text: &str| Some(text.to_owned());
    let plain = "http://a.example/v1".to_owned();
    assert_eq!(read("http://a.example/v1"), (plain.clone(), None));
    assert_eq!(read("http://u:p%40w@a.example/v1"), (plain.clone(), login("u:p@w")));
    assert_eq!(read("http://u@a.example/v1"), (plain.clone(), login("u:")));
    assert_eq!(read("http://:p@a.example/v1"), (plain, login(":p")));
    for refused in ["", "ftp://u:p@a.example/", "http://u:p@/", "http://u:p@a b/"] {
        assert!(WebAddress::of_operator(refused).is_err(), "{refused}");
    }
}
