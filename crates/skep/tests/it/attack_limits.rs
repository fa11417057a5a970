//! Floods at every door: slow and endless heads, bodies and frames, texts that are small to send
//! and large to hold, guesses without end. Each meets its limit, the hive stays small, and the
//! turns of others take as long as before.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use skep_core::file::FileData;
use skep_testkit::{Reply, WsClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::stage::{Play, Stage};
use crate::walls_floods::{middle_and_most, status, turns};

const MESSAGES: &str = "/api/v1/agents/main/messages";
const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
/// A client gives up; no answer of a limit takes so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// At once, so that memory is what all of them take together.
const AT_ONCE: usize = 20;
const MIB: usize = 1 << 20;
const PIECE: usize = 1 << 16;
const FLOODS: usize = 13;
/// Of wrong credentials: three at once, eight that wait, and five more in the places that are free
/// again after a short wait. From then on every wait is long: about one a second.
const MOST_REFUSED: usize = 3 + 8 + 5;

/// How often each answer came: a status, a close code, or `closed` without a word.
type Counts = BTreeMap<String, usize>;

#[derive(Clone)]
struct Foe {
    hive: SocketAddr,
    /// Of a user.
    token: String,
    from: Ipv4Addr,
}

impl Foe {
    async fn new(play: &Play) -> Self {
        let url = play.hive.url().unwrap();
        let port = url.rsplit_once(':').unwrap().1.trim_end_matches('/').parse().unwrap();
        let body = json!({"name": "mallory", "role": "user"});
        let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
        Self {
            hive: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
            token: made["token"].as_str().unwrap().to_owned(),
            from: Ipv4Addr::new(127, 0, 0, 9),
        }
    }

    async fn connect(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(self.from.into(), 0)).unwrap();
        socket.connect(self.hive).await.unwrap()
    }

    fn head(&self, method: &str, path: &str, more: &str) -> Vec<u8> {
        let host = self.hive;
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").into_bytes()
    }

    fn post(&self, path: &str, more: &str) -> Vec<u8> {
        let bearer = &self.token;
        let kind = "Content-Type: application/json\r\n";
        self.head("POST", path, &format!("Authorization: Bearer {bearer}\r\n{kind}{more}"))
    }

    /// Sends these bytes, then pieces for as long as they are taken; what came back.
    async fn send(&self, first: &[u8], piece: &[u8], times: usize) -> String {
        let (mut reader, mut writer) = self.connect().await.into_split();
        let sending = async {
            let mut going = writer.write_all(first).await.is_ok();
            for _ in 0..times {
                going = going && writer.write_all(piece).await.is_ok();
            }
            // Open until the answer is there.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = sending => unreachable!(),
            status = status_of(&mut reader) => status,
        }
    }

    /// A body without an end that is announced nowhere.
    async fn endless(&self, path: &str, more: &str, mib: usize) -> String {
        let head = self.post(path, &format!("{more}Transfer-Encoding: chunked\r\n"));
        let piece = [b"100000\r\n".as_slice(), &vec![b'x'; MIB], b"\r\n"].concat();
        self.send(&[&head, b"c\r\n{\"message\":\"\r\n".as_slice()].concat(), &piece, mib).await
    }

    async fn whole(&self, path: &str, more: &str, body: &[u8]) -> String {
        let more = format!("{more}Content-Length: {}\r\n", body.len());
        self.send(&[&self.post(path, &more), body].concat(), b"", 0).await
    }

    async fn socket(&self) -> TcpStream {
        let more = format!("Authorization: Bearer {}\r\n{UPGRADE}", self.token);
        let mut stream = self.connect().await;
        stream.write_all(&self.head("GET", "/ws", &more)).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 101") && !head.contains("deflate"), "{head}");
        stream
    }

    /// A frame that says how long it is, and this much of it; the code it is closed with.
    async fn frame(&self, first: u8, length: u64, part: usize) -> String {
        let (mut reader, mut writer) = self.socket().await.into_split();
        let sending = async {
            let head = [&[first, 0xff], length.to_be_bytes().as_slice(), &[0; 4]].concat();
            let mut going = writer.write_all(&head).await.is_ok();
            for _ in 0..part.div_ceil(PIECE) {
                going = going && writer.write_all(&[b'x'; PIECE]).await.is_ok();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = sending => unreachable!(),
            code = close_of(&mut reader) => code,
        }
    }
}

async fn status_of(reader: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut answer = Vec::new();
    while answer.len() < 12 {
        match reader.read_buf(&mut answer).await {
            Ok(0) | Err(_) => return "closed".to_owned(),
            Ok(_) => {}
        }
    }
    String::from_utf8_lossy(&answer[9..12]).into_owned()
}

/// The code of the close frame; the frames before it are short.
async fn close_of(reader: &mut (impl AsyncReadExt + Unpin)) -> String {
    loop {
        let mut head = [0; 2];
        if reader.read_exact(&mut head).await.is_err() {
            return "closed".to_owned();
        }
        let length = match head[1] {
            126 => usize::from(reader.read_u16().await.unwrap()),
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        if reader.read_exact(&mut payload).await.is_err() {
            return "closed".to_owned();
        }
        if head[0] == 0x88 {
            return u16::from_be_bytes([payload[0], payload[1]]).to_string();
        }
    }
}

/// All at the same time. Those that nobody answers stay as they are: `open`.
async fn at_once(attempts: impl IntoIterator<Item = impl Future<Output = String>>) -> Counts {
    let mut counts = Counts::new();
    let mut all: FuturesUnordered<_> = attempts.into_iter().collect();
    loop {
        // Answers of a limit come one after the other without a pause, also on a busy machine.
        match timeout(Duration::from_secs(10), all.next()).await {
            Ok(Some(answer)) => *counts.entry(answer).or_default() += 1,
            Ok(None) => return counts,
            Err(_) => {
                counts.insert("open".to_owned(), all.len());
                return counts;
            }
        }
    }
}

fn only(counts: &Counts, words: &[&str]) -> bool {
    counts.keys().all(|answer| words.contains(&answer.as_str()))
}

fn of(counts: &Counts, word: &str) -> usize {
    counts.get(word).copied().unwrap_or_default()
}

/// A flood, and whether its answers are as they should be.
type Flood = (&'static str, BoxFuture<'static, Counts>, fn(&Counts) -> bool);

/// So many of these at once.
fn flood<F: Future<Output = String> + Send + 'static>(
    foe: &Foe,
    count: usize,
    attempt: impl Fn(Foe, usize) -> F,
) -> BoxFuture<'static, Counts> {
    let attempts: Vec<F> = (0..count).map(|number| attempt(foe.clone(), number)).collect();
    at_once(attempts).boxed()
}

