//! The way out: what is dialled, what never is, and what is carried along.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use http::{HeaderMap, Method};
use serde_json::json;
use skep_core::BoxFuture;
use skep_core::policy::host::{Host, HostName, WebAddress};
use skep_core::policy::network::NetworkRules;
use skep_guard::egress::{EgressHub, FetchLimits, FetchRequest, NameResolver, Unlisted};

use crate::web::{Names, Net, Site, ok, page, redirect};

/// Every spelling of this machine, with the most open list of hosts there is.
#[tokio::test]
async fn network_no_spelling_of_loopback_reaches_it() {
    let (four, net) = (Site::sink("127.0.0.1:0").await, Net::new());
    let six = Site::sink(&format!("[::1]:{}", four.port())).await;
    let port = four.port();
    let open = net.under(json!({"hosts": ["*", format!("*:{port}")]}));
    let names = [
        ("plain.test", "127.0.0.1"),
        ("other.test", "127.8.9.10"),
        ("six.test", "::1"),
        ("zero.test", "0.0.0.0"),
        ("zeros.test", "::"),
        ("mapped.test", "::ffff:127.0.0.1"),
        ("compatible.test", "::127.0.0.1"),
        ("nat64.test", "64:ff9b::7f00:1"),
        ("local-nat64.test", "64:ff9b:1::7f00:1"),
        ("sixtofour.test", "2002:7f00:1::"),
        ("teredo.test", "2001:0:808:808::80ff:fffe"),
        ("isatap.test", "2606:4700::5efe:7f00:1"),
        ("private.test", "10.0.0.1"),
        ("metadata.test", "169.254.169.254"),
        // One forbidden answer is enough, whichever place it has.
        ("mixed.test", "8.8.8.8,127.0.0.1"),
        ("mixed-first.test", "127.0.0.1,8.8.8.8"),
        ("localhost", "127.0.0.1"),
        ("127.0.0.1.nip.test", "127.0.0.1"),
    ];
    for (name, addresses) in names {
        net.names.set(name, &[addresses]);
        let fetched = page(&open, &format!("http://{name}:{port}/")).await;
        assert_eq!(fetched, Err("address_refused".to_owned()), "{name} {addresses}");
    }
    let literals = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "１２７.０.０.１",
        "127。0。0。1",
        "%31%32%37.0.0.1",
    ];
    for literal in literals {
        let fetched = page(&open, &format!("http://{literal}:{port}/")).await;
        assert_eq!(fetched, Err("address_refused".to_owned()), "{literal}");
    }
    let unreadable = [
        format!("http://user@127.0.0.1:{port}/"),
        format!("http://example.org@127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}\\@example.org/"),
        format!("http://127.0.0.1\0.example.org:{port}/"),
        format!("http://[::1%25lo]:{port}/"),
        format!("http://[fe80::1%lo]:{port}/"),
        format!("gopher://127.0.0.1:{port}/"),
        format!("file://127.0.0.1:{port}/etc/passwd"),
    ];
    for url in unreadable {
        let fetched = page(&open, &url).await.unwrap_err();
        assert!(fetched.starts_with("no address"), "{url:?} {fetched}");
    }
    assert_eq!((four.connections(), six.connections()), (0, 0));
}

#[tokio::test]
async fn network_listed_hosts_and_listed_private_addresses_work() {
    let (site, net) = (Site::at("127.0.0.1:0", |_| ok("hello")).await, Net::new());
    let port = site.port();
    net.names.set("allowed.test", &["127.0.0.1"]);
    let rules = json!({
        "hosts": [format!("allowed.test:{port}")],
        "private": [format!("127.0.0.1:{port}")],
    });
    let egress = net.under(rules);
    let hello = Ok("hello".to_owned());
    assert_eq!(page(&egress, &format!("http://allowed.test:{port}/")).await, hello);
    assert_eq!(page(&egress, &format!("http://ALLOWED.test.:{port}/")).await, hello);
    assert_eq!(page(&egress, &format!("http://0x7f.1:{port}/")).await, hello);
    assert!(site.requests()[0].contains(&format!("host: allowed.test:{port}\r\n")));
    let host = Host::parse("allowed.test").unwrap();
    assert_eq!(egress.connect(&host, port).await.unwrap().peer_addr().unwrap(), site.address);
    net.names.set("other.test", &["127.0.0.1"]);
    let unlisted = page(&egress, &format!("http://other.test:{port}/")).await;
    assert_eq!(unlisted, Err("host_unlisted".to_owned()));
    let unknown = net.under(json!({"hosts": ["nobody.test"]}));
    assert_eq!(page(&unknown, "http://nobody.test/").await, Err("name_unknown".to_owned()));
}

