//! Files in messages: through every door, on every wire, over a restart, and back out.

use serde_json::{Value, json};
use skep_core::file::{File, FileData};
use skep_testkit::http::{self, Answer};
use skep_testkit::model::{Image, Usage, Wire};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

fn png(fill: u8) -> Vec<u8> {
    [&b"\x89PNG\r\n\x1a\n"[..], &[fill; 3000]].concat()
}

fn image(bytes: &[u8]) -> Image {
    Image { mime: "image/png".to_owned(), bytes: bytes.to_vec() }
}

fn attachment(name: &str, bytes: &[u8]) -> Value {
    json!({"name": name, "data": FileData(bytes.into()).to_base64()})
}

impl Stage {
    fn provide(&self, wire: Wire, more: &str) {
        let (provider, base) = match wire {
            Wire::Anthropic => ("anthropic", ""),
            Wire::OpenAiChat => ("openai", "/v1"),
            Wire::OpenAiResponses => ("openai-responses", "/v1"),
        };
        let text = format!(
            "profiles:\n  default:\n    provider: {provider}\n    model: scripted\n    \
             api_url: {}{base}\n    api_key: ${{RIG_KEY}}\n{more}",
            self.model.base_url()
        );
        self.write("providers.yaml", &text);
    }
}

impl Play {
    async fn give(&self, session: &str, text: &str, files: &[Value], key: &str) -> Answer {
        let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
        let body = json!({"message": text, "session_key": session, "attachments": files});
        let post = self.api().request(reqwest::Method::POST, path);
        http::answer(post.header("Idempotency-Key", key).json(&body)).await.unwrap()
    }
}

const SEES: &str = "    sees_images: true\n    context_window: 100000\n    price: { input: 3, \
                    output: 15, cache_read: 0.3, cache_write: 3.75 }\n";

fn counted() -> Usage {
    Usage {
        input_tokens: Some(1000),
        output_tokens: Some(200),
        cache_read_input_tokens: 10_000,
        cache_creation_input_tokens: 400,
    }
}

#[tokio::test]
async fn engine_files_reach_the_model_on_every_wire_and_stay_after_a_crash() {
    for wire in Wire::ALL {
        let stage = Stage::new().await;
        stage.provide(wire, SEES);
        let mut play = stage.up().await;
        let (sent, found) = (png(1), png(2));
        std::fs::create_dir_all(stage.home().join("teams/main/work")).unwrap();
        std::fs::write(stage.home().join("teams/main/work/found.png"), &found).unwrap();
        let call = Reply::new().tool("read", json!({"file_path": "found.png"}));
        stage.model.push(call.usage(counted()));
        stage.model.push(Reply::say("two bees").usage(counted()));
        let files = [attachment("bee.png", &sent), attachment("notes.md", b"# remember\n")];
        let done = play.give("main", "what is it?", &files, "one").await.good().unwrap();
        assert_eq!(done["response"]["content"], "two bees", "{wire:?} {done}");

        play.hive.kill().await.unwrap();
        let play = stage.up().await;
        stage.model.push(Reply::say("still two"));
        assert_eq!(play.ask("main", "and now?").await["response"]["content"], "still two");
        assert_eq!(stage.model.refusals(), Vec::<String>::new());
        let seen: Vec<Vec<Image>> = stage.model.requests().iter().map(|r| r.images()).collect();
        let both = vec![image(&sent), image(&found)];
        assert_eq!(seen, [vec![image(&sent)], both.clone(), both], "{wire:?}");
        let told = stage.model.requests()[0].last_user_text();
        assert!(told.contains("[file notes.md]\n# remember\n\n[end of file notes.md]"), "{told}");

        let rows = play.history("main", "main").await;
        let file = |name: &str, mime: &str, bytes: &[u8]| {
            let file = File::new(name, mime, bytes).without_data();
            json!({"type": "file", "name": name, "mime": mime, "size": file.size,
                   "hash": file.hash})
        };
        let first = [
            file("bee.png", "image/png", &sent),
            file("notes.md", "text/plain", b"# remember\n"),
            json!({"type": "text", "text": "what is it?"}),
        ];
        assert_eq!(rows[0]["content"], Value::from(first.to_vec()));
        assert_eq!(rows[2]["content"][1], file("found.png", "image/png", &found));
        let expected = json!({"input": 1000, "output": 200, "cacheRead": 10000,
                              "cacheWrite": 400, "totalTokens": 11600, "cost": 0.0105});
        assert_eq!(rows[1]["meta"]["usage"], expected, "{wire:?}");
        let events = play.events().await;
        let ends = events.iter().filter(|event| event["type"] == "turn_end");
        let costs: Vec<&Value> = ends.map(|event| &event["usage"]["cost"]).collect();
        assert_eq!(costs[0], &json!(0.021), "{wire:?}: two calls");
    }
}

