//! A hostile network at the doors of the real program: every route with every kind of wrong
//! credential, foreign names and pages, requests that mean two things, another's channel.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::json;
use skep_testkit::{Reply, WsClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::stage::{Play, Stage};

/// Method and path; a body goes with every POST.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/api/v1/agents"),
    ("GET", "/api/v1/agents/main/history"),
    ("POST", "/api/v1/agents/main/stop"),
    ("POST", "/api/v1/agents/main/messages"),
    ("POST", "/api/v1/agents/main/messages?wait=true"),
    ("GET", "/api/v1/agents/main/messages/x"),
    ("GET", "/api/v1/state"),
    ("GET", "/api/v1/inbox"),
    ("GET", "/api/v1/events"),
    ("GET", "/api/v1/tokens"),
    ("POST", "/api/v1/tokens"),
    ("DELETE", "/api/v1/tokens/x"),
    ("POST", "/api/v1/shutdown"),
    ("GET", "/ws"),
    ("HEAD", "/api/v1/agents"),
    ("OPTIONS", "/api/v1/agents"),
    ("GET", "/nothing"),
    ("GET", "//api/v1/agents"),
    ("GET", "/health/../api/v1/agents"),
];

const BODY: &str = r#"{"message":"forged","name":"forged"}"#;
const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// What came back: the statuses of all answers on the connection, and everything as text.
struct Told {
    statuses: Vec<u16>,
    text: String,
}

struct Network {
    hive: SocketAddr,
    /// Wrong credentials are answered slowly per address; each connection has its own.
    from: AtomicU16,
}

impl Network {
    fn of(play: &Play) -> Self {
        let url = play.hive.url().unwrap();
        let hive = url.trim_start_matches("http://").parse().unwrap();
        Self { hive, from: AtomicU16::new(0x0102) }
    }

    /// Sends these bytes from an address nobody used before and reads to the end.
    async fn raw(&self, bytes: &[u8]) -> Told {
        let [high, low] = self.from.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let socket = TcpSocket::new_v4().unwrap();
        let from = Ipv4Addr::new(127, 0, high, low);
        socket.bind(SocketAddr::new(IpAddr::V4(from), 0)).unwrap();
        let mut stream = socket.connect(self.hive).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let reading = async {
            let mut piece = [0; 4096];
            // A connection that was let in as a WebSocket stays open.
            while !answer.starts_with(b"HTTP/1.1 101") {
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => answer.extend_from_slice(&piece[..count]),
                }
            }
        };
        let ended = timeout(Duration::from_secs(5), reading).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(ended.is_ok(), "still open: {text}");
        let heads = text.match_indices("HTTP/1.").map(|(at, _)| text[at + 9..at + 12].parse());
        Told { statuses: heads.map(Result::unwrap).collect(), text }
    }

    /// One request with these header lines, and nothing else but a body.
    async fn request(&self, method: &str, path: &str, headers: &str) -> Told {
        let kind = "Content-Type: application/json\r\n";
        let (kind, body) = match method {
            "POST" if headers.contains("Content-Type") => ("", BODY),
            "POST" => (kind, BODY),
            _ => ("", ""),
        };
        let end = if headers.contains("Upgrade:") { "" } else { "Connection: close\r\n" };
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\n{headers}{kind}{end}");
        self.raw(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).await
    }

    fn host(&self) -> String {
        format!("Host: {}\r\n", self.hive)
    }
}

