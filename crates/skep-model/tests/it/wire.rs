//! Good answers over the real wires.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use skep_core::file::File;
use skep_core::message::{Block, Meta, StopReason, Usage};
use skep_core::provider::{ModelEvent, ModelRequest};
use skep_core::settings::Timeouts;
use skep_testkit::model::{self, Ending, Reply, ScriptedModel, Wire, signature_of};

use crate::rows::{call, follow, joined, request, said, step, text, thinking, user, with_files};
use crate::vendors::{KEY, carried, names, provider_at, provider_with, rig, unwrapped};

crate::on_every_wire!(
    a_full_answer_is_the_same_however_the_bytes_are_cut,
    twenty_turns_with_tools_are_taken_and_each_request_begins_with_the_last,
    text_is_told_before_the_answer_is_complete,
    dropping_the_stream_ends_the_request_at_every_stage,
    a_call_without_arguments_and_fifty_parallel_ones_are_whole,
    every_stop_has_its_reason,
    pings_keep_a_slow_answer_alive,
    one_connection_serves_one_call_after_the_other,
    pictures_arrive_whole_in_messages_and_results,
);

/// A request to a model that thinks.
fn pondering(messages: Vec<Arc<skep_core::message::Message>>) -> ModelRequest {
    ModelRequest { thinking: Some(1024), ..request(messages) }
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

fn full_events(wire: Wire) -> Vec<ModelEvent> {
    let (provider, api) = names(wire);
    let events = vec![
        thinking("I wonder… 🐝"),
        ModelEvent::Signature(signature_of("I wonder… 🐝")),
        ModelEvent::RedactedThinking("b64data".to_owned()),
        text("Grüße, I look."),
        call("toolu_1", "read", json!({"file_path": "ä \"q\" \n"})),
        call("toolu_2", "read", json!({})),
        ModelEvent::End(Meta {
            profile: None,
            provider: provider.to_owned(),
            model: "test-model".to_owned(),
            api: api.to_owned(),
            usage: Usage::new(11, 22, 44, 33),
            stop_reason: StopReason::ToolUse,
        }),
    ];
    carried(wire, events)
}

async fn a_full_answer_is_the_same_however_the_bytes_are_cut(wire: Wire) {
    let (server, provider) = rig(wire).await;
    for reply in [full_answer(), full_answer().chunked(1), full_answer().chunked(7)] {
        server.push(reply);
        let (events, failure) = follow(provider.as_ref(), pondering(vec![user("one", "hi")])).await;
        assert_eq!(failure, None);
        assert_eq!(unwrapped(wire, joined(events)), full_events(wire));
    }
    let asked = server.wait_for_request(1).await.unwrap();
    assert_eq!(asked.wire, wire);
    assert_eq!(asked.key(), Some(KEY));
    assert_eq!(asked.header("x-extra"), Some("more"));
    assert_eq!(asked.header("accept"), Some("text/event-stream"));
}

/// The server refuses what the real service refuses: forged or unsigned thinking, missing
/// results, too many breakpoints.
async fn twenty_turns_with_tools_are_taken_and_each_request_begins_with_the_last(wire: Wire) {
    let (server, provider) = rig(wire).await;
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
            let (events, failure) = follow(provider.as_ref(), pondering(rows.clone())).await;
            assert_eq!(failure, None);
            rows.extend(step(&name, &joined(events)));
        }
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies: Vec<String> =
        server.requests().iter().map(|request| without_marks(&request.body).to_string()).collect();
    assert_eq!(bodies.len(), 40);
    // The proof goes back word for word, wherever there is one.
    let proofs = bodies[39].matches(&signature_of("hm")).count();
    assert_eq!(proofs, if wire == Wire::OpenAiChat { 0 } else { 20 });
    assert!(!bodies[39].contains("reasoning_content"));
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

async fn text_is_told_before_the_answer_is_complete(wire: Wire) {
    let (server, provider) = rig(wire).await;
    server.push(Reply::new().open_text().delta("first").gate("half").delta(" second").close());
    let mut stream = provider.call(Arc::new(request(vec![user("one", "hi")])));
    assert_eq!(stream.next().await, Some(Ok(text("first"))));
    server.gate("half").release();
    assert_eq!(stream.next().await, Some(Ok(text(" second"))));
}

async fn dropping_the_stream_ends_the_request_at_every_stage(wire: Wire) {
    let (server, provider) = rig(wire).await;
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

async fn a_call_without_arguments_and_fifty_parallel_ones_are_whole(wire: Wire) {
    let (server, provider) = rig(wire).await;
    server.push(Reply::new().tool_in("read", []));
    let (events, _) = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
    let said_events = said(events);
    let [ModelEvent::ToolCall { arguments, .. }] = said_events.as_slice() else { panic!() };
    assert_eq!(arguments, &json!({}));
    server.push(Reply::fifty_calls("read").chunked(13));
    let (events, _) = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
    let indexes: Vec<Value> = said(events)
        .into_iter()
        .filter_map(|event| match event {
            ModelEvent::ToolCall { arguments, .. } => Some(arguments["index"].clone()),
            _ => None,
        })
        .collect();
    assert_eq!(indexes, (0..50).map(|index| json!(index)).collect::<Vec<_>>());
}

async fn pings_keep_a_slow_answer_alive(wire: Wire) {
    let server = ScriptedModel::start().await.unwrap();
    let idle = Duration::from_secs(4);
    let provider = provider_with(wire, &server, Timeouts { idle, ..Timeouts::default() });
    let slow = Duration::from_millis(500);
    let reply = (0..10).fold(Reply::new(), |reply, _| reply.delay(slow).ping());
    server.push(reply.text("late"));
    let (events, failure) = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
    assert_eq!((said(events), failure), (vec![text("late")], None));
}

async fn every_stop_has_its_reason(wire: Wire) {
    let (server, provider) = rig(wire).await;
    let table = [
        (Reply::say("a"), StopReason::EndTurn),
        (Reply::call("read", json!({})), StopReason::ToolUse),
        (Reply::say("a").stop_reason("max_tokens"), StopReason::MaxTokens),
        (Reply::say("a").stop_reason("refusal"), StopReason::Refusal),
    ];
    for (reply, expected) in table {
        server.push(reply);
        let (events, failure) = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
        let Some(ModelEvent::End(meta)) = events.last() else { panic!("{failure:?}") };
        assert_eq!(meta.stop_reason, expected);
    }
}

/// A new connection costs a handshake, so an answer read to its end gives its connection back.
async fn one_connection_serves_one_call_after_the_other(wire: Wire) {
    let (server, _) = rig(wire).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = listener.local_addr().unwrap();
    let back = server.address();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let relay = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut vendor = tokio::net::TcpStream::connect(back).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut vendor).await;
            });
        }
    });
    let provider = provider_at(wire, &format!("http://{front}"), Timeouts::default());
    for _ in 0..5 {
        server.push(Reply::say("hi"));
        let (_, failure) = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
        assert_eq!(failure, None);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    relay.abort();
}

