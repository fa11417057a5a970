//! Programs that try to be understood in two ways, or to hold the hive up.

use std::time::Duration;

use serde_json::json;
use skep_core::relay::RelayWire;
use skep_core::settings::SandboxLevel;
use skep_testkit::{Reply, ScriptedModel};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use crate::scene::{Answer, MODEL, Scene, body};

const MIB: usize = 1024 * 1024;

async fn rig() -> (ScriptedModel, Scene) {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|_| Reply::say("fine"));
    let scene = Scene::new(RelayWire::Anthropic, &model.base_url());
    (model, scene)
}

fn sent() -> String {
    body(RelayWire::Anthropic).to_string()
}

/// A request with these lines about its body in place of its length.
async fn framed(scene: &Scene, lines: &str, body: &str) -> Answer {
    scene.say(format!("{}{lines}\r\n{body}", scene.lines()).as_bytes()).await
}

#[tokio::test]
async fn bodies_whose_end_can_be_seen_in_two_places_are_refused() {
    let (model, scene) = rig().await;
    let _open = scene.open();
    let (sent, length) = (sent(), sent().len());
    let hidden = sent.replace(MODEL, "dearer");
    let second = format!("{}{hidden}", scene.head(hidden.len()));
    let chunks = format!("{length:x}\r\n{sent}\r\n0\r\n\r\n");
    let table = [
        (format!("Content-Length: {length}\r\nContent-Length: 0\r\n"), sent.clone()),
        (format!("Content-Length: {length}, {length}\r\n"), sent.clone()),
        (format!("Content-Length: +{length}\r\n"), sent.clone()),
        (format!("Content-Length: -1\r\n"), sent.clone()),
        (format!("Content-Length: 0x{length:x}\r\n"), sent.clone()),
        (format!("Content-Length: {}\r\n", u64::MAX), sent.clone()),
        ("Transfer-Encoding: gzip, chunked\r\n".to_owned(), chunks.clone()),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".to_owned(), chunks.clone()),
        ("Transfer-Encoding: identity\r\n".to_owned(), chunks.clone()),
        ("Transfer-Encoding : chunked\r\n".to_owned(), chunks.clone()),
        ("Transfer-Encoding: chunked\r\n".to_owned(), "+5\r\nhello\r\n0\r\n\r\n".to_owned()),
        ("Transfer-Encoding: chunked\r\n".to_owned(), "5;x\r\nhello\r\n0\r\n\r\n".to_owned()),
        ("Transfer-Encoding: chunked\r\n".to_owned(), "fffffffffffffffff\r\nx".to_owned()),
        ("Transfer-Encoding: chunked\r\n".to_owned(), format!("1\r\n{chunks}")),
        ("Transfer-Encoding: chunked\r\n".to_owned(), "5\nhello\n0\n\n".to_owned()),
        (format!("Content-Length: {length}\r\nContent-Encoding: gzip\r\n"), sent.clone()),
        (format!("X: a\rb\r\nContent-Length: {length}\r\n"), sent.clone()),
        (format!("Content-Length: {length}\r\n folded\r\n"), sent.clone()),
    ];
    for (lines, body) in table {
        // Whatever follows is not taken for a second request.
        let answer = framed(&scene, &lines, &format!("{body}{second}")).await;
        assert!((400..500).contains(&answer.status), "{lines} {answer:?}");
        assert_eq!(answer.head.matches("HTTP/1.1").count(), 1);
    }
    assert_eq!(model.asked(), 0, "{:?}", model.requests());
    // The same length twice is one, and chunks go before a length, as the standard says. What goes
    // on is framed anew: no vendor can read it otherwise.
    let twice = format!("Content-Length: {length}\r\n").repeat(2);
    let table = [
        (twice.as_str(), &sent),
        ("Transfer-Encoding: chunked\r\n", &chunks),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", &chunks),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", &chunks),
    ];
    for (number, (lines, body)) in table.into_iter().enumerate() {
        let answer = framed(&scene, lines, &format!("{body}{second}")).await;
        assert_eq!(answer.status, 200, "{lines}");
        let asked = model.requests();
        assert_eq!((asked.len(), &asked[number].raw[..]), (number + 1, sent.as_bytes()));
        assert_eq!(asked[number].header("content-length"), Some(length.to_string().as_str()));
        assert_eq!(asked[number].header("transfer-encoding"), None);
    }
}

