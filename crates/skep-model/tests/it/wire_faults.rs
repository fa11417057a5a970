//! Everything that can go wrong on the wire, and the kind of error each becomes.

use std::time::{Duration, Instant};

use serde_json::json;
use skep_core::engine::RetryCode;
use skep_core::provider::{ModelError, ModelEvent};
use skep_core::settings::Timeouts;
use skep_testkit::model::{Reply, ScriptedModel, Wire};

use crate::rows::{Outcome, follow, request, text, user};
use crate::vendors::{KEY, provider_with, rig};

crate::on_every_wire!(
    every_fault_has_its_kind_and_gives_no_call,
    calls_without_end_are_refused,
    a_cut_anywhere_is_never_taken_for_an_end,
    a_pause_the_vendor_asks_for_is_passed_on,
    what_came_before_an_error_event_is_told,
    silence_and_trickle_end_by_the_clock,
    bytes_that_complete_no_event_do_not_keep_a_call_alive,
    a_vendor_that_is_not_there_is_passing,
    of_what_a_vendor_says_only_its_own_words_are_searched_for_the_key,
);

async fn outcome_of(wire: Wire, reply: Reply) -> Outcome {
    let (server, provider) = rig(wire).await;
    server.push(reply);
    let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
    assert_eq!(server.requests().len(), 1, "one call is one try");
    outcome
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome.1 {
        None => "none",
        Some(ModelError::Passing { .. }) => "passing",
        Some(ModelError::Auth { .. }) => "auth",
        Some(ModelError::NotFound { .. }) => "not_found",
        Some(ModelError::Rejected { .. }) => "rejected",
        Some(ModelError::ContextTooLong { .. }) => "context_too_long",
    }
}

fn has_call(outcome: &Outcome) -> bool {
    outcome.0.iter().any(|event| matches!(event, ModelEvent::ToolCall { .. }))
}

async fn calls_without_end_are_refused(wire: Wire) {
    let calls = |count| (0..count).fold(Reply::new(), |reply, _| reply.tool("read", json!({})));
    // More than one answer may run: that is for the turn to say.
    assert_eq!(kind(&outcome_of(wire, calls(1100)).await), "none");
    let text = Reply::new().text_in(vec!["x".repeat(1 << 20).as_str(); 17]);
    for (reply, what) in
        [(text, "is longer than 16777216 bytes"), (calls(4097), "holds more than 4096 tool calls")]
    {
        let outcome = outcome_of(wire, reply).await;
        assert_eq!(kind(&outcome), "rejected", "{what}");
        let told = outcome.1.unwrap().to_string();
        assert_eq!(told, format!("the model's answer has no end: it {what}"));
    }
}

async fn every_fault_has_its_kind_and_gives_no_call(wire: Wire) {
    let arguments = json!({"file_path": "a"});
    let table = [
        ("429", Reply::rate_limited(Some("7")), "passing"),
        ("500", Reply::server_error(), "passing"),
        ("529", Reply::overloaded(), "passing"),
        ("401", Reply::unauthorized(), "auth"),
        ("403", Reply::forbidden(), "auth"),
        ("400", Reply::bad_request("max_tokens: too many"), "rejected"),
        ("404", Reply::not_found(), "not_found"),
        ("413", Reply::too_large(), "context_too_long"),
        ("too long", Reply::context_too_long(), "context_too_long"),
        ("html", Reply::html(200), "passing"),
        ("html 502", Reply::html(502), "passing"),
        ("html 404", Reply::html(404), "not_found"),
        ("json", Reply::fixed(200, "application/json", "{}"), "passing"),
        ("redirect", Reply::fixed(302, "text/plain", ""), "not_found"),
        ("empty", Reply::empty(), "passing"),
        ("garbage", Reply::garbage(), "passing"),
        ("not UTF-8", Reply::new().raw(&b"data: \xff\xfe\n\n"[..]), "passing"),
        ("cut in text", Reply::new().open_text().delta("a").cut(), "passing"),
        ("cut before the end", Reply::new().text("a").cut(), "passing"),
        ("cut in arguments", Reply::new().open_tool("read").delta("{\"file").cut(), "passing"),
        ("overloaded inside", Reply::new().error_event("overloaded_error", "x"), "passing"),
        ("key inside", Reply::new().error_event("authentication_error", "x"), "auth"),
        (
            "limit in arguments",
            Reply::new().tool_in("read", ["{\"file"]).stop_reason("max_tokens"),
            "none",
        ),
        ("endless event", Reply::new().raw(vec![b'x'; 5 << 20]), "passing"),
        ("endless text", Reply::new().text_in(vec!["x".repeat(1 << 20).as_str(); 17]), "rejected"),
    ];
    for (name, reply, expected) in table {
        let outcome = outcome_of(wire, reply).await;
        assert_eq!(kind(&outcome), expected, "{name}: {outcome:?}");
        assert!(!has_call(&outcome), "{name}");
        let told = outcome.1.map(|error| error.to_string()).unwrap_or_default();
        assert!(!told.contains(KEY) && !told.contains("127.0.0.1"), "{name}: {told}");
    }
    // A call before the cut is told, but without an end: the engine does not run it.
    let outcome = outcome_of(wire, Reply::new().tool("read", arguments).cut()).await;
    assert_eq!(kind(&outcome), "passing");
}