#[tokio::test]
async fn engine_files_are_seen_by_whoever_sees_the_conversation() {
    let stage = Stage::new().await;
    stage.provide(Wire::Anthropic, "");
    let play = stage.up().await;
    stage.model.answer_with(|_| Reply::say("fine"));
    let (picture, page) = (png(3), b"<script>alert(1)</script>".to_vec());
    let files = [attachment("bee.png", &picture), attachment("pägé \".html", &page)];
    play.give("main", "", &files, "one").await.good().unwrap();
    // The model takes no pictures: it is told of this one.
    let request = stage.model.wait_for_request(1).await.unwrap();
    assert_eq!(request.images(), []);
    let told = request.last_user_text();
    let words = "[file bee.png, image/png, 3008 bytes: this model takes no pictures]";
    assert!(told.contains(words), "{told}");
    let rows = play.history("main", "main").await;
    // A price nobody knows is no price.
    assert_eq!(rows[1]["meta"]["usage"]["cost"], Value::Null);

    let get = async |hash: &str| {
        let request = play.api().request(reqwest::Method::GET, &format!("/api/v1/files/{hash}"));
        request.send().await.unwrap()
    };
    let cases = [
        (&picture, "image/png", "inline; filename*=UTF-8''bee.png"),
        (
            &page,
            "application/octet-stream",
            "attachment; filename*=UTF-8''p%C3%A4g%C3%A9%20%22.html",
        ),
    ];
    for (at, (bytes, kind, disposition)) in cases.into_iter().enumerate() {
        let hash = rows[0]["content"][at]["hash"].as_str().unwrap();
        let answer = get(hash).await;
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(answer.status(), 200);
        assert_eq!(header("content-type"), kind);
        assert_eq!(header("content-disposition"), disposition);
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(answer.bytes().await.unwrap(), bytes.as_slice());
    }
    // Another person has to have it in a conversation of their own.
    let made = play.api().post("/api/v1/tokens", &json!({"name": "ann", "role": "user"})).await;
    let token = made.unwrap().good().unwrap()["token"].as_str().unwrap().to_owned();
    let ann = Play { hive: play.hive, token };
    let path = format!("/api/v1/files/{}", rows[0]["content"][0]["hash"].as_str().unwrap());
    assert_eq!(ann.api().get(&path).await.unwrap().status, 404);
    ann.give("main", "mine", &files[..1], "two").await.good().unwrap();
    assert_eq!(ann.api().get(&path).await.unwrap().status, 200);
    let play = ann;
    let get = async |hash: &str| play.api().get(&format!("/api/v1/files/{hash}")).await.unwrap();
    for (hash, status) in [("0".repeat(64), 404), ("../skep.db".to_owned(), 404), ("x".into(), 400)]
    {
        assert_eq!(get(&hash).await.status, status, "{hash}");
    }
}