#[tokio::test]
async fn heads_are_bounded_and_plain() {
    let (model, scene) = rig().await;
    let _open = scene.open();
    let (sent, long) = (sent(), "x".repeat(100_000));
    let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
    for lines in [format!("X-Long: {long}\r\n"), many] {
        let lines = format!("{lines}Content-Length: {}\r\n", sent.len());
        let answer = framed(&scene, &lines, &sent).await;
        assert_eq!(answer.status, 431, "{answer:?}");
    }
    for line in
        ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/9\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n"]
    {
        let mut stream = scene.connect().await;
        let _ = stream.write_all(line.as_bytes()).await;
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
        assert!(!said.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&said));
    }
    let upgrade = format!("Upgrade: h2c\r\nContent-Length: {}\r\n", sent.len());
    assert_eq!(framed(&scene, &upgrade, &sent).await.status, 200);
    assert_eq!(model.asked(), 1);
}

#[tokio::test]
async fn bodies_are_bounded_however_they_come() {
    let (model, scene) = rig().await;
    let open = scene.open();
    let told = framed(&scene, &format!("Content-Length: {}\r\n", 33 * MIB), "{").await;
    assert_eq!(
        (told.status, told.json()["error"]["type"].clone()),
        (413, json!("request_too_large"))
    );
    let piece = format!("{:x}\r\n{}\r\n", MIB, "x".repeat(MIB));
    let untold = framed(&scene, "Transfer-Encoding: chunked\r\n", &piece.repeat(33)).await;
    assert_eq!(untold.status, 413);
    // Of whoever has no right to ask a little is read, so that he hears why.
    drop(open);
    let closed = framed(&scene, "Transfer-Encoding: chunked\r\n", &piece.repeat(2)).await;
    assert_eq!(closed.status, 403);
    assert_eq!(model.asked(), 0);
    // As much as vendors take goes through.
    let _open = scene.open();
    let mut large = body(RelayWire::Anthropic);
    large["messages"][0]["content"] = json!("y".repeat(31 * MIB));
    let large = large.to_string();
    let answer = scene.ask(&large).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(model.requests()[0].raw == large.as_bytes());
}

/// Served in memory, where time passes as the test wants it.
struct Quiet {
    scene: Scene,
}

impl Quiet {
    fn new() -> Self {
        let vendor = "http://127.0.0.1:1";
        Self { scene: Scene::at(RelayWire::Anthropic, vendor, SandboxLevel::Confined) }
    }

    fn connect(&self) -> DuplexStream {
        let (mine, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(self.scene.lease.service.connections.serve(Box::new(theirs)));
        mine
    }
}

async fn heard(mut stream: DuplexStream) -> String {
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8(said).unwrap()
}

#[tokio::test(start_paused = true)]
async fn slow_programs_are_not_waited_for() {
    let quiet = Quiet::new();
    let _open = quiet.scene.open();
    let begun = Instant::now();
    // A body a byte at a time: each byte is in time, all of them are not.
    let mut slow = quiet.connect();
    slow.write_all(quiet.scene.head(1000).as_bytes()).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(slow);
    let trickle = tokio::spawn(async move {
        while writer.write_all(b"{").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let mut said = Vec::new();
    let _ = reader.read_to_end(&mut said).await;
    trickle.abort();
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert!((30..33).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    // A head that never ends.
    let mut slow = quiet.connect();
    slow.write_all(b"POST /v1/messages HTTP/1.1\r\nX:").await.unwrap();
    let begun = Instant::now();
    heard(slow).await;
    assert!((110..130).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

/// Bodies that are begun and not ended take no room from those of another process, and give it
/// back.
#[tokio::test(start_paused = true)]
async fn room_for_bodies_is_bounded_and_given_back() {
    let (quiet, other) = (Quiet::new(), Quiet::new());
    let (_one, _two) = (quiet.scene.open(), other.scene.open());
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = quiet.connect();
        stream.write_all(quiet.scene.head(32 * MIB).as_bytes()).await.unwrap();
        held.push(stream);
    }
    let sent = sent();
    let ask = async |quiet: &Quiet| {
        let mut stream = quiet.connect();
        let request = format!("{}{sent}", quiet.scene.head(sent.len()));
        stream.write_all(request.as_bytes()).await.unwrap();
        let begun = Instant::now();
        let said = heard(stream).await;
        // The vendor is not there; the request got as far as that.
        assert!(said.starts_with("HTTP/1.1 502"), "{said}");
        begun.elapsed().as_secs()
    };
    assert!(ask(&other).await < 20);
    drop(held);
    assert!(ask(&quiet).await < 20);
}
