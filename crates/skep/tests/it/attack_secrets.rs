//! A canary for a key: vendors that echo it, models that say it, tools that read it, people that
//! paste it. Afterwards it is searched for in every byte that left the hive or stayed in its home.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::canary::Canary;
use skep_testkit::hive::Start;
use skep_testkit::http::answer;
use skep_testkit::{Hive, Reply, WsClient, locate};
use tokio::task::JoinHandle;

use crate::stage::{Play, Stage};

const VENDORS: [(&str, &str); 3] =
    [("anthropic", ""), ("openai", "/v1"), ("openai-responses", "/v1")];
/// Characters of which most encodings make something else.
const AWKWARD: &str = "/+=&";

struct Scene {
    stage: Stage,
    key: Canary,
    header: Canary,
    /// Everything the hive sent or printed.
    seen: Arc<Mutex<String>>,
}

impl Scene {
    async fn new(vendor: &str, path: &str) -> Self {
        let stage = Stage::new().await;
        let key = Canary::of(&format!("sk-{}{AWKWARD}end", Canary::new(vendor).value()));
        let header = Canary::new("header");
        let url = stage.model.base_url();
        stage.write(
            "providers.yaml",
            &format!(
                "profiles:\n  default:\n    provider: {vendor}\n    model: scripted\n    \
                 api_url: {url}{path}\n    api_key: ${{CANARY_KEY}}\n    \
                 extra_headers: {{ X-Extra: 'v1 ${{CANARY_HEADER}}' }}\n    \
                 timeouts: {{ connect: 600, first: 600, idle: 600 }}\n"
            ),
        );
        let tools = "allowed_tools: [read, write, edit, glob, grep, bash]\n";
        stage.write("teams/main/config.yaml", tools);
        Self { stage, key, header, seen: Arc::default() }
    }

    /// Everything in its log that can be.
    async fn up(&self) -> Play {
        let start = self.stage.start().env("SKEP_LOG", "trace");
        self.stage
            .run(
                start.env("CANARY_KEY", self.key.value()).env("CANARY_HEADER", self.header.value()),
            )
            .await
    }

    fn note(&self, text: &str) {
        self.seen.lock().unwrap().push_str(text);
    }

    /// A socket that is told everything: raw events, deltas and frames; deltas also joined, as a
    /// person would read them.
    async fn listen(&self, play: &Play) -> JoinHandle<()> {
        let mut socket = play.ws().await;
        socket.send(&json!({"type": "subscribe", "agent": "main", "since": 0})).await.unwrap();
        let seen = Arc::clone(&self.seen);
        tokio::spawn(async move {
            let mut said = String::new();
            while let Ok(Some(frame)) = socket.receive().await {
                said.push_str(frame["event"]["text"].as_str().unwrap_or_default());
                let mut seen = seen.lock().unwrap();
                seen.push_str(&format!("{frame}\n"));
            }
            seen.lock().unwrap().push_str(&said);
        })
    }

    async fn watch(&self, play: &Play) -> JoinHandle<()> {
        let mut events = play.api().events("/api/v1/events?since=0").await.unwrap();
        let seen = Arc::clone(&self.seen);
        tokio::spawn(async move {
            while let Ok(Some(event)) = events.next().await {
                seen.lock().unwrap().push_str(&format!("{event:?}\n"));
            }
        })
    }

    /// Says something to the agent and notes what comes of it.
    async fn ask(&self, play: &Play, text: &str) -> Value {
        let answer = play.ask("main", text).await;
        self.note(&answer.to_string());
        answer
    }

    async fn skep(&self, play: &Play, words: &[&str]) {
        let start = Start::new(&locate::skep().unwrap(), self.stage.home());
        let start = start.env("SKEP_TOKEN", &play.token);
        let done = words.iter().fold(start, |start, word| start.argument(*word)).finish().await;
        let done = done.unwrap();
        self.note(&format!("{words:?}: {}{}", done.stdout, done.stderr));
    }