async fn new_token(play: &Play, name: &str) -> (String, String) {
    let made = play.api().post("/api/v1/tokens", &json!({"name": name})).await.unwrap();
    let made = made.good().unwrap();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// Nothing was sent, nobody was let in, and nothing secret stands in the log.
async fn unharmed(play: &Play, stage: &Stage, secrets: &[&str]) {
    assert_eq!(stage.model.requests().len(), 0, "a forged message reached the model");
    let tokens = play.api().get("/api/v1/tokens").await.unwrap().good().unwrap();
    assert!(!tokens.to_string().contains("forged"), "{tokens}");
    for secret in secrets.iter().chain(&[BODY, "forged"]) {
        assert!(!play.hive.stderr().contains(secret), "the log has {secret}");
    }
}

#[tokio::test]
async fn attack_no_route_opens_without_the_right_credential() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let network = Network::of(&play);
    let (id, revoked) = new_token(&play, "gone").await;
    assert_eq!(play.api().delete(&format!("/api/v1/tokens/{id}")).await.unwrap().status, 204);
    let right = &play.token;
    let other = format!("{}0", &right[..right.len() - 1]);
    let other = if &other == right { format!("{}1", &right[..right.len() - 1]) } else { other };
    let credentials = [
        (String::new(), 401),
        (format!("Authorization: Bearer {other}\r\n"), 401),
        (format!("Authorization: Bearer {revoked}\r\n"), 401),
        (format!("Authorization: Basic {right}\r\n"), 401),
        (format!("Authorization: Bearer {}\r\n", right.to_uppercase()), 401),
        (format!("Authorization: Bearer {right}\r\nAuthorization: Bearer {right}\r\n"), 400),
        (format!("Cookie: token={right}\r\nX-Skep-Key: {right}\r\n"), 401),
        ("X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-User: operator\r\n".to_owned(), 401),
    ];
    for (credential, expected) in &credentials {
        for (method, path) in ROUTES {
            let upgrade = if *path == "/ws" { UPGRADE } else { "" };
            let headers = format!("{}{credential}{upgrade}", network.host());
            let headers = headers.replace("Connection: Upgrade", "Connection: Upgrade, close");
            let told = network.request(method, path, &headers).await;
            let kind = credential.split(' ').take(2).collect::<String>();
            assert_eq!(told.statuses, [*expected], "{method} {path} with {kind}: {}", told.text);
        }
    }
    for path in ["/api/v1/agents", "/api/v1/state", "/ws", "/health"] {
        for name in ["token", "access_token", "Authorization", "api_key"] {
            let path = format!("{path}?{name}={right}");
            let told = network.request("GET", &path, &network.host()).await;
            assert_eq!(told.statuses, [400], "{}", told.text);
            assert!(!told.text.contains(right.as_str()), "{}", told.text);
        }
    }
    unharmed(&play, &stage, &[right, &revoked, &other]).await;
}

#[tokio::test]
async fn attack_foreign_hosts_are_turned_away_on_open_routes_too() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let network = Network::of(&play);
    let port = network.hive.port();
    let bearer = format!("Authorization: Bearer {}\r\n", play.token);
    let own = [format!("127.0.0.1:{port}"), format!("LocalHost:{port}"), format!("[::1]:{port}")];
    let foreign = [
        String::new(),
        "localhost".to_owned(),
        "127.0.0.1:".to_owned(),
        format!("localhost:{}", port ^ 1),
        format!("localhost.:{port}"),
        format!("evil.example:{port}"),
        format!("127.0.0.1.nip.example:{port}"),
        format!("127.0.0.1:{port}@evil.example"),
        format!("user@127.0.0.1:{port}"),
        format!("127.0.0.1:{port},evil.example"),
        format!("127.0.0.1:{port}/"),
        format!("127.0.0.1:0{port}"),
        format!("127.1:{port}"),
        format!("2130706433:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[0:0:0:0:0:0:0:1]:{port}"),
    ];
    let own = own.map(|host| (format!("Host: {host}\r\n"), 200));
    let foreign = foreign.map(|host| (format!("Host: {host}\r\n"), 421));
    let twice = (format!("{0}{0}", network.host()), 400);
    let cases = own.into_iter().chain(foreign).chain([(String::new(), 400), twice]);
    for (host, expected) in cases {
        for path in ["/api/v1/agents", "/health"] {
            let told = network.request("GET", path, &format!("{host}{bearer}")).await;
            assert_eq!(told.statuses, [expected], "{path} at {host:?}: {}", told.text);
        }
    }
    for (line, expected) in [("evil.example", 421), ("user@127.0.0.1", 421)] {
        let path = format!("http://{line}:{port}/api/v1/agents");
        let told = network.request("GET", &path, &format!("{}{bearer}", network.host())).await;
        assert_eq!(told.statuses, [expected], "{line}: {}", told.text);
    }
}

