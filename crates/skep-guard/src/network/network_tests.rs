#![allow(clippy::unwrap_used)]
use std::net::Ipv4Addr;

use proptest::prelude::*;
use skep_core::policy::host::HostName;

use super::hello;
use super::names::{self, NameAnswer, NameQuestion, NameTable};
use super::request::Requests;

const NAME: &str = "allowed.test";

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &length(content)[..], content].concat()
}

fn length(content: &[u8]) -> [u8; 2] {
    u16::try_from(content.len()).unwrap().to_be_bytes()
}

fn name_extension(names: &[&str]) -> Vec<u8> {
    let entry = |name: &&str| [&[0][..], &length(name.as_bytes()), name.as_bytes()].concat();
    let list: Vec<u8> = names.iter().flat_map(entry).collect();
    extension(0, &[&length(&list)[..], &list].concat())
}

/// A ClientHello with these extensions, as a handshake message.
fn message(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(length(extensions));
    body.extend(extensions);
    [&[1, 0][..], &length(&body), &body].concat()
}

/// In records of at most `most` bytes.
fn records(message: &[u8], most: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[22, 3, 1][..], &length(part), part].concat();
    message.chunks(most).flat_map(record).collect()
}

fn verdict(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    hello::check(bytes, NAME).map_err(|refusal| refusal.code)
}

#[test]
fn network_hello_of_the_name_passes_however_it_is_cut() {
    let other = extension(0x002b, &[2, 3, 4]);
    let hello = message(&[other, name_extension(&["Allowed.TEST"])].concat());
    for most in [16_000, 40, 5, 1] {
        let bytes = records(&hello, most);
        for cut in 0..bytes.len() {
            assert_eq!(verdict(&bytes[..cut]), Ok(None), "{most} {cut}");
        }
        assert_eq!(verdict(&bytes), Ok(Some(bytes.len())), "{most}");
        // What comes behind it in a record of its own, such as early data, is not read.
        let more = [&bytes[..], &[23, 3, 3, 0, 1, 9]].concat();
        assert_eq!(verdict(&more), Ok(Some(bytes.len())), "{most}");
    }
}

#[test]
fn network_hello_of_a_real_client_passes() {
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = NAME.try_into().unwrap();
    let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    assert_eq!(verdict(&bytes), Ok(Some(bytes.len())));
    assert_eq!(hello::check(&bytes, "other.test").unwrap_err().code, "tls_name_differs");
}

#[test]
fn network_hello_that_is_not_plainly_for_the_name_is_refused() {
    let good = name_extension(&[NAME]);
    let whole = |extensions: &[u8]| records(&message(extensions), 16_000);
    let mut two_messages = message(&good);
    two_messages.extend(message(&name_extension(&["other.test"])));
    let mut long = message(&good);
    long[1] = 1;
    let mut trailing = message(&good);
    trailing.push(0);
    trailing[3] += 1;
    let table: [(&str, Vec<u8>, &str); 14] = [
        ("another name", whole(&name_extension(&["other.test"])), "tls_name_differs"),
        ("a name below", whole(&name_extension(&["x.allowed.test"])), "tls_name_differs"),
        ("a point at the end", whole(&name_extension(&["allowed.test."])), "tls_name_differs"),
        ("no name", whole(&extension(0x002b, &[2, 3, 4])), "tls_name_missing"),
        ("no extensions", whole(&[]), "tls_name_missing"),
        ("two names", whole(&name_extension(&[NAME, "other.test"])), "tls_unreadable"),
        ("the extension twice", whole(&[good.clone(), good.clone()].concat()), "tls_unreadable"),
        (
            "an encrypted second name",
            whole(&[good.clone(), extension(0xfe0d, &[0; 40])].concat()),
            "tls_encrypted_name",
        ),
        ("two messages in a record", records(&two_messages, 16_000), "tls_unreadable"),
        ("a hello of 64 KiB", records(&long, 16_000), "tls_unreadable"),
        ("bytes behind the extensions", records(&trailing, 16_000), "tls_unreadable"),
        ("an empty record", [&[22, 3, 1, 0, 0][..], &whole(&good)].concat(), "tls_unreadable"),
        ("the hello of SSL 2", vec![0x80, 46, 1, 3, 1], "tls_unreadable"),
        ("HTTP", b"GET / HTTP/1.1\r\n".to_vec(), "tls_unreadable"),
    ];
    for (what, bytes, code) in table {
        assert_eq!(verdict(&bytes), Err(code), "{what}");
    }
}

