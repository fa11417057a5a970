//! Good answers over the real wire.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::provider::ModelEvent;
use skep_core::provider::Provider;
use skep_core::settings::Timeouts;
use skep_model::{AnthropicProvider, AnthropicSettings};
use skep_testkit::model::{self, Ending, Reply, ScriptedModel, signature_of};

use crate::rows::{call, follow, joined, request, said, step, text, thinking, user};

pub const KEY: &str = "sk-test-0123456789";

pub fn provider_with(server: &ScriptedModel, timeouts: Timeouts) -> AnthropicProvider {
    AnthropicProvider::new(AnthropicSettings {
        base_url: format!("{}/", server.base_url()),
        key: SecretString::from(KEY),
        timeouts,
    })
    .unwrap()
}

pub async fn rig() -> (ScriptedModel, AnthropicProvider) {
    let server = ScriptedModel::start().await.unwrap();
    server.require_key(KEY);
    let provider = provider_with(&server, Timeouts::default());
    (server, provider)
}

fn full_answer() -> Reply {
    Reply::new()
        .thinking("I wonder… 🐝")
        .redacted_thinking("b64data")
        .ping()
        .text_in(["Grüße, ", "I look."])
        .tool_with_id("toolu_1", "read", json!({"file_path": "ä \"q\" \n"}))
        .tool_with_id("toolu_2", "read", json!({}))
        .usage(model::Usage {
            input_tokens: Some(11),
            output_tokens: Some(22),
            cache_creation_input_tokens: 33,
            cache_read_input_tokens: 44,
        })
}

fn full_events() -> Vec<ModelEvent> {
    vec![
        thinking("I wonder… 🐝"),
        ModelEvent::Signature(signature_of("I wonder… 🐝")),
        ModelEvent::RedactedThinking("b64data".to_owned()),
        text("Grüße, I look."),
        call("toolu_1", "read", json!({"file_path": "ä \"q\" \n"})),
        call("toolu_2", "read", json!({})),
        ModelEvent::End(Meta {
            provider: "anthropic".to_owned(),
            model: "claude-test".to_owned(),
            api: "anthropic-messages".to_owned(),
            usage: Usage::new(11, 22, 44, 33),
            stop_reason: StopReason::ToolUse,
        }),
    ]
}

#[tokio::test]
async fn a_full_answer_is_the_same_however_the_bytes_are_cut() {
    let (server, provider) = rig().await;
    for reply in [full_answer(), full_answer().chunked(1), full_answer().chunked(7)] {
        server.push(reply);
        let (events, failure) = follow(&provider, request(vec![user("one", "hi")])).await;
        assert_eq!(failure, None);
        assert_eq!(joined(events), full_events());
    }
    let asked = server.wait_for_request(1).await.unwrap();
    assert_eq!(asked.header("x-api-key"), Some(KEY));
    assert_eq!(asked.header("accept"), Some("text/event-stream"));
}

