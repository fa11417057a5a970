//! What goes through, and what does not.

use serde_json::{Value, json};
use skep_core::engine::Settlement;
use skep_core::message::{StopReason, Usage};
use skep_core::relay::RelayWire;
use skep_testkit::{Reply, ScriptedModel, model};

use crate::scene::{KEY, MODEL, Scene, WIRES, body, path};
use crate::vendor::RawVendor;

fn used() -> model::Usage {
    model::Usage {
        input_tokens: Some(11),
        output_tokens: Some(22),
        cache_creation_input_tokens: 33,
        cache_read_input_tokens: 44,
    }
}

/// As our events tell the same.
fn counted() -> Usage {
    Usage::new(11, 22, 44, 33)
}

#[tokio::test]
async fn a_stream_goes_through_and_is_counted() {
    for wire in WIRES {
        let model = ScriptedModel::start().await.unwrap();
        model.require_key(KEY);
        let scene = Scene::new(wire, &model.base_url());
        let mut open = scene.open();
        model.push(Reply::say("Grüße, I look.").usage(used()).chunked(7));
        let sent = body(wire).to_string();
        let answer = scene.ask(&sent).await;
        assert_eq!((answer.status, answer.whole), (200, true), "{}", answer.text());
        assert!(answer.text().contains("Grüße, I look."));
        let asked = &model.requests()[0];
        assert_eq!(asked.raw, sent.as_bytes());
        assert!(!format!("{:?}", asked.headers).contains(&scene.lease.bearer));
        let used = open.used.recv().await.unwrap();
        assert!(answer.text().contains(&used.message.unwrap()), "the vendor's id");
        assert_eq!(used.meta.usage, counted());
        assert_eq!(used.meta.stop_reason, StopReason::EndTurn);
        assert_eq!((used.meta.model.as_str(), used.meta.profile.as_deref()), (MODEL, Some("main")));
        assert_eq!(scene.books(), [Settlement::Answered(counted())]);
        // The budget counts what is said, and no less.
        let request = scene.asked.lock().unwrap()[0].clone();
        assert!(request.system.shared.contains("Grüße"), "{:?}", request.system);
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_is_counted_too() {
    for wire in WIRES {
        let model = ScriptedModel::start().await.unwrap();
        let scene = Scene::new(wire, &model.base_url());
        let mut open = scene.open();
        model.push(Reply::call("Bash", json!({ "command": "ls" })).usage(used()));
        let mut sent = body(wire);
        sent["stream"] = json!(false);
        let answer = scene.ask(&sent.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let used = open.used.recv().await.unwrap();
        assert_eq!(json!(used.message), answer.json()["id"]);
        assert_eq!(used.meta.usage, counted());
        assert_eq!(used.meta.stop_reason, StopReason::ToolUse);
    }
}

/// Byte for byte, both ways: bodies whose spelling nobody would choose twice.
#[tokio::test]
async fn no_byte_of_either_body_is_changed() {
    let sent = format!(
        "{{ \"max_tokens\":64,\n\t\"model\" : \"{MODEL}\", \"messages\":[{{\"content\":\"\\u00fc\\/\
         \",\"role\":\"user\"}}],\"metadata\":{{\"n\":1.50e+2}} }}\n"
    );
    let answered = b"event: odd\r\ndata: {\"type\" : \"ping\"}\r\n\r\n: \xf0\x9f\x90\x9d\n\ndata:x";
    let headers = "Content-Type: text/event-stream\r\nrequest-id: req_1\r\nSet-Cookie: a=b\r\n";
    let vendor = RawVendor::answering("200 Fine", headers, answered).await;
    let scene = Scene::new(RelayWire::Anthropic, &vendor.url);
    let _open = scene.open();
    let head = scene.head(sent.len()).replace("/v1/messages", "/v1/messages?beta=true");
    let head = head.replace("\r\n\r\n", "\r\nX-Api-Key: BEARER\r\nUser-Agent: p/1\r\n\r\n");
    let head = head.replace("BEARER", &scene.lease.bearer);
    let answer = scene.say(format!("{head}{sent}").as_bytes()).await;
    assert_eq!((answer.status, &answer.body[..]), (200, &answered[..]));
    assert_eq!(answer.header("request-id").as_deref(), Some("req_1"));
    assert_eq!(answer.header("set-cookie"), None);
    let (head, body) = vendor.heard().remove(0);
    assert_eq!(body, sent.as_bytes());
    let mut lines: Vec<&str> = head.trim_end().split("\r\n").collect();
    lines[1..].sort_unstable();
    let host = format!("host: {}", vendor.url.strip_prefix("http://").unwrap());
    let key = format!("x-api-key: {KEY}");
    let length = format!("content-length: {}", sent.len());
    let expected = [
        "POST /v1/messages?beta=true HTTP/1.1",
        "anthropic-version: 2023-06-01",
        &length,
        "content-type: application/json",
        &host,
        "user-agent: p/1",
        &key,
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn errors_of_the_vendor_go_through_as_they_are() {
    let body = br#"{"type":"error","error":{"type":"x","message":"odd  spelling"}}"#;
    for (status, headers) in [
        ("429 Too Many Requests", "retry-after: 7\r\nanthropic-ratelimit-reset: soon\r\n"),
        ("500 Internal Server Error", ""),
        ("529 Site Overloaded", ""),
        ("401 Unauthorized", "www-authenticate: x\r\n"),
        ("400 Bad Request", ""),
        ("302 Found", "location: http://other.test/\r\n"),
    ] {
        for wire in WIRES {
            let vendor = RawVendor::answering(status, headers, body).await;
            let scene = Scene::new(wire, &vendor.url);
            let mut open = scene.open();
            let answer = scene.ask(&crate::scene::body(wire).to_string()).await;
            assert_eq!(answer.status.to_string(), status[..3]);
            assert_eq!(answer.body, body);
            for line in headers.lines() {
                let (name, value) = line.split_once(": ").unwrap();
                assert_eq!(answer.header(name).as_deref(), Some(value));
            }
            assert_eq!(scene.books(), [Settlement::Refused]);
            assert!(open.used.try_recv().is_err());
        }
    }
}

#[tokio::test]
async fn tokens_are_counted_by_the_vendor_for_nothing() {
    let vendor = RawVendor::answering("200 OK", "", br#"{"input_tokens":12}"#).await;
    let scene = Scene::new(RelayWire::Anthropic, &vendor.url);
    let _open = scene.open();
    let sent = json!({ "model": MODEL, "messages": [] }).to_string();
    let head = scene.head(sent.len()).replace("/v1/messages", "/v1/messages/count_tokens");
    let answer = scene.say(format!("{head}{sent}").as_bytes()).await;
    assert_eq!(answer.json(), json!({ "input_tokens": 12 }));
    assert!(vendor.heard()[0].0.starts_with("POST /v1/messages/count_tokens HTTP/1.1\r\n"));
    assert_eq!(scene.books(), [Settlement::Refused]);
}

#[tokio::test]
async fn only_the_process_of_an_open_turn_is_answered() {
    for wire in WIRES {
        let model = ScriptedModel::start().await.unwrap();
        let scene = Scene::new(wire, &model.base_url());
        let sent = body(wire).to_string();
        let right = format!("{}{sent}", scene.head(sent.len()));
        let bearer = &scene.lease.bearer;
        let code = async |request: &str| {
            let answer = scene.say(request.as_bytes()).await;
            let error = answer.json()["error"].clone();
            let message = error["message"].as_str().unwrap().to_owned();
            assert!(message.starts_with("Skep: "), "{message}");
            let kind = error["type"].as_str().unwrap().to_owned();
            (answer.status, kind, message.rsplit_once('[').unwrap().1.to_owned())
        };
        let answered =
            |status: u16, kind: &str, code: &str| (status, kind.to_owned(), format!("{code}]"));
        let closed = answered(403, "permission_error", "relay_closed");
        assert_eq!(code(&right).await, closed);
        let open = scene.open();
        let wrong = answered(401, "authentication_error", "relay_bearer");
        let none = right.replace(&format!("Authorization: Bearer {bearer}\r\n"), "");
        for request in [
            none.clone(),
            right.replace(bearer, &bearer[..63]),
            right.replace(bearer, &format!("{bearer}0")),
            right.replace(bearer, &bearer.to_uppercase().replace('A', "B").replace('1', "2")),
            right.replace("Authorization: Bearer", "Authorization: Basic"),
            right.replace("Host:", "x-api-key: other\r\nHost:"),
            right.replace("Host:", "Authorization: Bearer other\r\nHost:"),
            none.replace("Host:", "x-api-key:\r\nHost:"),
        ] {
            assert_eq!(code(&request).await, wrong, "{request}");
        }
        let missing = answered(404, "not_found_error", "relay_path");
        let other = path(WIRES[usize::from(wire == WIRES[0])]);
        for to in [other, "/", "/v1/models", "/v1/chat/completions", "/v1/messages/batches"] {
            assert_eq!(code(&right.replace(path(wire), to)).await, missing, "{to}");
        }
        for to in ["?beta=false", "?a=b", "/", "/../responses", "%2f"] {
            let to = format!("{}{to} HTTP", path(wire));
            let request = right.replace(&format!("{} HTTP", path(wire)), &to);
            assert_eq!(code(&request).await, missing, "{to}");
        }
        assert_eq!(code(&right.replace("POST", "GET")).await, missing);
        assert_eq!(model.asked(), 0);
        model.push(Reply::say("fine"));
        let by_key = none.replace("Host:", &format!("X-API-Key: {bearer}\r\nHost:"));
        assert_eq!(scene.say(by_key.as_bytes()).await.status, 200);
        drop(open);
        assert_eq!(code(&right).await, closed);
        assert_eq!(model.asked(), 1);
    }
}

#[tokio::test]
async fn what_is_not_the_agents_is_refused_before_the_vendor() {
    for wire in WIRES {
        let model = ScriptedModel::start().await.unwrap();
        let scene = Scene::new(wire, &model.base_url());
        let open = scene.open();
        let with = |name: &str, value: Value| {
            let mut body = body(wire);
            body[name] = value;
            body.to_string()
        };
        let sent = body(wire).to_string();
        let twice = sent.replacen('{', &format!("{{\"model\":\"{MODEL}\","), 1);
        let table = [
            (with("model", json!("dearer")), "relay_model"),
            (with("tools", json!([{ "type": "web_search_1", "name": "Bash" }])), "relay_tool"),
            (with("mcp_servers", json!([])), "relay_field"),
            (twice, "relay_body"),
            (String::new(), "relay_body"),
        ];
        for (sent, code) in table {
            let answer = scene.ask(&sent).await;
            assert_eq!(answer.status, 400);
            let message = answer.json()["error"]["message"].clone();
            assert!(message.as_str().unwrap().ends_with(&format!(" [{code}]")), "{message}");
        }
        drop(open);
        let _open = scene.open_over_budget();
        let answer = scene.ask(&sent).await;
        let message = answer.json()["error"]["message"].clone();
        let over = "Skep: the day's limit of 1.00 USD is reached [limit_cost]";
        assert_eq!((answer.status, message), (400, json!(over)));
        assert_eq!((model.asked(), scene.books().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_vendor_that_is_not_there_is_told_as_one() {
    for wire in WIRES {
        let scene = Scene::new(wire, "http://127.0.0.1:1");
        let _open = scene.open();
        let answer = scene.ask(&body(wire).to_string()).await;
        assert_eq!(answer.status, 502);
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("cannot be reached"), "{message}");
        assert_eq!(scene.books(), [Settlement::Refused]);
    }
}

/// A vendor that repeats what it was sent, in a header, and in a body that is cut anywhere.
#[tokio::test]
async fn the_key_does_not_come_back() {
    for at in [3, 20] {
        let (one, two) = KEY.split_at(at);
        let (first, second) = (format!("you are {one}"), format!("{two} indeed"));
        let answer = format!(
            "HTTP/1.1 400 Bad\r\nX-You: {KEY}\r\nX-Fine: 1\r\nTransfer-Encoding: chunked\r\n\r\n\
             {:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
            first.len(),
            second.len()
        );
        let vendor = RawVendor::new(answer).await;
        let scene = Scene::new(RelayWire::Anthropic, &vendor.url);
        let _open = scene.open();
        let answer = scene.ask(&body(RelayWire::Anthropic).to_string()).await;
        assert_eq!((answer.header("x-you"), answer.header("x-fine").is_some()), (None, true));
        assert!(!answer.whole && !answer.text().contains(two), "{answer:?}");
        assert!(vendor.heard()[0].0.contains(KEY));
    }
}

#[tokio::test]
async fn requests_side_by_side_are_counted_apart() {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|request| Reply::say(&format!("{:?}", request.body["messages"])));
    let scene = Scene::new(RelayWire::Anthropic, &model.base_url());
    let mut open = scene.open();
    let asked = (0..24).map(|number| {
        let mut sent = body(RelayWire::Anthropic);
        sent["messages"][0]["content"] = json!(format!("number {number}"));
        let (scene, sent) = (&scene, sent.to_string());
        async move {
            let answer = scene.ask(&sent).await;
            assert!(answer.text().contains(&format!("number {number}")), "{}", answer.text());
        }
    });
    futures_util::future::join_all(asked).await;
    let mut ids: Vec<String> = Vec::new();
    while let Ok(used) = open.used.try_recv() {
        ids.extend(used.message);
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), scene.books().len()), (24, 24));
}