fn floods_of_heads_and_bodies(foe: &Foe) -> Vec<Flood> {
    const V1: &str = "/v1/chat/completions";
    let slow = |foe: Foe, _| async move { foe.send(b"GET /health HTTP/1.1\r\nX", b"", 0).await };
    let long = |foe: Foe, _| async move {
        let head = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 60_000]].concat();
        foe.send(&head, b"", 0).await
    };
    let announced = |foe: Foe, number: usize| async move {
        let path = [MESSAGES, V1, "/api/v1/session"][number % 3];
        let head = foe.post(path, "Content-Length: 100000000\r\n");
        foe.send(&head, &vec![b'x'; MIB], 100).await
    };
    let endless = |foe: Foe, number: usize| async move {
        let (path, more) = [
            (MESSAGES, ""),
            (V1, ""),
            ("/api/v1/session", ""),
            ("/api/v1/agents/main/stop", "Idempotency-Key: k\r\n"),
        ][number % 4];
        foe.endless(path, more, 100).await
    };
    let held = |foe: Foe, _| async move { foe.endless(MESSAGES, "", 27).await };
    let wrong = |foe: Foe, _| async move {
        let head = foe.head("GET", "/api/v1/agents", "Authorization: Bearer wrong\r\n");
        foe.send(&head, b"", 0).await
    };
    let compressed = |foe: Foe, number: usize| async move {
        let word = ["gzip", "br", "deflate", "zstd"][number % 4];
        foe.whole(MESSAGES, &format!("Content-Encoding: {word}\r\n"), &[0x1f; 4096]).await
    };
    let deep = |foe: Foe, number: usize| async move {
        let body = format!(r#"{{"model":"main","message":{}"#, "[".repeat(90_000));
        foe.whole([MESSAGES, V1][number % 2], "", body.as_bytes()).await
    };
    let text = format!(r#"{{"model":"main","messages":[],"x":[{}0]}}"#, "0,".repeat(9 * MIB));
    let text = std::sync::Arc::new(text);
    let wide = move |foe: Foe, _| {
        let text = std::sync::Arc::clone(&text);
        async move { foe.whole(V1, "", text.as_bytes()).await }
    };
    vec![
        ("1300 heads that do not end", flood(foe, 1300, slow), |counts| {
            of(counts, "closed") >= 276
        }),
        ("1000 heads of 60 KB that do not end", flood(foe, 1000, long), |counts| {
            of(counts, "closed") >= 900
        }),
        ("bodies of 100 MB that say so", flood(foe, AT_ONCE, announced), |counts| {
            only(counts, &["413", "closed"]) && of(counts, "413") > 0
        }),
        ("bodies of 100 MB that do not say so", flood(foe, AT_ONCE, endless), |counts| {
            only(counts, &["413", "closed"])
        }),
        ("bodies of 27 MiB that do not end", flood(foe, AT_ONCE, held), |counts| {
            only(counts, &["open"])
        }),
        ("1000 wrong tokens", flood(foe, 1000, wrong), |counts| {
            only(counts, &["401", "429", "open"]) && of(counts, "429") >= 980
        }),
        ("compressed bodies", flood(foe, AT_ONCE, compressed), |counts| only(counts, &["415"])),
        ("bodies of 90000 lists in each other", flood(foe, AT_ONCE, deep), |counts| {
            only(counts, &["400"])
        }),
        ("bodies of nine million values", flood(foe, AT_ONCE, wide), |counts| {
            only(counts, &["413"])
        }),
    ]
}

fn floods_of_frames(foe: &Foe) -> Vec<Flood> {
    let huge = |foe: Foe, _| async move { foe.frame(0x81, 100 << 20, 100 * MIB).await };
    let held = |foe: Foe, _| async move { foe.frame(0x81, 27 << 20, 26 * MIB).await };
    let small = |foe: Foe, _| async move { foe.frame(0x81, 1 << 20, 200_000).await };
    let compressed = |foe: Foe, _| async move { foe.frame(0xc1, 5, 5).await };
    vec![
        ("frames of 100 MB", flood(foe, AT_ONCE, huge), |counts| only(counts, &["1009", "closed"])),
        ("frames of 27 MiB that do not end", flood(foe, AT_ONCE, held), |counts| {
            only(counts, &["open"])
        }),
        ("400 frames of 200 KB that do not end", flood(foe, 400, small), |counts| {
            only(counts, &["1013", "closed", "open"]) && of(counts, "open") < 100
        }),
        ("compressed frames nobody agreed on", flood(foe, AT_ONCE, compressed), |counts| {
            only(counts, &["1002"])
        }),
    ]
}

/// With `--all` the bounds are those of the promise: run it on a machine at rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attack_limits_hold_at_every_door_and_others_do_not_feel_it() {
    skep_guard::limits::raise_open_files().unwrap();
    let turns_each = if skep_testkit::all() { 50 } else { 10 };
    let stage = Stage::new().await;
    stage.write("teams/other/config.yaml", "allowed_tools: []\n");
    let play = stage.up().await;
    let foe = Foe::new(&play).await;
    turns(&stage, &play, turns_each).await;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let floods = floods_of_heads_and_bodies(&foe).into_iter().chain(floods_of_frames(&foe));
    for (name, flood, expected) in floods {
        let quiet = turns(&stage, &play, turns_each).await;
        // From here on the highest mark is counted anew.
        fs::write(format!("/proc/{}/clear_refs", play.hive.process()), "5").unwrap();
        let before = status(&play, "VmRSS:");
        let flood = tokio::spawn(flood);
        let busy = turns(&stage, &play, turns_each).await;
        let counts = flood.await.unwrap();
        let grown = status(&play, "VmHWM:").saturating_sub(before);
        let [(p50, _), (beside_p50, beside_p99)] =
            [quiet.clone(), busy.clone()].map(middle_and_most);
        eprintln!(
            "{name}: {counts:?}, +{} MiB, p50 {p50:?} alone, {beside_p50:?} and p99 \
             {beside_p99:?} beside it",
            grown >> 20
        );
        assert!(expected(&counts), "{name}: {counts:?}");
        assert!(grown < 64 << 20, "{name}: the hive grew by {} MiB", grown >> 20);
        alone.extend(quiet);
        beside.extend(busy);
    }
    let ((p50, p99), (beside_p50, beside_p99)) = (middle_and_most(alone), middle_and_most(beside));
    eprintln!("turns alone: p50 {p50:?}, p99 {p99:?}; beside: {beside_p50:?}, {beside_p99:?}");
    // Other tests take their part of the machine.
    let slack = if skep_testkit::all() { Duration::ZERO } else { Duration::from_secs(1) };
    assert!(beside_p50 <= p50.mul_f64(1.25) + slack, "p50 {p50:?}, {beside_p50:?} beside them");
    assert!(beside_p99 <= p99 * 2 + 4 * slack, "p99 {p99:?}, {beside_p99:?} beside them");
    assert_eq!(stage.model.requests().len(), turns_each * (1 + 2 * FLOODS), "a flood was answered");
}