/// In what a person sent and in what a tool answered; the server refuses what the real service
/// refuses, and what it saw is what was sent.
async fn pictures_arrive_whole_in_messages_and_results(wire: Wire) {
    let (server, provider) = rig(wire).await;
    let png = [&b"\x89PNG\r\n\x1a\n"[..], &[7; 5000]].concat();
    let gif = b"GIF89a tiny".to_vec();
    let mut rows = vec![with_files("one", "what is it?", &[("bee.png", "image/png", &png)])];
    server.push(Reply::new().tool("read", json!({"file_path": "b.gif"})).tool("read", json!({})));
    server.push(Reply::say("a bee"));
    for round in 0..2 {
        let (events, failure) = follow(provider.as_ref(), request(rows.clone())).await;
        assert_eq!(failure, None, "round {round}: {:?}", server.refusals());
        let mut new = step("one", &joined(events));
        if round == 0 {
            let result = Arc::make_mut(&mut new[1]);
            let file = File::new("b.gif", "image/gif", gif.clone());
            result.body.content.push(Block::File(file));
        }
        rows.extend(new);
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let image = |mime: &str, bytes: &[u8]| model::Image { mime: mime.into(), bytes: bytes.into() };
    let requests = server.requests();
    assert_eq!(requests[0].images(), [image("image/png", &png)]);
    let both = [image("image/png", &png), image("image/gif", &gif)];
    assert_eq!(requests[1].images(), both);
    let texts = requests.iter().map(|request| without_marks(&request.body).to_string());
    let texts: Vec<String> = texts.collect();
    assert!(texts[1].starts_with(texts[0].strip_suffix("]}").unwrap()));

    let blind = ModelRequest { sees_images: false, ..request(rows[..1].to_vec()) };
    server.push(Reply::say("what bee?"));
    assert_eq!(follow(provider.as_ref(), blind).await.1, None);
    let last = server.requests().pop().unwrap();
    assert_eq!(last.images(), []);
    assert!(last.last_user_text().contains("bee.png, image/png, 5008 bytes"), "{last:?}");
}
