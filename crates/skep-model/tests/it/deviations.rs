//! What servers send that is not their wire: every row of the testkit's tables, over a real socket,
//! at once and in small pieces.

use std::time::Duration;

use skep_core::message::{Meta, StopReason};
use skep_core::provider::{ModelError, ModelEvent};
use skep_testkit::deviations;
use skep_testkit::model::{Reply, Wire};

use crate::rows::{Outcome, follow, joined, request, user};
use crate::vendors::rig;

crate::on_every_wire!(every_row_has_its_outcome);

/// A prime: pieces of it end at every kind of place.
const PIECE: usize = 7;

async fn every_row_has_its_outcome(wire: Wire) {
    let rows = deviations::rows(wire);
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let (server, provider) = rig(wire).await;
    let mut wrong = Vec::new();
    for row in &rows {
        for reply in [row.reply(), row.reply().chunked(PIECE)] {
            server.push(reply);
            let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
            let told = written(outcome);
            if told != row.outcome {
                wrong.push(format!("{}\n  expected {}\n  got      {told}", row.name, row.outcome));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// An outcome in the notation of the tables.
fn written(outcome: Outcome) -> String {
    let (events, failure) = outcome;
    // A call of an answer that did not end is none: the engine lets it go.
    let over = failure.is_some();
    let events = joined(events).into_iter();
    let events = events.filter(|event| !(over && matches!(event, ModelEvent::ToolCall { .. })));
    let failure = failure.map(|error| match error {
        ModelError::Passing { .. } => "passing",
        ModelError::Auth { .. } => "auth",
        ModelError::NotFound { .. } | ModelError::Rejected { .. } => "rejected",
        ModelError::ContextTooLong { .. } => "too long",
    });
    let parts = events.map(part).chain(failure.map(str::to_owned));
    parts.collect::<Vec<_>>().join(" · ")
}

fn part(event: ModelEvent) -> String {
    match event {
        ModelEvent::Text(text) => format!("text {text}"),
        ModelEvent::Thinking(text) => format!("think {text}"),
        ModelEvent::Signature(text) => format!("sign {text}"),
        ModelEvent::RedactedThinking(data) => format!("sealed {data}"),
        ModelEvent::ToolCall { id, name, arguments } => match arguments.as_str() {
            Some(text) => format!("bad {name} {id} {text}"),
            None => format!("call {name} {id} {arguments}"),
        },
        ModelEvent::End(Meta { stop_reason, usage, .. }) => {
            let reason = match stop_reason {
                StopReason::EndTurn => "end_turn",
                StopReason::ToolUse => "tool_use",
                StopReason::MaxTokens => "max_tokens",
                StopReason::Refusal => "refusal",
                _ => "other",
            };
            match usage.input + usage.output {
                0 => format!("end {reason}"),
                _ => format!("end {reason} {}+{}", usage.input, usage.output),
            }
        }
    }
}

/// A server that keeps the connection after the reason and sends only pings is not waited for.
#[tokio::test]
async fn an_answer_that_lacks_only_its_last_word_ends() {
    for (wire, name) in [(Wire::Anthropic, "no message_stop"), (Wire::OpenAiChat, "no [DONE]")] {
        let row = deviations::find(wire, name);
        let (server, provider) = rig(wire).await;
        let pings = (0..400).fold(row.reply(), |reply, _| {
            let ping = &b"event: ping\ndata: {\"type\":\"ping\"}\n\n"[..];
            reply.delay(Duration::from_millis(100)).raw(ping)
        });
        server.push(pings);
        let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
        assert_eq!(written(outcome), row.outcome, "{name}");
    }
}

/// The wish for counts is left out where it is refused: at once, and from then on.
#[tokio::test]
async fn refused_stream_options_are_left_out_and_remembered() {
    let (server, provider) = rig(Wire::OpenAiChat).await;
    let ask = async || {
        let outcome = follow(provider.as_ref(), request(vec![user("one", "hi")])).await;
        written(outcome)
    };
    server.push(Reply::bad_request("Unrecognized request argument supplied: stream_options"));
    server.push(Reply::say("yes"));
    assert_eq!(ask().await, "text yes · end end_turn");
    server.push(Reply::say("yes"));
    assert_eq!(ask().await, "text yes · end end_turn");
    let asked =
        |request: &skep_testkit::model::ModelRequest| request.body.get("stream_options").is_some();
    let sent: Vec<bool> = server.requests().iter().map(asked).collect();
    assert_eq!(sent, [true, false, false]);
}