#[tokio::test]
async fn attack_foreign_pages_get_nothing_even_with_a_token() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let network = Network::of(&play);
    let port = network.hive.port();
    let bearer = format!("{}Authorization: Bearer {}\r\n", network.host(), play.token);
    let foreign = [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        String::new(),
        "file://".to_owned(),
        "http://127.0.0.1".to_owned(),
        format!("http://127.0.0.1:{}", port ^ 1),
        format!("http://localhost:{port}"),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}.evil.example"),
        format!("http://127.0.0.1:{port}@evil.example"),
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port} http://evil.example"),
    ];
    let requests = [
        ("GET", "/health", ""),
        ("GET", "/api/v1/agents", ""),
        ("POST", "/api/v1/agents/main/messages", ""),
        ("OPTIONS", "/api/v1/agents", "Access-Control-Request-Method: POST\r\n"),
        ("GET", "/ws", UPGRADE),
    ];
    for origin in &foreign {
        for (method, path, more) in requests {
            let headers = format!("{bearer}Origin: {origin}\r\n{more}");
            let headers = headers.replace("Connection: Upgrade", "Connection: Upgrade, close");
            let told = network.request(method, path, &headers).await;
            assert_eq!(told.statuses, [403], "{method} {path} of {origin:?}: {}", told.text);
            assert!(!told.text.to_lowercase().contains("access-control-allow"), "{}", told.text);
        }
    }
    let own = format!("{bearer}Origin: http://127.0.0.1:{port}\r\n");
    assert_eq!(network.request("GET", "/api/v1/agents", &own).await.statuses, [200]);
    assert_eq!(network.request("GET", "/ws", &format!("{own}{UPGRADE}")).await.statuses, [101]);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"]
    {
        let headers = format!("{bearer}Content-Type: {kind}\r\n");
        let told = network.request("POST", "/api/v1/agents/main/messages", &headers).await;
        assert_eq!(told.statuses, [415], "{kind}: {}", told.text);
    }
    unharmed(&play, &stage, &[&play.token]).await;
}

/// Whatever the length of a body is said to be, what follows it is a request of its own, without
/// the credential of the first, or is not read at all.
#[tokio::test]
async fn attack_no_request_hides_in_another() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let network = Network::of(&play);
    let host = network.host();
    let hidden = format!("GET /api/v1/tokens HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    let blank = r#"{"message":" "}"#;
    let chunked = format!("{:x}\r\n{blank}\r\n0\r\n\r\n", blank.len());
    let length = format!("Content-Length: {}\r\n", blank.len());
    let cases = [
        (length.clone(), blank),
        ("Transfer-Encoding: chunked\r\n".to_owned(), &chunked),
        (format!("{length}Transfer-Encoding: chunked\r\n"), &chunked),
        (format!("Transfer-Encoding: chunked\r\n{length}"), &chunked),
        (format!("{length}Content-Length: 3\r\n"), blank),
        ("Content-Length: +15\r\n".to_owned(), blank),
        ("Content-Length: 0xf\r\n".to_owned(), blank),
        ("Content-Length: -1\r\n".to_owned(), blank),
        ("Content-Length: 9223372036854775807\r\n".to_owned(), blank),
        ("Transfer-Encoding: xchunked\r\n".to_owned(), &chunked),
        ("Transfer-Encoding: chunked, identity\r\n".to_owned(), &chunked),
        ("Transfer-Encoding : chunked\r\n".to_owned(), &chunked),
        ("Transfer-Encoding: chunked\r\n".to_owned(), "FFFFFFFFFFFFFFFFF\r\nx"),
        ("Transfer-Encoding: chunked\r\n".to_owned(), "-1\r\nx"),
    ];
    for (number, (lengths, body)) in cases.into_iter().enumerate() {
        let head = format!(
            "POST /api/v1/agents/main/messages HTTP/1.1\r\n{host}Authorization: Bearer {}\r\n\
             Content-Type: application/json\r\n{lengths}\r\n",
            play.token
        );
        let told = network.raw(format!("{head}{body}{hidden}").as_bytes()).await;
        let (first, rest) = told.statuses.split_first().expect("an answer");
        assert!((400..500).contains(first), "case {number}: {}", told.text);
        let expected: &[u16] = if number < 2 { &[401] } else { &[] };
        assert_eq!(rest, expected, "case {number}: {}", told.text);
    }
    unharmed(&play, &stage, &[&play.token]).await;
}

