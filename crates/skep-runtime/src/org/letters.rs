//! `send_message`, `recv`: what agents write to each other and to the operator.

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::ids::{AgentName, ItemId};
use skep_core::provider::ToolSpec;
use skep_core::tool::ToolAnswer;
use skep_guard::{clock, random};
use skep_store::letters::{SendLetter, Sent, SentLetter};
use skep_store::receive::{ReadLetter, Receive, Received};

use super::arguments::{number, spec, text};
use super::tool::{OrgCall, answered, failed, refused};

/// Messages that one call reads.
const USUAL: i64 = 16;
const MOST: i64 = 32;
const LONGEST_WAIT_SECONDS: i64 = 180;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendArguments {
    #[serde(alias = "target")]
    to: AgentName,
    #[serde(alias = "message")]
    body: String,
    in_reply_to: Option<ItemId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecvArguments {
    wait_seconds: Option<i64>,
    max: Option<i64>,
}

pub(super) fn send_spec() -> ToolSpec {
    spec(
        "send_message",
        "Writes to another agent, or to the operator, and goes on at once. Whoever it is for reads \
         it in a turn of its own; what it replies comes as a message in this conversation.",
        json!({
            "to": text("operator, the name of an agent that you may write to, or * for all."),
            "body": text("The message."),
            "in_reply_to": text("The message of this conversation that you reply to."),
        }),
        &["to", "body"],
    )
}

pub(super) fn recv_spec() -> ToolSpec {
    spec(
        "recv",
        "Reads the messages of other agents that wait in this conversation, oldest first.",
        json!({
            "wait_seconds": number("How long to wait where there is none, at most 180 (0)."),
            "max": number("At most so many, up to 32 (16)."),
        }),
        &[],
    )
}

pub(super) async fn send(call: OrgCall, arguments: SendArguments) -> ToolAnswer {
    let SendArguments { to, body, in_reply_to } = arguments;
    let body = match call.words(body) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let command = SendLetter {
        turn: call.context.turn.clone(),
        call: call.context.call.clone(),
        id: ItemId(random::uuid().to_string()),
        to,
        body,
        in_reply_to,
        recipients: call.recipients(),
        limits: call.chain_limits(),
        now: clock::now_ms(),
    };
    let sent = call.shared.store.write(command).await;
    call.shared.env().lanes.wake();
    match sent {
        Ok(Sent::Sent(letters)) => told(&letters),
        Ok(Sent::Refused { code, why }) => refused(code, &why),
        Err(error) => failed(&error),
    }
}

fn told(letters: &[SentLetter]) -> ToolAnswer {
    match letters {
        [one] => answered(&json!({
            "success": true, "message_id": one.id, "thread_id": one.thread, "to": one.to,
            "status": "queued",
        })),
        many => {
            let to: Vec<&str> = many.iter().map(|letter| letter.to.as_str()).collect();
            answered(&json!({ "success": true, "sent": to.len(), "to": to, "status": "queued" }))
        }
    }
}

pub(super) async fn recv(call: OrgCall, arguments: RecvArguments) -> ToolAnswer {
    let RecvArguments { wait_seconds, max } = arguments;
    let (wait, now) = (wait_seconds.unwrap_or(0).clamp(0, LONGEST_WAIT_SECONDS), clock::now_ms());
    let until = now.saturating_add(wait * 1000);
    // It has waited already.
    let over = call.context.decision.is_some();
    let command = Receive {
        turn: call.context.turn.clone(),
        call: call.context.call.clone(),
        most: max.unwrap_or(USUAL).clamp(1, MOST),
        until: (wait > 0 && !over).then_some(until),
        now,
    };
    match call.shared.store.write(command).await {
        Ok(Received::Letters { letters, left }) => {
            let rows: Vec<Value> = letters.iter().map(row).collect();
            answered(&json!({ "success": true, "messages": rows, "pending": left }))
        }
        Ok(Received::Waits) => {
            call.organisation.next_over.note(until);
            ToolAnswer::Wait { reason: "a message of another agent".to_owned() }
        }
        Err(error) => failed(&error),
    }
}

fn row(letter: &ReadLetter) -> Value {
    json!({
        "message_id": letter.id, "thread_id": letter.thread, "in_reply_to": letter.in_reply_to,
        "from": letter.from.as_ref().map_or("the operator", AgentName::as_str),
        "body": letter.body, "sent_at": letter.created_at,
    })
}
