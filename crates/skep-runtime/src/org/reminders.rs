//! `remind`, `request_next_turn`: what an agent says to itself.

use serde::Deserialize;
use serde_json::json;
use skep_core::ids::ItemId;
use skep_core::provider::ToolSpec;
use skep_core::tool::ToolAnswer;
use skep_core::{Millis, time};
use skep_guard::{clock, random};
use skep_store::reminders::{Remind, Reminded};

use super::arguments::{number, spec, text};
use super::tool::{OrgCall, answered, failed, refused};

/// A year.
const FARTHEST: Millis = 366 * 24 * 3600 * 1000;
const GO_ON: &str = "Go on.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemindArguments {
    message: String,
    delay_seconds: Option<i64>,
    at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextTurnArguments {
    message: Option<String>,
}

pub(super) fn remind_spec() -> ToolSpec {
    spec(
        "remind",
        "Reminds you of something later, in this conversation. Say when with `delay_seconds` or \
         with `at`.",
        json!({
            "message": text("What to be reminded of, complete in itself."),
            "delay_seconds": number("In how many seconds."),
            "at": text("A time, such as 2026-05-01T09:00:00Z."),
        }),
        &["message"],
    )
}

pub(super) fn next_turn_spec() -> ToolSpec {
    spec(
        "request_next_turn",
        "Goes on in a turn of its own when this one has ended. A task stays open until then.",
        json!({ "message": text("What to go on with (Go on.).") }),
        &[],
    )
}

pub(super) async fn remind(call: OrgCall, arguments: RemindArguments) -> ToolAnswer {
    let RemindArguments { message, delay_seconds, at } = arguments;
    let now = clock::now_ms();
    let at = match (delay_seconds, at) {
        (Some(seconds), None) => now.saturating_add(seconds.saturating_mul(1000)),
        (None, Some(written)) => match time::parse(&written) {
            Some(at) => at,
            None => return refused("at", "write a time such as 2026-05-01T09:00:00Z"),
        },
        _ => return refused("when", "say when: either delay_seconds or at"),
    };
    if at < now || at > now.saturating_add(FARTHEST) {
        return refused("when", "that time is over, or more than a year away");
    }
    set(&call, message, Some(at), now).await
}

pub(super) async fn next_turn(call: OrgCall, arguments: NextTurnArguments) -> ToolAnswer {
    let message = arguments.message.unwrap_or_else(|| GO_ON.to_owned());
    set(&call, message, None, clock::now_ms()).await
}

async fn set(call: &OrgCall, body: String, at: Option<Millis>, now: Millis) -> ToolAnswer {
    let body = match call.words(body) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let command = Remind {
        turn: call.context.turn.clone(),
        call: call.context.call.clone(),
        id: ItemId(random::uuid().to_string()),
        body,
        at,
        limits: call.chain_limits(),
        now,
    };
    match call.shared.store.write(command).await {
        Ok(Reminded::Set { id }) => {
            call.organisation.next_over.note(at.unwrap_or(now));
            call.shared.env().lanes.wake();
            answered(&match at {
                Some(at) => json!({ "success": true, "reminder_id": id, "at": at }),
                None => json!({ "success": true, "item_id": id, "status": "queued" }),
            })
        }
        Ok(Reminded::Refused { code, why }) => refused(code, &why),
        Err(error) => failed(&error),
    }
}