#[tokio::test]
async fn engine_files_that_cannot_be_used_are_refused_with_the_reason() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    stage.model.answer_with(|_| Reply::say("fine"));
    let zip = b"PK\x03\x04\x00\x00\xff\xfe";
    let svg = json!({"name": "a.svg", "mime": "image/svg+xml", "data": "PHN2Zy8+"});
    let many: Vec<Value> = (0..11).map(|at| attachment(&format!("{at}"), b"x")).collect();
    let table = [
        ("hi", vec![attachment("a.zip", zip)], 400, "unsupported_attachment", "neither a picture"),
        ("hi", vec![svg], 400, "unsupported_attachment", "no PNG, JPEG, GIF or WebP"),
        ("hi", vec![json!({"name": "a", "data": "*"})], 400, "unsupported_attachment", "base64"),
        ("hi", vec![attachment("", b"x")], 400, "unsupported_attachment", "needs a name"),
        ("hi", vec![json!({"name": "a"})], 400, "invalid_body", "missing field `data`"),
        ("hi", many, 413, "too_large", "10 attachments at most"),
        ("hi", vec![attachment("a", &vec![b'x'; 300_000])], 413, "too_large", "262144"),
        ("/stop", vec![attachment("a", b"x")], 400, "unsupported_attachment", "command"),
        ("  ", vec![], 400, "blank", "write something"),
    ];
    for (text, files, status, code, part) in table {
        let answer = play.give("main", text, &files, "k").await;
        assert_eq!((answer.status, answer.json["code"].as_str()), (status, Some(code)), "{part}");
        let detail = answer.json["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{detail}");
    }
    // A file belongs to what the id stands for.
    let [one, other] = [b"one", b"two"].map(|bytes| [attachment("a.txt", &bytes[..])]);
    let first = play.give("main", "hi", &one, "id").await.good().unwrap();
    let again = play.give("main", "hi", &one, "id").await.good().unwrap();
    assert_eq!(first["item_id"], again["item_id"]);
    let clash = play.give("main", "hi", &other, "id").await;
    assert_eq!((clash.status, clash.json["code"].as_str()), (409, Some("id_reused")));
    assert_eq!(stage.model.requests().len(), 1);
}

#[tokio::test]
async fn engine_files_come_through_the_socket_the_terminal_and_into_a_running_turn() {
    let stage = Stage::new().await;
    stage.provide(Wire::Anthropic, SEES);
    let play = stage.up().await;
    let mut socket = play.ws().await;
    stage.model.push(Reply::new().gate("go").tool("look", json!({"text": "a"})));
    stage.model.push(Reply::say("both"));
    let (first, second) = (png(4), png(5));
    let frame = |id: &str, files: Value| json!({"content": id, "id": id, "attachments": files});
    socket.send(&frame("m1", json!([attachment("a.png", &first)]))).await.unwrap();
    stage.model.gate("go").wait_arrived(1).await.unwrap();
    socket.send(&frame("m2", json!([attachment("b.png", &second)]))).await.unwrap();
    socket.find("its ack", |frame| frame["message_id"] == "m2").await.unwrap();
    stage.model.gate("go").release();
    assert_eq!(socket.answer_to("m2").await.unwrap()["content"], "both");
    let requests = stage.model.requests();
    assert_eq!(requests[0].images(), [image(&first)]);
    assert_eq!(requests[1].images(), [image(&first), image(&second)]);
    socket.send(&frame("m3", json!([attachment("c.bin", b"\0")]))).await.unwrap();
    let refused = socket.find("its refusal", |frame| frame["type"] == "error").await.unwrap();
    assert_eq!(refused["code"], "unsupported_attachment");
    assert_eq!(refused["message_id"], "m3");

    let file = stage.folder().join("term.png");
    std::fs::write(&file, &second).unwrap();
    stage.model.push(Reply::say("seen"));
    let sent = skep_testkit::hive::Start::new(&locate::skep().unwrap(), stage.home())
        .argument("send")
        .argument("main")
        .argument("look")
        .argument("--wait")
        .argument("--session")
        .argument("terminal")
        .argument("--attach")
        .argument(file.as_os_str());
    let finished = sent.finish().await.unwrap();
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "seen"), "{finished:?}");
    assert_eq!(stage.model.requests()[2].images(), [image(&second)]);
    let rows = play.history("main", "terminal").await;
    assert_eq!(rows[0]["content"][0]["name"], "term.png");
}