#[tokio::test]
async fn network_deny_wins_over_lists_and_over_an_approval() {
    let (site, net) = (Site::sink("127.0.0.1:0").await, Net::new());
    let port = site.port();
    net.names.set("a.test", &["127.0.0.1"]);
    let private = json!([format!("127.0.0.1:{port}")]);
    for deny in ["a.test", "*.test", "*", "127.0.0.1"] {
        let egress =
            net.under(json!({"hosts": [format!("*:{port}")], "deny": [deny], "private": private}));
        let host = Host::parse("a.test").unwrap();
        let refused = egress.connect(&host, port).await.unwrap_err();
        assert_eq!(refused.code(), "host_denied", "{deny}");
        let refused = egress.connect_approved(&host, port).await.unwrap_err();
        assert_eq!(refused.code(), "host_denied", "{deny}");
    }
    assert_eq!(site.connections(), 0);
}

/// An approval lifts the list for one host and port, and nothing else.
#[tokio::test]
async fn network_an_approval_lifts_the_list_alone() {
    let other = Site::sink("127.0.0.1:0").await;
    let elsewhere = format!("http://other.test:{}/", other.port());
    let site = Site::at("127.0.0.1:0", move |head| match head.contains("/away") {
        true => redirect(302, &elsewhere),
        false => ok("hello"),
    })
    .await;
    let (port, net) = (site.port(), Net::new());
    net.names.set("new.test", &["127.0.0.1"]);
    net.names.set("other.test", &["127.0.0.1"]);
    let private = json!([format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", other.port())]);
    let egress = net.under(json!({"private": private}));
    let fetch = |path: &str, approved: &str, own: u16| {
        let address = WebAddress::parse(&format!("http://new.test:{port}{path}")).unwrap();
        let unlisted = Unlisted::Approved(Host::parse(approved).unwrap(), own);
        egress.fetch(FetchRequest { unlisted, ..FetchRequest::get(address) })
    };
    assert!(fetch("/", "new.test", port).await.is_ok());
    for (path, approved, own) in
        [("/", "new.test", port + 1), ("/", "other.test", port), ("/away", "new.test", port)]
    {
        let refused = fetch(path, approved, own).await.err().unwrap();
        assert_eq!(refused.code(), "host_unlisted", "{path} {approved} {own}");
    }
    let closed = net.under(json!({}));
    let host = Host::parse("new.test").unwrap();
    let refused = closed.connect_approved(&host, port).await.unwrap_err();
    assert_eq!(refused.code(), "address_refused");
    assert_eq!(other.connections(), 0);
}

/// The name server changes its answer between the look and the dial: there is one look, and what
/// it said is dialled.
#[tokio::test]
async fn network_a_name_is_looked_up_once_and_pinned() {
    let (site, net) = (Site::at("127.0.0.1:0", |_| ok("right")).await, Net::new());
    let port = site.port();
    let sink = Site::sink(&format!("127.0.0.2:{port}")).await;
    let egress = net.under(json!({
        "hosts": [format!("rebind.test:{port}")],
        "private": [format!("127.0.0.1:{port}")],
    }));
    let host = Host::parse("rebind.test").unwrap();
    for round in 1..=20 {
        net.names.set("rebind.test", &["127.0.0.1", "127.0.0.2"]);
        let stream = egress.connect(&host, port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), site.address);
        // The second look, of a second dial, is judged anew.
        let refused = egress.connect(&host, port).await.unwrap_err();
        assert_eq!(refused.code(), "address_refused");
        assert_eq!(net.names.asked(), 2 * round);
    }
    assert_eq!(sink.connections(), 0);
}

/// What the hive listens on is closed to its agents on every address of this machine.
#[tokio::test]
async fn network_the_hives_own_doors_stay_closed() {
    let (door, net) = (Site::sink("0.0.0.0:0").await, Net::new());
    let port = door.port();
    net.hub.protect(door.address);
    net.names.set("self.test", &["127.0.0.1"]);
    let mut private = vec![format!("127.0.0.1:{port}"), format!("127.3.2.1:{port}")];
    let own = own_address();
    private.extend(own.map(|address| format!("{address}:{port}")));
    let egress = net.under(json!({"hosts": [format!("*:{port}")], "private": private}));
    let mut hosts = vec!["127.0.0.1".to_owned(), "127.3.2.1".to_owned(), "self.test".to_owned()];
    hosts.extend(own.map(|address| address.to_string()));
    for host in hosts {
        let refused = egress.connect(&Host::parse(&host).unwrap(), port).await.unwrap_err();
        assert_eq!(refused.code(), "address_refused", "{host}");
        assert!(refused.to_string().contains("a door of this hive"), "{refused}");
    }
    assert_eq!(door.connections(), 0);
    // Another port of this machine is not a door.
    let site = Site::at("127.0.0.1:0", |_| ok("hello")).await;
    let open = net.under(json!({"private": [site.address.to_string()]}));
    assert_eq!(page(&open, &format!("http://{}/", site.address)).await, Ok("hello".to_owned()));
}

/// An address of this machine that is not loopback and may be listed, where it has one. Nothing
/// is sent: connecting a UDP socket asks the kernel for the route.
fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    let listable = skep_core::policy::address::kind_of(own).may_be_listed();
    (listable && !own.is_loopback()).then_some(own)
}