async fn a_cut_anywhere_is_never_taken_for_an_end(wire: Wire) {
    let answer = || Reply::new().text("ä").tool("read", json!({"file_path": "a"}));
    let (server, provider) = rig(wire).await;
    let mut ended_at = None;
    // The whole answer has 1500 to 5000 bytes; a prime step meets every kind of place.
    for bytes in (0..10_000).step_by(37) {
        if ended_at.is_some() {
            break;
        }
        server.push(answer().cut_after(bytes));
        let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
        match kind(&outcome) {
            "passing" => {}
            // Only past its last byte is the answer whole.
            "none" => ended_at = Some(bytes),
            other => panic!("{other:?} at {bytes}"),
        }
    }
    assert!(ended_at.is_some());
}

async fn a_pause_the_vendor_asks_for_is_passed_on(wire: Wire) {
    let outcome = outcome_of(wire, Reply::rate_limited(Some("7"))).await;
    let expected = ModelError::Passing {
        code: RetryCode::RateLimited,
        text: "the model vendor limits the rate of requests (429): This request would exceed your \
               organization's rate limit"
            .to_owned(),
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(outcome.1, Some(expected));
}

async fn what_came_before_an_error_event_is_told(wire: Wire) {
    let reply = Reply::new().text("half").error_event("overloaded_error", "x");
    let outcome = outcome_of(wire, reply).await;
    assert_eq!((outcome.0.as_slice(), kind(&outcome)), (&[text("half")][..], "passing"));
}

async fn silence_and_trickle_end_by_the_clock(wire: Wire) {
    let short = Duration::from_millis(200);
    let long = Duration::from_secs(600);
    let first = Timeouts { first: short, idle: long, connect: long };
    let idle = Timeouts { first: long, idle: short, connect: long };
    let trickle = Duration::from_millis(20);
    let table = [
        ("no status line", Reply::silence(), first),
        ("no first event", Reply::new().trickle(trickle), first),
        ("silence after text", Reply::new().text("a").then_silence(), idle),
        ("silence after a ping", Reply::new().ping().then_silence(), idle),
    ];
    for (name, reply, timeouts) in table {
        let server = ScriptedModel::start().await.unwrap();
        let provider = provider_with(wire, &server, timeouts);
        server.push(reply);
        let begun = Instant::now();
        let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
        assert_eq!(kind(&outcome), "passing", "{name}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}: {:?}", begun.elapsed());
        let told = outcome.1.map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(told, "the model vendor stays silent", "{name}");
    }
}

async fn bytes_that_complete_no_event_do_not_keep_a_call_alive(wire: Wire) {
    let server = ScriptedModel::start().await.unwrap();
    let idle = Duration::from_millis(300);
    let provider = provider_with(wire, &server, Timeouts { idle, ..Timeouts::default() });
    // Comments every 50 ms, which are bytes but no events.
    let drip = (0..400).fold(Reply::new().open_text().delta("a"), |reply, _| {
        reply.delay(Duration::from_millis(50)).raw(&b": still here\n"[..])
    });
    server.push(drip);
    let begun = Instant::now();
    let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
    assert_eq!(kind(&outcome), "passing");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

async fn a_vendor_that_is_not_there_is_passing(wire: Wire) {
    let server = ScriptedModel::start().await.unwrap();
    let provider = provider_with(wire, &server, Timeouts::default());
    drop(server);
    let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
    // Between the drop and the close of the port the connection may also break.
    assert_eq!(kind(&outcome), "passing");
}

/// Whoever wrote a part of the key knows it; who has it shown by the vendor does not.
async fn of_what_a_vendor_says_only_its_own_words_are_searched_for_the_key(wire: Wire) {
    let part = &KEY[..KEY.len() - 3];
    let quoted = format!("Invalid value: '{part}'");
    for (message, shown) in [(part, quoted.as_str()), ("hi", "Invalid value: [key]")] {
        let replies = [
            Reply::bad_request(&quoted),
            Reply::new().text("a").error_event("invalid_request_error", &quoted),
        ];
        for reply in replies {
            let (server, provider) = rig(wire).await;
            server.push(reply);
            let outcome = follow(provider.as_ref(), request(vec![user("one", message)])).await;
            let told = outcome.1.unwrap().to_string();
            assert!(told.ends_with(&format!(": {shown}")), "{message}: {told}");
        }
    }
}