/// The server refuses what the real service refuses: forged or unsigned thinking, missing
/// results, too many breakpoints.
#[tokio::test]
async fn twenty_turns_with_tools_are_taken_and_each_request_begins_with_the_last() {
    let (server, provider) = rig().await;
    let mut rows = Vec::new();
    for turn in 0..20 {
        let name = format!("turn {turn}");
        rows.push(user(&name, &name));
        server.push(
            Reply::new()
                .thinking("hm")
                .tool("read", json!({"file_path": "a"}))
                .tool("read", json!({})),
        );
        server.push(Reply::say("done"));
        for _ in 0..2 {
            let mut request = request(rows.clone());
            request.thinking = Some(1024);
            let (events, failure) = follow(&provider, request).await;
            assert_eq!(failure, None);
            rows.extend(step(&name, &joined(events)));
        }
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies: Vec<String> =
        server.requests().iter().map(|request| without_marks(&request.body).to_string()).collect();
    assert_eq!(bodies.len(), 40);
    for pair in bodies.windows(2) {
        let before = pair[0].strip_suffix("]}").unwrap();
        assert!(pair[1].starts_with(before), "{}\n{}", pair[0], pair[1]);
    }
}

fn without_marks(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_marks).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "cache_control")
            .map(|(name, value)| (name.clone(), without_marks(value)))
            .collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn text_is_told_before_the_answer_is_complete() {
    let (server, provider) = rig().await;
    server.push(Reply::new().open_text().delta("first").gate("half").delta(" second").close());
    let mut stream = provider.call(Arc::new(request(vec![user("one", "hi")])));
    assert_eq!(stream.next().await, Some(Ok(text("first"))));
    server.gate("half").release();
    assert_eq!(stream.next().await, Some(Ok(text(" second"))));
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request_at_every_stage() {
    let (server, provider) = rig().await;
    let ask = || provider.call(Arc::new(request(vec![user("one", "hi")])));

    // Before the status line.
    server.push(Reply::silence());
    let mut stream = ask();
    tokio::select! {
        _ = stream.next() => panic!("an answer out of silence"),
        request = server.wait_for_request(1) => { request.unwrap(); }
    }
    drop(stream);
    assert_eq!(server.wait_for_end(1).await.unwrap(), Ending::HungUp);

    // In the middle of text.
    server.push(Reply::new().open_text().delta("a").then_silence());
    let mut stream = ask();
    assert_eq!(stream.next().await, Some(Ok(text("a"))));
    drop(stream);
    assert_eq!(server.wait_for_end(2).await.unwrap(), Ending::HungUp);
}

#[tokio::test]
async fn a_call_without_arguments_and_fifty_parallel_ones_are_whole() {
    let (server, provider) = rig().await;
    server.push(Reply::new().tool_in("read", []));
    let (events, _) = follow(&provider, request(vec![user("one", "hi")])).await;
    let said_events = said(events);
    let [ModelEvent::ToolCall { arguments, .. }] = said_events.as_slice() else { panic!() };
    assert_eq!(arguments, &json!({}));
    server.push(Reply::fifty_calls("read").chunked(13));
    let (events, _) = follow(&provider, request(vec![user("one", "hi")])).await;
    let indexes: Vec<Value> = said(events)
        .into_iter()
        .filter_map(|event| match event {
            ModelEvent::ToolCall { arguments, .. } => Some(arguments["index"].clone()),
            _ => None,
        })
        .collect();
    assert_eq!(indexes, (0..50).map(|index| json!(index)).collect::<Vec<_>>());
}

#[tokio::test]
async fn pings_keep_a_slow_answer_alive() {
    let server = ScriptedModel::start().await.unwrap();
    let idle = Duration::from_millis(1200);
    let provider = provider_with(&server, Timeouts { idle, ..Timeouts::default() });
    let slow = Duration::from_millis(300);
    let reply = (0..6).fold(Reply::new(), |reply, _| reply.delay(slow).ping());
    server.push(reply.text("late"));
    let (events, failure) = follow(&provider, request(vec![user("one", "hi")])).await;
    assert_eq!((said(events), failure), (vec![text("late")], None));
}

/// A new connection costs a handshake, so an answer read to its end gives its connection back.
#[tokio::test]
async fn one_connection_serves_one_call_after_the_other() {
    let (server, _) = rig().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = listener.local_addr().unwrap();
    let back = server.address();
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let relay = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let mut vendor = tokio::net::TcpStream::connect(back).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut vendor).await;
            });
        }
    });
    let provider = AnthropicProvider::new(AnthropicSettings {
        base_url: format!("http://{front}"),
        key: SecretString::from(KEY),
        timeouts: Timeouts::default(),
    })
    .unwrap();
    for _ in 0..5 {
        server.push(Reply::say("hi"));
        let (_, failure) = follow(&provider, request(vec![user("one", "hi")])).await;
        assert_eq!(failure, None);
    }
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    relay.abort();
}