#[tokio::test]
async fn network_redirects_are_judged_hop_by_hop() {
    let sink = Site::sink("127.0.0.1:0").await;
    let bad = sink.port();
    let targets = [
        format!("http://127.0.0.1:{bad}/"),
        format!("//127.1:{bad}/"),
        format!("http://2130706433:{bad}/"),
        format!("http://0x7f.1:{bad}/"),
        format!("http://[::1]:{bad}/"),
        format!("http://[::ffff:127.0.0.1]:{bad}/"),
        format!("http://trap.test:{bad}/"),
        format!("http://user:pass@127.0.0.1:{bad}/"),
        format!("gopher://127.0.0.1:{bad}/"),
        "file:///etc/passwd".to_owned(),
        "/hop".to_owned(),
    ];
    let last = targets.len() - 1;
    let known = targets.clone();
    let site = Site::at("127.0.0.1:0", move |head| {
        let digits: String = head
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        match head.starts_with("get /hop") {
            // Three hops inside the site before the one that leaves it.
            true => redirect(302, "/hop"),
            false if head.contains("/far/") => redirect(307, &format!("/near/{digits}")),
            false => redirect(302, &known[digits.parse::<usize>().unwrap()]),
        }
    })
    .await;
    let (port, net) = (site.port(), Net::new());
    net.names.set("site.test", &["127.0.0.1"]);
    net.names.set("trap.test", &["127.0.0.1"]);
    let egress = net.under(json!({
        "hosts": ["*", format!("*:{port}"), format!("*:{bad}")],
        "private": [format!("127.0.0.1:{port}")],
    }));
    for (index, target) in targets.iter().enumerate() {
        let fetched = page(&egress, &format!("http://site.test:{port}/far/{index}")).await;
        let code = fetched.unwrap_err();
        let expected: &[&str] = match index {
            _ if index == last => &["redirects_exceeded"],
            7..=9 => &["redirect_refused"],
            _ => &["address_refused"],
        };
        assert!(expected.contains(&code.as_str()), "{target}: {code}");
    }
    assert_eq!(sink.connections(), 0);
}