/// Through every door, also as a proxy would send them. The peers are IPv4 in the form of IPv6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attack_a_thousand_wrong_credentials_get_nowhere_through_any_door() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "server: {bind: '::'}\n");
    let play = stage.run(stage.start().argument("--insecure-bind")).await;
    let right = Foe::new(&play).await;
    let once = br#"{"once":"0123456789abcdef0123456789abcdef"}"#;
    let cookie = "Cookie: skep-00000000=x\r\nX-Skep-Key: wrong\r\n";
    let doors: [(&str, &str, &str, &[u8]); 6] = [
        ("GET", "/api/v1/agents", "Authorization: Bearer wrong\r\n", b""),
        ("GET", "/api/v1/events", "Authorization: Bearer wrong\r\n", b""),
        ("POST", "/v1/chat/completions", "Authorization: Bearer wrong\r\n", b"{}"),
        ("GET", "/ws", "Authorization: Bearer wrong\r\n", b""),
        ("GET", "/api/v1/state", cookie, b""),
        ("POST", "/api/v1/session", "Content-Type: application/json\r\n", once),
    ];
    for (number, (method, path, credential, body)) in doors.into_iter().enumerate() {
        let foe = Foe { from: Ipv4Addr::new(127, 0, 1, number as u8 + 1), ..right.clone() };
        let before = status(&play, "VmRSS:");
        let attempt = |guess: usize| {
            let foe = foe.clone();
            async move {
                let more = format!(
                    "{credential}X-Forwarded-For: 10.0.{}.{}\r\nForwarded: for=10.1.1.{}\r\n\
                     X-Real-IP: 127.0.0.1\r\nContent-Length: {}\r\n{}",
                    guess / 250,
                    guess % 250,
                    guess % 250,
                    body.len(),
                    if path == "/ws" { UPGRADE } else { "" },
                );
                let head = foe.head(method, path, &more);
                foe.send(&[&head, body].concat(), b"", 0).await
            }
        };
        let begun = Instant::now();
        let counts = at_once((0..1000).map(attempt)).await;
        let most = MOST_REFUSED + begun.elapsed().as_secs() as usize;
        let grown = status(&play, "VmRSS:").saturating_sub(before);
        eprintln!("{method} {path}: {counts:?}, +{} MiB", grown >> 20);
        let refused = if path == "/api/v1/session" { "403" } else { "401" };
        assert!(only(&counts, &[refused, "429", "open", "closed"]), "{path}: {counts:?}");
        // The others are told to wait, whatever they say.
        assert!(of(&counts, "429") >= 980, "{path}: {counts:?}");
        assert!(of(&counts, refused) <= most, "{path}: {counts:?}");
        assert!(grown < 64 << 20, "{path}: the hive grew by {} MiB", grown >> 20);
        // From the very same address.
        let known = Foe { token: right.token.clone(), ..foe };
        let more = format!("Authorization: Bearer {}\r\n", known.token);
        let head = known.head("GET", "/api/v1/agents", &more);
        assert_eq!(timeout(PATIENCE, known.send(&head, b"", 0)).await.unwrap(), "200", "{path}");
    }
}