#[test]
fn network_hello_is_asked_for_again_by_one_answer_alone() {
    let mut answer = vec![22, 3, 3, 0, 88, 2, 0, 0, 84, 3, 3];
    answer.extend(hello::RETRY);
    assert!(hello::asks_again(&answer) && hello::may_ask_again(&answer[..3]));
    answer[20] ^= 1;
    assert!(!hello::asks_again(&answer));
    // An alert is no such answer, and shorter.
    assert!(!hello::may_ask_again(&[21, 3, 3, 0, 2, 2, 40]));
}

/// All of it, byte by byte as well as at once: both must say the same.
fn requests(text: &str, port: u16) -> Result<usize, &'static str> {
    let mut at_once = Requests::new(NAME, port);
    let whole = at_once.check(text.as_bytes()).map_err(|refusal| refusal.code);
    let mut slowly = Requests::new(NAME, port);
    let (mut passed, mut refused) = (0, None);
    let step = if text.len() > 10_000 { 997 } else { 1 };
    for end in (1..=text.len()).step_by(step).chain([text.len()]) {
        match slowly.check(&text.as_bytes()[passed..end]) {
            Ok(count) => passed += count,
            Err(refusal) => {
                refused = Some(refusal.code);
                break;
            }
        }
    }
    assert_eq!(whole, refused.map_or(Ok(passed), Err), "{text}");
    whole
}