#[tokio::test]
async fn attack_a_channel_serves_its_own_principal_until_the_token_is_revoked() {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("for my eyes"));
    let play = stage.up().await;
    let (id, token) = new_token(&play, "mallory").await;
    let mut mine = play.ws().await;
    mine.say("m-1", "hello").await.unwrap();
    mine.answer_to("m-1").await.unwrap();
    let mut target = play.target();
    target.token = Some(token.clone());
    let foreign = target.clone().resume(mine.channel(), 0);
    let refused = WsClient::try_connect(&foreign).await.unwrap().err().expect("another's channel");
    assert_eq!(refused.status, Some(403));
    assert!(!refused.text.contains("for my eyes"), "{}", refused.text);
    let unknown = target.clone().resume("ws:0000", 0);
    let refused = WsClient::try_connect(&unknown).await.unwrap().err().expect("no channel");
    assert_eq!(refused.status, Some(404));
    let mut theirs = WsClient::connect(&target).await.unwrap();
    assert_eq!(play.api().delete(&format!("/api/v1/tokens/{id}")).await.unwrap().status, 204);
    assert_eq!(theirs.wait_closed().await.unwrap(), Some(1008), "an open socket ends too");
    let refused = WsClient::try_connect(&target).await.unwrap().err().expect("revoked");
    assert_eq!(refused.status, Some(401));
    assert!(!play.hive.stderr().contains(&token), "the log has the token");
}

/// A terminal that closes sends this, often twice. It once ended the hive on the spot.
#[tokio::test]
async fn attack_a_hangup_stops_in_order() {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    let mut ws = play.ws().await;
    for _ in 0..20 {
        play.hive.hang_up().unwrap();
    }
    assert_eq!(ws.wait_closed().await.unwrap(), Some(1001));
    let ended = play.hive.wait(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", play.hive.stderr());
}

/// Whoever starts it with `nohup` wants it to outlive the terminal.
#[tokio::test]
async fn attack_a_hangup_that_was_to_be_ignored_is() {
    let stage = Stage::new().await;
    stage.model.push(Reply::say("still here"));
    let mut play = stage.run(stage.start().no_hang_up()).await;
    play.hive.hang_up().unwrap();
    assert_eq!(play.ask("main", "hello").await["response"]["content"], "still here");
    play.hive.terminate().unwrap();
    let ended = play.hive.wait(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", play.hive.stderr());
}

#[tokio::test]
async fn attack_events_of_an_agent_that_is_not_there_are_refused() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let answer = play.api().get("/api/v1/events?agent=nobody").await.unwrap();
    assert_eq!((answer.status, &answer.json["code"]), (404, &json!("unknown_agent")));
    let mut socket = play.ws().await;
    socket.send(&json!({"type": "subscribe", "agent": "nobody"})).await.unwrap();
    assert_eq!(socket.next_of("error").await.unwrap()["code"], "unknown_agent");
}