    /// The rest that can be asked for, then the end, then the search.
    async fn search(&self, play: Play, listeners: Vec<JoinHandle<()>>) {
        for path in [
            "/api/v1/agents/main/history?view=full&limit=500",
            "/api/v1/agents/main/history",
            "/api/v1/inbox?limit=500",
            "/api/v1/state",
            "/api/v1/agents",
            "/api/v1/logs?limit=1000",
            "/api/v1/metrics",
        ] {
            self.note(&play.api().get(path).await.unwrap().text);
        }
        let sessions = play.api().get("/api/v1/agents/main/sessions").await.unwrap();
        self.note(&sessions.text);
        for session in sessions.json["sessions"].as_array().unwrap() {
            let id = session["id"].as_str().unwrap();
            let path = format!("/api/v1/agents/main/sessions/{id}/export");
            self.note(&play.api().get(&path).await.unwrap().text);
        }
        for words in [
            &["history", "show", "main", "--view", "full"][..],
            &["--json", "history", "show", "main", "--view", "full"],
            &["--json", "status"],
            &["doctor"],
            &["logs", "-n", "1000"],
            &["--json", "logs", "--level", "trace"],
        ] {
            self.skep(&play, words).await;
        }
        let mut hive: Hive = play.hive;
        hive.terminate().unwrap();
        hive.wait(skep_testkit::wait::PATIENCE).await.unwrap();
        for listener in listeners {
            listener.await.unwrap();
        }
        self.note(&hive.stdout());
        self.note(&hive.stderr());
        for canary in [&self.key, &self.header] {
            let sightings = canary.find_below(self.stage.home()).unwrap();
            assert_eq!(sightings, [], "{}", canary.value());
            let seen = self.seen.lock().unwrap();
            let form = canary.find_in(seen.as_bytes());
            let line = seen.lines().find(|line| canary.find_in(line.as_bytes()).is_some());
            assert_eq!((form, line), (None, None), "{}", canary.value());
        }
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn bytewise(text: &str) -> Vec<&str> {
    (0..text.len()).map(|at| &text[at..at + 1]).collect()
}

#[tokio::test]
async fn attack_a_model_that_says_the_key_is_heard_without_it() {
    for (vendor, path) in VENDORS {
        let scene = Scene::new(vendor, path).await;
        let key = scene.key.value();
        let play = scene.up().await;
        let listeners = vec![scene.listen(&play).await, scene.watch(&play).await];
        let said = format!("The key is {key}.");
        for at in (1..said.len()).step_by(5) {
            let (first, second) = said.split_at(at);
            scene.stage.model.push(Reply::new().text_in([first, second]));
            let answer = scene.ask(&play, "say it").await;
            let content = answer["response"]["content"].as_str().unwrap();
            // Of a long key the first letters may have been shown when it turned out to be one.
            let shown =
                key.get(..at.saturating_sub("The key is ".len())).filter(|of| of.len() <= 3);
            let expected = format!("The key is {}[secret:default.api_key].", shown.unwrap_or(""));
            assert_eq!(content, expected, "{vendor} {at}");
        }
        let encoded = hex(key);
        scene.stage.model.push_all([
            Reply::new().text_in(bytewise(&said)).chunked(3),
            Reply::new().text_in(bytewise(&encoded)),
            Reply::say(&format!("{:?} {} {encoded}", key, scene.header.value())),
            Reply::new().thinking(&format!("the key {key}")).text("thought"),
            Reply::say("after the thought"),
        ]);
        for _ in 0..5 {
            assert_eq!(scene.ask(&play, "say it otherwise").await["state"], "done");
        }
        assert_eq!(scene.stage.model.refusals(), Vec::<String>::new(), "{vendor}");
        let history = play.history("main", "main").await;
        let thought = history.iter().rev().find(|row| row["content"][0]["type"] == "thinking");
        if let Some(block) = thought.map(|row| &row["content"][0]) {
            assert_eq!(block["thinking"], "the key [secret:default.api_key]", "{vendor}");
            assert_eq!(block["signature"], Value::Null, "{vendor}");
        }
        scene.search(play, listeners).await;
    }
}

#[tokio::test]
async fn attack_vendors_that_echo_the_key_in_their_errors() {
    for (vendor, path) in VENDORS {
        let scene = Scene::new(vendor, path).await;
        let key = scene.key.value();
        let play = scene.up().await;
        let listeners = vec![scene.listen(&play).await, scene.watch(&play).await];
        let echoed = json!({"error": {"type": "invalid_request_error", "message": key}});
        let replies = [
            Reply::bad_request(&format!("wrong key {key}")),
            Reply::bad_request(&format!("{}{key}", "x".repeat(380))),
            Reply::bad_request(&format!("hex {} header {}", hex(key), scene.header.value())),
            Reply::fixed(401, "application/json", echoed.to_string()),
            Reply::fixed(422, "text/html", format!("<p>{key}</p>")),
            Reply::new().text(key).error_event("invalid_request_error", key),
        ];
        for reply in replies {
            scene.stage.model.push(reply);
            assert_eq!(scene.ask(&play, "go on").await["state"], "failed", "{vendor}");
        }
        scene.search(play, listeners).await;
    }
}

#[tokio::test]
async fn attack_tools_that_read_write_or_run_the_key() {
    let scene = Scene::new("anthropic", "").await;
    let key = scene.key.value().to_owned();
    let outside = scene.stage.folder().join("planted");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("keys.env"), format!("KEY={key}\nB={}\n", hex(&key))).unwrap();
    let agent = format!(
        "workspace: {}\nallowed_tools: [read, write, edit, glob, grep, bash]\n",
        outside.display()
    );
    scene.stage.write("teams/main/config.yaml", &agent);
    let play = scene.up().await;
    let listeners = vec![scene.listen(&play).await, scene.watch(&play).await];
    let bash = |command: &str| ("bash", json!({"command": command}));
    let calls = [
        ("read", json!({"file_path": "keys.env"})),
        ("grep", json!({"pattern": "KEY"})),
        bash("cat keys.env; base64 -w0 keys.env; base64 -w0 < <(sed s/KEY/K/ keys.env)"),
        bash("env; cat /proc/self/environ /proc/1/environ; ls -la /proc/*/fd"),
        ("edit", json!({"file_path": "keys.env", "old_string": "KEY", "new_string": "NAME"})),
        ("write", json!({"file_path": "copy", "content": format!("x={key}\n")})),
        bash(&format!("curl -H 'Authorization: {key}' http://127.0.0.1")),
        bash(&format!("echo {} | xxd -r -p", hex(&key))),
    ];
    let mut answers = Vec::new();
    for (tool, arguments) in calls {
        scene.stage.model.push_all([Reply::call(tool, arguments), Reply::say("done")]);
        assert_eq!(scene.ask(&play, "use it").await["state"], "done");
        let request = scene.stage.model.requests().pop().unwrap();
        let result = request.last_tool_results().pop().unwrap();
        assert_eq!(scene.key.find_in(request.body.to_string().as_bytes()), None, "{tool}");
        answers.push((tool, result.is_error, result.text));
    }
    let marker = "[secret:default.api_key]";
    for (tool, is_error, text) in &answers[..3] {
        assert!(!is_error && text.contains(marker), "{tool}: {text}");
    }
    for (tool, is_error, text) in &answers[5..] {
        assert!(*is_error && text.contains("hold a secret"), "{tool}: {text}");
    }
    assert!(!outside.join("copy").exists(), "no name of a secret is written to a file");
    scene.search(play, listeners).await;
}

#[tokio::test]
async fn attack_people_that_paste_the_key_are_told_and_it_is_not_kept() {
    let scene = Scene::new("openai", "/v1").await;
    let key = scene.key.value();
    let play = scene.up().await;
    let listeners = vec![scene.listen(&play).await, scene.watch(&play).await];
    scene.stage.model.push_all([Reply::say("I see"), Reply::say("I see")]);
    let body = json!({"message": format!("my key is {key}")});
    let told = play.api().post("/api/v1/agents/main/messages", &body).await.unwrap();
    assert!(told.json["note"].as_str().unwrap().contains("secret of this hive"), "{}", told.text);
    scene.note(&told.text);
    play.ended("main", told.json["item_id"].as_str().unwrap()).await;
    let request = scene.stage.model.requests().pop().unwrap();
    assert!(request.last_user_text().ends_with("my key is [secret:default.api_key]"));
    let mut socket = play.ws().await;
    socket.say("m1", &format!("again {key}")).await.unwrap();
    let ack = socket.next_of("ack").await.unwrap();
    assert!(ack["note"].as_str().unwrap().contains("secret of this hive"), "{ack}");
    scene.note(&socket.answer_to("m1").await.unwrap().to_string());
    let escaped = key.replace('/', "%2F").replace('&', "%26").replace('+', "%2B");
    for (method, path, body) in [
        (
            Method::POST,
            "/api/v1/agents/main/messages".to_owned(),
            json!({"message": "x", "session_key": key}),
        ),
        (Method::POST, "/api/v1/agents/main/messages".to_owned(), json!({"message": "x", key: 1})),
        (
            Method::POST,
            "/api/v1/agents/main/messages".to_owned(),
            json!({"message": "x", "mode": key}),
        ),
        (Method::GET, format!("/api/v1/agents/{escaped}/history"), Value::Null),
        (Method::GET, format!("/api/v1/{escaped}"), Value::Null),
        (Method::GET, format!("/api/v1/inbox?state={escaped}"), Value::Null),
        (Method::GET, format!("/api/v1/events?agent={escaped}"), Value::Null),
    ] {
        let refused = answer(play.api().request(method, &path).json(&body)).await.unwrap();
        assert!((400..500).contains(&refused.status), "{path}: {}", refused.text);
        scene.note(&refused.text);
    }
    let frames = [
        json!({"content": "x", "id": key}),
        json!({"content": "x", "agent": key}),
        json!({"type": key}),
        json!({key: key}),
    ];
    for frame in frames {
        socket.send(&frame).await.unwrap();
        scene.note(&socket.next_of("error").await.unwrap().to_string());
    }
    let session = "11111111-2222-3333-4444-555555555555";
    let line = json!({
        "type": "history", "id": "m", "agentId": "main", "sessionId": session, "turn": "t",
        "seq": 1, "timestamp": 1, "role": "assistant",
        "content": [{"type": "thinking", "thinking": key, "signature": "s"},
                    {"type": "text", "text": format!("it was {key}")}],
    });
    let import = play.api().request(Method::POST, "/api/v1/agents/main/sessions");
    let import = import.header("content-type", "application/x-ndjson").body(line.to_string());
    let imported = answer(import).await.unwrap();
    assert_eq!(
        (imported.status, &imported.json["imported"]),
        (200, &json!(true)),
        "{}",
        imported.text
    );
    scene.search(play, listeners).await;
}

#[tokio::test]
async fn attack_other_users_find_a_closed_home() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let skep = locate::skep().unwrap();
    let hive = Start::up(&skep, &home).listening().await.unwrap();
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let asked = hive.socket_api().unwrap().post(path, &json!({"message": "hello"})).await.unwrap();
    assert_eq!(asked.json["state"], "done", "{}", asked.text);
    let mut next = vec![home.clone()];
    while let Some(path) = next.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!(found.permissions().mode() & 0o077, 0, "{}", path.display());
        if found.is_dir() {
            next.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    for closed in [home.join("run/skep.sock"), home.join("run")] {
        let usual = fs::metadata(&closed).unwrap().permissions();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
        let ended = Start::new(&skep, &home).argument("status").finish_bound_by_modes().unwrap();
        fs::set_permissions(&closed, usual).unwrap();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        for part in ["only its owner may use it", "next: run it as the owner of the home"] {
            assert!(ended.stderr.contains(part), "{}: {}", closed.display(), ended.stderr);
        }
    }
}

/// A token as its issuer writes it, which no file of the home names.
fn token() -> Canary {
    let letters: String =
        Canary::new("token").value().chars().filter(char::is_ascii_alphanumeric).collect();
    Canary::of(&format!("ghp_{}", &letters.repeat(8)[..36]))
}

const TOKEN: &str = "[secret:format.github-token]";

/// What nobody told the hive of is known by its format: said in pieces cut at every byte, echoed,
/// read, run, pasted, imported. The file that holds it stays as it is.
#[tokio::test]
async fn attack_tokens_that_nobody_told_of_are_known_by_their_format() {
    let scene = Scene::new("anthropic", "").await;
    let token = token();
    let value = token.value().to_owned();
    let outside = scene.stage.folder().join("planted");
    fs::create_dir(&outside).unwrap();
    let planted = format!("A=1\nGITHUB_TOKEN={value}\n");
    fs::write(outside.join("keys.env"), &planted).unwrap();
    let agent = "allowed_tools: [read, write, edit, glob, grep, bash]\n";
    let agent = format!("workspace: {}\n{agent}", outside.display());
    scene.stage.write("teams/main/config.yaml", &agent);
    let play = scene.up().await;
    let listeners = vec![scene.listen(&play).await, scene.watch(&play).await];
    let said = format!("It is {value}.");
    for at in 1..said.len() {
        let (first, second) = said.split_at(at);
        scene.stage.model.push(Reply::new().text_in([first, second]));
        let answer = scene.ask(&play, "say it").await;
        let content = answer["response"]["content"].as_str().unwrap();
        // The four letters that all of them begin with are no secret.
        let shown =
            content.strip_prefix("It is ").and_then(|rest| rest.strip_suffix(&format!("{TOKEN}.")));
        assert!(shown.is_some_and(|shown| "ghp_".starts_with(shown)), "{at}: {content}");
    }
    scene.stage.model.push_all([
        Reply::new().text_in(bytewise(&said)).chunked(3),
        Reply::new().thinking(&said).text("thought"),
        Reply::bad_request(&format!("wrong token {value}")),
    ]);
    for state in ["done", "done", "failed"] {
        assert_eq!(scene.ask(&play, "say it otherwise").await["state"], state);
    }
    let calls = [
        ("read", json!({"file_path": "keys.env"})),
        ("grep", json!({"pattern": "TOKEN"})),
        ("bash", json!({"command": "cat keys.env"})),
        ("bash", json!({"command": format!("curl -u {value}: http://127.0.0.1")})),
        ("write", json!({"file_path": "copy", "content": format!("t={value}\n")})),
        ("write", json!({"file_path": "copy", "content": "t=[secret:anything]\n"})),
        ("edit", json!({"file_path": "keys.env", "old_string": "A=1", "new_string": "A=2"})),
    ];
    for (number, (tool, arguments)) in calls.into_iter().enumerate() {
        scene.stage.model.push_all([Reply::call(tool, arguments), Reply::say("done")]);
        assert_eq!(scene.ask(&play, "use it").await["state"], "done");
        let request = scene.stage.model.requests().pop().unwrap();
        assert_eq!(token.find_in(request.body.to_string().as_bytes()), None, "{tool}");
        let result = request.last_tool_results().pop().unwrap();
        match number {
            0..3 => assert!(result.text.contains(TOKEN), "{tool}: {}", result.text),
            3..6 => assert!(result.text.contains("secret_in_arguments"), "{tool}: {}", result.text),
            _ => assert!(!result.is_error, "{tool}: {}", result.text),
        }
    }
    assert!(!outside.join("copy").exists());
    let kept = fs::read_to_string(outside.join("keys.env")).unwrap();
    assert_eq!(kept, planted.replace("A=1", "A=2"), "bytes of files stay");
    scene.stage.model.push(Reply::say("I see"));
    let body = json!({"message": format!("my token is {value}")});
    let told = play.api().post("/api/v1/agents/main/messages", &body).await.unwrap();
    assert!(told.json["note"].as_str().unwrap().contains("looks like a key"), "{}", told.text);
    play.ended("main", told.json["item_id"].as_str().unwrap()).await;
    for path in [format!("/api/v1/agents/{value}/history"), format!("/api/v1/inbox?state={value}")]
    {
        scene.note(&play.api().get(&path).await.unwrap().text);
    }
    scene.note(&play.api().get("/api/v1/audit/export").await.unwrap().text);
    let shown = play.api().get("/api/v1/agents/main/workspace?path=keys.env").await.unwrap();
    scene.note(&shown.text);
    scene.search(play, listeners).await;
    assert_eq!(token.find_below(scene.stage.home()).unwrap(), []);
    let seen = scene.seen.lock().unwrap();
    let line = seen.lines().find(|line| token.find_in(line.as_bytes()).is_some());
    assert_eq!(line, None);
    assert!(seen.matches(TOKEN).count() > 50);
}

/// Where a token lies in the clear is told with who can make it void, and without the token.
#[tokio::test]
async fn secrets_scan_says_where_and_what_to_rotate() {
    let stage = Stage::new().await;
    let (token, later) = (token(), Canary::of("AKIAQ3Z7PL2M9XW4TRYU"));
    stage.write("teams/main/work/notes.md", &format!("one\ntwo {}\n", token.value()));
    stage.model.push(Reply::say("read"));
    let play = stage.up().await;
    // `id` and the key, in base64.
    let data = "aWQgQUtJQVEzWjdQTDJNOVhXNFRSWVUK";
    let file = json!({"name": "a.txt", "data": data});
    let body = json!({"message": "look", "attachments": [file]});
    let told = play.api().post("/api/v1/agents/main/messages", &body).await.unwrap();
    play.ended("main", told.json["item_id"].as_str().unwrap()).await;
    let scan = || {
        let mut skep = Command::new(locate::skep().unwrap());
        let ran = skep.args(["secrets", "scan", "--json", "--home"]).arg(stage.home()).output();
        let ran = ran.unwrap();
        for canary in [&token, &later] {
            assert_eq!(canary.find_in(&[&ran.stdout[..], &ran.stderr].concat()), None);
        }
        (ran.status.code(), serde_json::from_slice::<Value>(&ran.stdout).unwrap())
    };
    let note = json!({
        "file": "teams/main/work/notes.md", "place": "2", "secret": "format.github-token",
        "rotate": "GitHub",
    });
    let (code, served) = scan();
    assert_eq!((code, &served["found"][0]), (Some(1), &note), "{served}");
    let rows = |scan: &Value| {
        let found = scan["found"].as_array().unwrap()[1..].iter();
        let found = found.filter(|it| it["file"] == "run/skep.db" && it["rotate"] == "AWS IAM");
        found.filter(|it| it["secret"] == "format.aws-access-key").count()
    };
    assert!(rows(&served) > 0 && served["skipped"] == json!([]), "{served}");
    let mut hive: Hive = play.hive;
    hive.terminate().unwrap();
    hive.wait(skep_testkit::wait::PATIENCE).await.unwrap();
    let (_, closed) = scan();
    assert_eq!(closed["found"][0], note, "{closed}");
    assert!(rows(&closed) > 0 && closed["skipped"] == json!([]), "{closed}");
}

/// A key that somebody pasted, and that became a profile's afterwards: rows, frames and events
/// that hold it are older than it is known.
#[tokio::test]
async fn attack_what_was_said_before_a_key_was_known_is_shown_without_it() {
    let stage = Stage::new().await;
    let key = Canary::of(&format!("sk-{}", Canary::new("pasted").value()));
    let said = format!("the key is {}", key.value());
    let arguments = json!({ "path": format!("{}.txt", key.value()) });
    stage.model.push_all([
        Reply::new().thinking(&said).tool("read", arguments),
        Reply::say(&said),
        Reply::say("fine"),
    ]);
    let play = stage.up().await;
    let mut socket = play.ws().await;
    socket.say("m-1", &said).await.unwrap();
    let answer = socket.answer_to("m-1").await.unwrap();
    assert_eq!(answer["content"], *said, "nobody knows yet");
    let profiles = fs::read_to_string(stage.home().join("providers.yaml")).unwrap();
    let mut events = play.api().events("/api/v1/events").await.unwrap();
    let later =
        format!("  later:\n    provider: anthropic\n    model: m\n    api_key: {}\n", key.value());
    stage.write("providers.yaml", &format!("{profiles}{later}"));
    while events.next().await.unwrap().unwrap().name.as_deref() != Some("config") {}
    let channel = socket.channel().to_owned();
    let mut seen = String::new();
    let mut again = WsClient::connect(&play.target().resume(&channel, 0)).await.unwrap();
    again.send(&json!({"type": "subscribe", "agent": "main", "since": 0})).await.unwrap();
    while !seen.contains("turn_end") {
        seen.push_str(&format!("{}\n", again.next().await.unwrap().unwrap()));
    }
    let mut replayed = play.api().events("/api/v1/events?since=0").await.unwrap();
    while let Some(event) = replayed.next().await.unwrap() {
        seen.push_str(&format!("{event:?}\n"));
        if event.name.as_deref() == Some("turn_end") {
            break;
        }
    }
    let sessions = play.api().get("/api/v1/agents/main/sessions").await.unwrap();
    let id = sessions.json["sessions"][0]["id"].as_str().unwrap().to_owned();
    let inbox = play.api().get("/api/v1/inbox").await.unwrap();
    let item = inbox.json["items"][0]["item_id"].as_str().unwrap().to_owned();
    for path in [
        format!("/api/v1/agents/main/history?session={id}&view=full"),
        format!("/api/v1/agents/main/sessions/{id}/export"),
        format!("/api/v1/agents/main/messages/{item}"),
        format!("/api/v1/agents/main/messages/{item}?stream=true"),
        format!("/api/v1/inbox/{item}"),
        "/api/v1/inbox".to_owned(),
        "/api/v1/search?q=key".to_owned(),
        "/api/v1/state".to_owned(),
        "/api/v1/logs?limit=1000".to_owned(),
        "/api/v1/audit/export".to_owned(),
    ] {
        seen.push_str(&format!("{path}: {}\n", play.api().get(&path).await.unwrap().text));
    }
    again.say("m-2", "and now?").await.unwrap();
    again.answer_to("m-2").await.unwrap();
    // The model, too, is asked without it, and still replays what it called.
    let asked = stage.model.wait_for_request(3).await.unwrap().body.to_string();
    assert!(asked.contains("the key is [secret:later.api_key]"), "{asked}");
    seen.push_str(&asked);
    let line = seen.lines().find(|line| key.find_in(line.as_bytes()).is_some());
    assert_eq!(line, None);
    assert!(seen.matches("[secret:later.api_key]").count() > 8, "{seen}");
    verify_export(&stage);
}

/// An export without the key verifies, and names the row that is not as it was written.
fn verify_export(stage: &Stage) {
    let file = stage.folder().join("audit.jsonl");
    let skep = |arguments: &[&str]| {
        let mut skep = Command::new(locate::skep().unwrap());
        skep.arg("audit").args(arguments).arg("--home").arg(stage.home()).output().unwrap()
    };
    let path = file.to_str().unwrap();
    assert!(skep(&["export", "--out", path]).status.success());
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = lines.iter().find(|line| line["tool"] == "read").unwrap();
    assert_eq!(row["redacted"], true, "{row}");
    let verdict =
        |ran: Output| (ran.status.code(), serde_json::from_slice::<Value>(&ran.stdout).unwrap());
    let (code, good) = verdict(skep(&["verify", path, "--json"]));
    assert_eq!((code, &good["redacted"]), (Some(0), &json!([row["id"]])), "{good}");
    let (_, live) = verdict(skep(&["verify", "--json"]));
    assert_eq!(good["hash"], live["hash"]);
    fs::write(&file, text.replace("config_applied", "config_kept")).unwrap();
    let (code, bad) = verdict(skep(&["verify", path, "--json"]));
    assert_eq!((code, &bad["findings"][0]["kind"]), (Some(1), &json!("changed")), "{bad}");
}