/// What a caller says to one host is not said to another one.
#[tokio::test]
async fn network_nothing_of_the_caller_goes_along_to_another_host() {
    let other = Site::at("127.0.0.1:0", |_| ok("other")).await;
    let away = format!("http://b.test:{}/end", other.port());
    let site = Site::at("127.0.0.1:0", move |head| match head {
        _ if head.contains(" /here") => redirect(302, "/end"),
        _ if head.contains(" /away307") => redirect(307, &away),
        _ if head.contains(" /away") => redirect(302, &away),
        _ => ok("own"),
    })
    .await;
    let net = Net::new();
    net.names.set("a.test", &["127.0.0.1"]);
    net.names.set("b.test", &["127.0.0.1"]);
    let (port, far) = (site.port(), other.port());
    let egress = net.under(json!({
        "hosts": [format!("a.test:{port}"), format!("b.test:{far}")],
        "private": [format!("127.0.0.1:{port}"), format!("127.0.0.1:{far}")],
    }));
    let request = |path: &str, method: Method, body: &'static str| {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "cookie", "x-api-key", "accept"] {
            headers.insert(name, HeaderValue::from_static("canary"));
        }
        let address = WebAddress::parse(&format!("http://a.test:{port}{path}")).unwrap();
        FetchRequest { method, headers, body: body.into(), ..FetchRequest::get(address) }
    };
    let same = egress.fetch(request("/here", Method::GET, "")).await.unwrap();
    assert_eq!((same.redirects, same.read().await.unwrap()), (1, b"own".to_vec()));
    assert_eq!(site.requests()[1].matches("canary").count(), 4);
    let away = egress.fetch(request("/away", Method::POST, "secret")).await.unwrap();
    assert_eq!(away.address.as_str(), format!("http://b.test:{far}/end"));
    let seen = other.requests();
    assert!(seen[0].starts_with("get /end http/1.1\r\n"), "{seen:?}");
    assert!(seen[0].contains("accept: canary\r\n"), "{seen:?}");
    assert_eq!(seen[0].matches("canary").count(), 1, "{seen:?}");
    let kept = egress.fetch(request("/away307", Method::POST, "secret")).await.err().unwrap();
    assert_eq!(kept.code(), "redirect_refused");
    assert_eq!(other.requests().len(), 1);
    let mut forged = request("/here", Method::GET, "");
    forged.headers.insert("host", HeaderValue::from_static("victim.test"));
    assert_eq!(egress.fetch(forged).await.err().unwrap().code(), "header_refused");
}

/// A connection made under other rules serves nobody.
#[tokio::test]
async fn network_changed_rules_leave_no_connection_behind() {
    let (site, net) = (Site::at("127.0.0.1:0", |_| ok("hello")).await, Net::new());
    let (port, url) = (site.port(), format!("http://a.test:{}/", site.port()));
    net.names.set("a.test", &["127.0.0.1"]);
    let private = json!([format!("127.0.0.1:{port}")]);
    let open = json!({"hosts": [format!("a.test:{port}")], "private": private});
    for _ in 0..3 {
        assert!(page(&net.under(open.clone()), &url).await.is_ok());
    }
    assert_eq!((site.connections(), site.requests().len()), (1, 3));
    for closed in [
        json!({}),
        json!({"hosts": [format!("a.test:{port}")], "deny": ["a.test"], "private": private}),
        json!({"hosts": [format!("a.test:{port}")]}),
    ] {
        assert!(page(&net.under(closed.clone()), &url).await.is_err(), "{closed}");
    }
    assert_eq!((site.connections(), site.requests().len()), (1, 3));
    assert!(page(&net.under(open.clone()), &url).await.is_ok());
    assert_eq!((site.connections(), site.requests().len()), (2, 4));
    // Another agent under the same rules has connections of its own.
    let rules: NetworkRules = serde_json::from_value(open).unwrap();
    assert!(page(&net.hub.of(2, &Arc::new(rules)), &url).await.is_ok());
    assert_eq!(site.connections(), 3);
}