#[test]
fn network_requests_for_the_host_pass() {
    let host = "Host: allowed.test\r\n";
    let table = [
        format!("GET / HTTP/1.1\r\n{host}\r\n"),
        format!("GET /a?b HTTP/1.0\r\n{host}Accept: */*\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: ALLOWED.test:80\r\n\r\n".to_owned(),
        format!("GET http://allowed.test/x HTTP/1.1\r\n{host}\r\n"),
        format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"),
        format!(
            "POST / HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n{host}\r\n"
        ),
        format!(
            "POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\na\r\n\
             0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\n{host}\r\n"
        ),
    ];
    for text in table {
        assert_eq!(requests(&text, 80), Ok(text.len()), "{text}");
    }
    let text = "GET / HTTP/1.1\r\nHost: allowed.test:8080\r\n\r\n";
    assert_eq!(requests(text, 8080), Ok(text.len()));
}

#[test]
fn network_requests_for_others_or_read_in_two_ways_are_refused() {
    let first = "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: allowed.test\r\n";
    let (differs, unreadable) = ("http_host_differs", "http_unreadable");
    let table = [
        ("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n".to_owned(), differs),
        ("GET / HTTP/1.1\r\nHost: allowed.test.\r\n\r\n".to_owned(), differs),
        ("GET / HTTP/1.1\r\nHost: x@allowed.test\r\n\r\n".to_owned(), differs),
        ("GET / HTTP/1.1\r\nHost: allowed.test:81\r\n\r\n".to_owned(), differs),
        ("GET / HTTP/1.1\r\nHost: allowed.test:+80\r\n\r\n".to_owned(), differs),
        ("GET http://other.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(), differs),
        ("GET http://a@allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(), differs),
        (format!("{first}GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"), differs),
        (
            format!("{post}Content-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: other.test\r\n\r\n"),
            differs,
        ),
        (
            "CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(),
            "http_tunnel",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), unreadable),
        (
            "GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: allowed.test\r\n\r\n".to_owned(),
            unreadable,
        ),
        ("GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(), unreadable),
        ("GET allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(), unreadable),
        ("GET / HTTP/1.1\nHost: allowed.test\n\r\n\r\n".to_owned(), unreadable),
        ("GET / HTTP/1.1\r\nHost: allowed.test\r\nA: b\rHost: x\r\n\r\n".to_owned(), unreadable),
        ("GET / HTTP/1.1\r\nHost: allowed.test\r\n folded\r\n\r\n".to_owned(), unreadable),
        ("GET / HTTP/1.1\r\nHost : allowed.test\r\n\r\n".to_owned(), unreadable),
        ("GET / HTTP/1.1\r\n\r\nHost: allowed.test\r\n\r\n".to_owned(), unreadable),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), unreadable),
        ("\r\nGET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(), unreadable),
        ("SSH-2.0-x\r\n\r\n\r\n".to_owned(), unreadable),
        (format!("{post}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), unreadable),
        (format!("{post}Content-Length: +1\r\n\r\n"), unreadable),
        (format!("{post}Content-Length: 1, 1\r\n\r\n"), unreadable),
        (format!("{post}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), unreadable),
        (format!("{post}Transfer-Encoding: gzip, chunked\r\n\r\n"), unreadable),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\n5;x=y\r\n"), unreadable),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\n+5\r\n"), unreadable),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n"), unreadable),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\n0\r\nHost: other.test\r\n"), unreadable),
        (
            "POST / HTTP/1.0\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
            unreadable,
        ),
        (format!("GET /{} ", "x".repeat(70_000)), unreadable),
    ];
    for (text, code) in table {
        assert_eq!(requests(&text, 80), Err(code), "{text:.200}");
    }
}

fn question(name: &str, kind: u16, class: u16) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(class.to_be_bytes());
    bytes
}

#[test]
fn network_names_are_answered_by_what_was_asked() {
    let address = Ipv4Addr::new(127, 9, 0, 1);
    let asked = question("aLLowed.test", 1, 1);
    let read = NameQuestion::read(&asked).unwrap();
    assert_eq!(read.name, "aLLowed.test");
    let reply = read.reply(&asked, read.answer_with(address));
    assert_eq!(reply[..12], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(reply[12..asked.len()], asked[12..]);
    assert_eq!(reply[asked.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 9, 0, 1]);
    // Of everything else there is nothing: no address of version 6, no way to QUIC.
    for (kind, class) in [(28, 1), (65, 1), (16, 1), (255, 1), (1, 3)] {
        let asked = question("allowed.test", kind, class);
        let read = NameQuestion::read(&asked).unwrap();
        assert_eq!(read.answer_with(address), NameAnswer::Empty);
        let reply = read.reply(&asked, NameAnswer::Empty);
        assert_eq!(reply[3..8], [0x80, 0, 1, 0, 0]);
    }
    let reply = read.reply(&asked, NameAnswer::Unknown);
    assert_eq!((reply[3], reply[7], reply.len()), (0x83, 0, asked.len()));
    let with_options = [&asked[..11], &[1], &asked[12..], &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]];
    let with_options = with_options.concat();
    let read = NameQuestion::read(&with_options).unwrap();
    assert_eq!(read.reply(&with_options, NameAnswer::Empty).len(), asked.len());
}

#[test]
fn network_names_that_are_not_understood_are_not_looked_up() {
    let good = question("allowed.test", 1, 1);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let table = [
        ("an answer", changed(2, 0x80)),
        ("an update", changed(2, 0x28)),
        ("cut off", changed(2, 2)),
        ("two questions", changed(5, 2)),
        ("an answer in it", changed(7, 1)),
        ("a pointer", changed(12, 0xc0)),
        ("a label that is too long", changed(12, 64)),
        ("more behind it", [&good[..], &[0]].concat()),
        ("no end", good[..good.len() - 1].to_vec()),
        ("a point in a label", changed(15, b'.')),
    ];
    for (what, bytes) in table {
        assert_eq!(NameQuestion::read(&bytes), None, "{what}");
    }
    assert_eq!(names::refusal(&changed(2, 0x80)), None);
    assert_eq!(names::refusal(&changed(5, 2)).unwrap()[..4], [0xab, 0xcd, 0x81, 0x81]);
}

#[test]
fn network_names_keep_their_address_and_are_bounded() {
    let mut names = NameTable::default();
    let name = |number: usize| HostName::parse(&format!("n{number}.test")).unwrap();
    for number in 0..4096 {
        let address = names.address_of(&name(number)).unwrap();
        assert_eq!(address.octets()[..2], [127, 9]);
        assert_eq!(names.name_of(address), Some(&name(number)));
    }
    assert_eq!(names.address_of(&name(4096)), None);
    assert_eq!(names.address_of(&name(0)), Some(Ipv4Addr::new(127, 9, 0, 1)));
    assert_eq!(names.name_of(Ipv4Addr::LOCALHOST), None);
}

proptest! {
    #[test]
    fn network_readers_take_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = hello::check(&bytes, NAME);
        let _ = hello::check(&[&[22, 3, 1, 0, 200, 1][..], &bytes].concat(), NAME);
        let _ = Requests::new(NAME, 80).check(&bytes);
        let _ = Requests::new(NAME, 80).check(&[b"GET ", &bytes[..], b"\r\n\r\n"].concat());
        let _ = NameQuestion::read(&bytes);
        let _ = names::refusal(&bytes);
    }
}