/// What one user may ask for in a minute; others and whoever runs the hive do not count for it.
#[tokio::test]
async fn attack_a_user_who_asks_too_often_waits_alone() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {user_requests_per_minute: 60}\n");
    let play = stage.up().await;
    let user = async |name: &str| {
        let body = json!({"name": name, "role": "user"});
        let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
        play.hive.api(made["token"].as_str()).unwrap()
    };
    let (loud, quiet) = (user("mallory").await, user("anna").await);
    let answers = join_all((0..200).map(|_| loud.get("/api/v1/agents"))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let good = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((60..=120).contains(&good), "{good} of 200");
    let limited = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(limited.json["code"], "rate_limited");
    let header = |name: &str| limited.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("ratelimit-policy"), r#""user";q=60;qu="requests";w=60"#);
    assert_eq!(header("ratelimit"), r#""user";r=0;t=60"#);
    assert!((1..=2).contains(&header("retry-after").parse::<u32>().unwrap()));
    assert_eq!(quiet.get("/api/v1/agents").await.unwrap().status, 200);
    for _ in 0..100 {
        assert_eq!(play.api().get("/api/v1/agents").await.unwrap().status, 200);
    }
}

/// Large messages wait for each other and all arrive, also while somebody else never ends theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attack_large_messages_of_others_arrive_beside_one_that_does_not_end() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("seen"));
    let play = stage.up().await;
    let foe = Foe::new(&play).await;
    let held = tokio::spawn(async move { foe.endless(MESSAGES, "", 20).await });
    let body = json!({"name": "anna", "role": "user"});
    let made = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let token = made["token"].as_str();
    let api = play.hive.api(token).unwrap();
    let picture = [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![1; MIB]].concat();
    let files = json!([{"name": "bee.png", "data": FileData(picture.into()).to_base64()}]);
    let path = format!("{MESSAGES}?wait=true&timeout=60");
    let ask = async |number: usize| {
        let session = format!("s{number}");
        let body = json!({"message": "look", "session_key": session, "attachments": files});
        api.post(&path, &body).await.unwrap().good().unwrap()["state"].clone()
    };
    for state in join_all((0..8).map(ask)).await {
        assert_eq!(state, "done");
    }
    let mut socket = WsClient::connect(&play.hive.ws(token).unwrap()).await.unwrap();
    let ids: Vec<String> = (0..4).map(|number| format!("m-{number}")).collect();
    for id in &ids {
        let frame = json!({"content": "look", "id": id, "session": id, "attachments": files});
        socket.send(&frame).await.unwrap();
    }
    let mut answered = BTreeMap::new();
    while answered.len() < ids.len() {
        let frame = socket.next_of("response").await.unwrap();
        answered.insert(frame["in_reply_to"].to_string(), frame["content"].clone());
    }
    assert!(!held.is_finished(), "it is still being sent");
    held.abort();
}

/// Also for the owner of the home.
#[tokio::test]
async fn attack_the_local_socket_has_the_same_limits() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let api = play.hive.socket_api().unwrap();
    let wide = format!(r#"{{"model":"main","messages":[],"x":[{}0]}}"#, "0,".repeat(100_001));
    let deep = format!(r#"{{"message":{}"#, "[".repeat(90_000));
    let large = format!(r#"{{"session_key":"{}"}}"#, "x".repeat(MIB));
    let cases = [
        ("/v1/chat/completions", "", wide, 413),
        (MESSAGES, "", deep, 400),
        ("/api/v1/agents/main/stop", "", large, 413),
        (MESSAGES, "gzip", "{}".to_owned(), 415),
    ];
    for (path, encoding, body, expected) in cases {
        let mut request = api.request(reqwest::Method::POST, path).body(body);
        request = request.header("content-type", "application/json");
        if !encoding.is_empty() {
            request = request.header("content-encoding", encoding);
        }
        let answer = skep_testkit::http::answer(request).await.unwrap();
        assert_eq!(answer.status, expected, "{path}: {}", answer.text);
    }
}