#[tokio::test]
async fn network_a_fetch_is_bounded_in_bytes_and_in_time() {
    let site = Site::at("127.0.0.1:0", |head| match head {
        _ if head.contains(" /silent") => String::new(),
        _ if head.contains(" /stalls") => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab".into(),
        _ if head.contains(" /cut") => "HTTP/1.1 200 OK\r\nContent-Le".into(),
        _ => ok(&"x".repeat(100_000)),
    })
    .await;
    let net = Net::new();
    let egress = net.under(json!({"private": [site.address.to_string()]}));
    let fetch = |path: &str, time: u64, bytes: u64| {
        let address = WebAddress::parse(&format!("http://{}{path}", site.address)).unwrap();
        let limits =
            FetchLimits { time: Duration::from_millis(time), bytes, ..FetchLimits::default() };
        egress.fetch(FetchRequest { limits, ..FetchRequest::get(address) })
    };
    let whole = fetch("/", 60_000, 100_000).await.unwrap().read().await.unwrap();
    assert_eq!(whole.len(), 100_000);
    let mut cut = fetch("/", 60_000, 99_999).await.unwrap();
    let mut read = 0;
    let end = loop {
        match cut.chunk().await {
            Ok(piece) => read += piece.expect("the limit comes before the end").len(),
            Err(error) => break error.code(),
        }
    };
    assert_eq!((read, end), (99_999, "body_too_long"));
    for path in ["/silent", "/cut"] {
        let late = fetch(path, 100, 10).await.err().unwrap();
        assert_eq!(late.code(), "fetch_timeout", "{path}");
    }
    let late = fetch("/stalls", 100, 10).await.unwrap().read().await.unwrap_err();
    assert_eq!(late.code(), "fetch_timeout");
}

struct Silent;

impl NameResolver for Silent {
    fn resolve<'a>(&'a self, _: &'a HostName) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn network_a_silent_name_server_is_not_waited_for() {
    let hub = EgressHub::new(Arc::new(Silent));
    let rules: NetworkRules = serde_json::from_value(json!({"hosts": ["*"]})).unwrap();
    let egress = hub.of(1, &Arc::new(rules));
    let host = Host::parse("slow.test").unwrap();
    // More than may be looked up at once: those that wait have the same deadline.
    let all = (0..20).map(|_| egress.connect(&host, 80));
    for refused in futures_util::future::join_all(all).await {
        assert_eq!(refused.unwrap_err().code(), "connect_timeout");
    }
}

/// A closed port is told at once, and the next address is tried.
#[tokio::test]
async fn network_the_next_address_is_tried() {
    let (site, net) = (Site::at("127.0.0.1:0", |_| ok("hello")).await, Net::new());
    let port = site.port();
    net.names.set("two.test", &["127.0.0.9,127.0.0.1"]);
    net.names.set("closed.test", &["127.0.0.9"]);
    let egress = net.under(json!({
        "hosts": [format!("*:{port}")],
        "private": [format!("127.0.0.9:{port}"), format!("127.0.0.1:{port}")],
    }));
    assert_eq!(page(&egress, &format!("http://two.test:{port}/")).await, Ok("hello".to_owned()));
    let closed = egress.connect(&Host::parse("closed.test").unwrap(), port).await.unwrap_err();
    assert_eq!(closed.code(), "unreachable");
    assert!(closed.to_string().contains("refused"), "{closed}");
}

#[test]
fn network_the_same_rules_give_the_same_guard() {
    let hub = EgressHub::new(Arc::new(Names::default()));
    let rules = |hosts: &[&str]| -> Arc<NetworkRules> {
        Arc::new(serde_json::from_value(json!({"hosts": hosts})).unwrap())
    };
    let first = hub.of(1, &rules(&["a.test"]));
    assert!(Arc::ptr_eq(&first, &hub.of(1, &rules(&["a.test"]))));
    assert!(!Arc::ptr_eq(&first, &hub.of(2, &rules(&["a.test"]))));
    assert!(!Arc::ptr_eq(&first, &hub.of(1, &rules(&["b.test"]))));
}
