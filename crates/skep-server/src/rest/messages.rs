//! Sending a message to an agent and following it to its end.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::IgnoredAny;
use skep_core::approval::ApprovalState;
use skep_core::event::ItemState;
use skep_core::ids::{AgentName, MessageId};
use skep_core::settings::{QueueMode, Think};
use skep_runtime::door::{ApprovalQuery, DoorError, ErrorKind, Followed, Inbound, Receipt, Source};
use utoipa::{IntoParams, ToSchema};

use crate::door::{DoorState, Doors, Presence};
use crate::request::{
    BadBody, Clash, HeldRoom, IdempotencyKey, LargeJsonBody, Missing, NoAnswerYet, NotKept,
    OnClose, OnCloseHeader, Params, Permit, Problem, RawAttachment, Segments, attachment, extract,
};
use crate::rest::message_stream;
use crate::stream::follow_stream::{self, Listening};
use crate::stream::sse::Sse;

const USUAL_WAIT: u64 = 120;
const LONGEST_WAIT: u64 = 600;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// May be blank where there are attachments.
    #[schema(example = "hello")]
    message: String,
    /// `main` where it is left out.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    session_key: Option<String>,
    /// What happens when a turn of the conversation runs; else the agent's own setting.
    mode: Option<QueueMode>,
    /// How hard the turn it begins thinks; else what `/think` chose, or the agent's own setting.
    think: Option<Think>,
    #[schema(ignore)]
    topic: Option<IgnoredAny>,
    /// Files the model is shown with the message; 20 MiB together.
    #[schema(max_items = 10)]
    attachments: Option<Vec<RawAttachment>>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// Answer when the message has ended.
    #[serde(default)]
    wait: bool,
    /// Answer with events of exactly this message as it goes on, and its end; before `wait`.
    #[serde(default)]
    stream: bool,
    /// Seconds to wait for that.
    #[param(minimum = 0, maximum = 600, default = 120)]
    timeout: Option<u64>,
}

impl Wait {
    /// How long to wait for the end, if at all.
    fn time(&self) -> Result<Option<Duration>, Problem> {
        let seconds = self.timeout.unwrap_or(USUAL_WAIT);
        if seconds > LONGEST_WAIT {
            let detail = format!("timeout can be {LONGEST_WAIT} seconds at most");
            return Err(Problem::bad_request("invalid_query", detail));
        }
        Ok(self.wait.then(|| Duration::from_secs(seconds)))
    }
}

/// Sends a message to an agent, or a command such as `/stop`.
///
/// It is durable before it is answered. With `wait` the answer is the end of the message.
#[utoipa::path(
    post, path = "/api/v1/agents/{agent}/messages", tag = "messages",
    params(Wait, IdempotencyKey, OnCloseHeader),
    request_body = NewMessage,
    responses(
        (status = 200, description = "With `wait`: it has ended. With `stream`: events, the last \
         of them `response` or `error`.",
         content((Followed = "application/json"), (Sse = "text/event-stream"))),
        (status = 202, description = "It is kept and goes on by itself.", body = Receipt),
        Missing, Clash, BadBody, NotKept, NoAnswerYet
    )
)]
pub(crate) async fn send(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(agent): Segments<String>,
    Params(wait): Params<Wait>,
    key: IdempotencyKey,
    OnCloseHeader(on_close): OnCloseHeader,
    LargeJsonBody(body, room): LargeJsonBody<NewMessage>,
) -> Result<Response, Problem> {
    let inbound = inbound(extract::agent(&agent)?, &permit, key, body)?;
    let on_close = on_close.unwrap_or(OnClose::Keep);
    submit(&doors, &permit, wait, on_close, (inbound, room)).await
}

/// Hands it in and answers as the caller wished.
pub(crate) async fn submit(
    doors: &Doors,
    permit: &Permit,
    wait: Wait,
    on_close: OnClose,
    (inbound, room): (Inbound, Option<HeldRoom>),
) -> Result<Response, Problem> {
    let time = wait.time()?;
    let listening = wait.stream.then(|| Listening::begin(doors, permit));
    let receipt = doors.hive.submit(inbound).await?;
    drop(room);
    let waits = listening.is_some() || time.is_some();
    let watch = || {
        let message = (&receipt.agent, &receipt.item_id);
        doors.calls.watch(doors, permit.principal(), message, on_close)
    };
    let presence = if waits { watch() } else { None };
    if let Some(listening) = listening {
        let telling = listening.to(follow_stream::FollowedMessage::from(&receipt));
        return Ok(message_stream::answer("ack", &receipt, telling, presence));
    }
    match time {
        None => Ok((StatusCode::ACCEPTED, Json(receipt)).into_response()),
        Some(time) => {
            let message = Message {
                agent: receipt.agent,
                id: receipt.item_id.to_string(),
                message_id: receipt.message_id,
            };
            wait_for(doors, permit, message, time, presence).await
        }
    }
}

/// Follows a message, also after a restart of the hive.
#[utoipa::path(
    get, path = "/api/v1/agents/{agent}/messages/{id}", tag = "messages",
    params(
        ("id" = String, Path, description = "The id of an item, or of a message you sent."), Wait
    ),
    responses(
        (status = 200, description = "The message as it stands, or its end; with `stream`, events.",
         content((Followed = "application/json"), (Sse = "text/event-stream"))),
        Missing, NoAnswerYet
    )
)]
pub(crate) async fn follow(
    State(doors): State<Doors>,
    permit: Permit,
    Segments((agent, id)): Segments<(String, String)>,
    Params(wait): Params<Wait>,
) -> Result<Response, Problem> {
    let agent = extract::agent(&agent)?;
    let time = wait.time()?;
    let listening = wait.stream.then(|| Listening::begin(&doors, &permit));
    let found = doors.hive.follow(&agent, &id, permit.principal(), &permit.sight()).await?;
    let watch = || {
        let message = (&agent, &found.item_id);
        doors.calls.watch(&doors, permit.principal(), message, OnClose::Keep)
    };
    if let Some(listening) = listening {
        let presence = watch();
        let (item, session_key) = (found.item_id.clone(), found.session_key.clone());
        let telling = listening.to(follow_stream::FollowedMessage { agent, session_key, item });
        return Ok(message_stream::answer("message", &found, telling, presence));
    }
    match time {
        Some(time) if !found.has_ended() => {
            let presence = watch();
            let id = found.item_id.to_string();
            let message = Message { agent, id, message_id: found.message_id };
            wait_for(&doors, &permit, message, time, presence).await
        }
        _ => Ok(Json(found).into_response()),
    }
}

fn inbound(
    agent: AgentName,
    permit: &Permit,
    key: IdempotencyKey,
    body: NewMessage,
) -> Result<Inbound, Problem> {
    if body.topic.is_some() {
        let detail = "topics are not part of this version; use session_key";
        return Err(Problem::bad_request("unknown_topic", detail));
    }
    Ok(Inbound {
        agent,
        session_key: permit.session_key(body.session_key, "main")?,
        text: body.message,
        attachments: attachment::decode(body.attachments)?,
        mode: body.mode,
        think: body.think,
        principal: permit.principal().clone(),
        source: Source::Api { key: key.0 },
    })
}

struct Message {
    agent: AgentName,
    id: String,
    message_id: MessageId,
}

async fn wait_for(
    doors: &DoorState,
    permit: &Permit,
    message: Message,
    time: Duration,
    mut presence: Option<Presence>,
) -> Result<Response, Problem> {
    let Message { agent, id, message_id } = message;
    let stay = doors.standing.stay(&doors.hive, permit.credential());
    let stopping =
        || Problem::stopping().with("message_id", message_id.0.clone()).with("item_id", id.clone());
    let (principal, sight) = (permit.principal(), permit.sight());
    let following = doors.hive.follow_until_ended(&agent, &id, principal, &sight, time);
    let followed = tokio::select! {
        biased;
        followed = following => followed.map_err(|error| unread(error, &agent, &id, &message_id))?,
        () = stay.over() => {
            let detail = "the token was revoked, or the browser signed out";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
        }
        () = doors.closing.cancelled() => return Err(stopping()),
    };
    if followed.has_ended() {
        presence.iter_mut().for_each(Presence::delivered);
        return Ok(Json(followed).into_response());
    }
    if doors.hive.stopping().is_cancelled() {
        return Err(stopping());
    }
    let query = ApprovalQuery {
        states: vec![ApprovalState::Open],
        unused: false,
        agent: Some(agent.clone()),
        cursor: None,
        limit: 500,
    };
    let open = doors.hive.approvals(query, permit.identity(), &sight).await?.approvals;
    let approval = open.into_iter().rfind(|it| followed.turn.as_ref() == Some(&it.turn));
    let what = match (&approval, followed.state) {
        (Some(approval), _) => format!("waits for the approval {}", approval.id),
        (None, ItemState::Waiting) => "waits, and goes on by itself".to_owned(),
        _ => "still works on the message".to_owned(),
    };
    let detail = format!(
        "no answer within {} s; {agent} {what}. Ask again with its id {id}",
        time.as_secs()
    );
    let problem = Problem::new(StatusCode::GATEWAY_TIMEOUT, "wait_timeout", detail)
        .with("message_id", message_id.0)
        .with("item_id", id)
        .with("state", followed.state.as_str());
    Err(match approval {
        Some(approval) => problem.with("approval_id", approval.id),
        None => problem,
    })
}

/// The message was taken: an answer that it was not would make its sender send it twice.
fn unread(error: DoorError, agent: &AgentName, id: &str, message_id: &MessageId) -> Problem {
    let problem = match error.kind {
        ErrorKind::Busy | ErrorKind::Unsynced | ErrorKind::DiskFull | ErrorKind::Internal => {
            let detail = format!(
                "{agent} still works on the message, but its end cannot be read now. Ask again \
                 with its id {id}"
            );
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "wait_failed", detail).retry_after(1)
        }
        _ => error.into(),
    };
    problem.with("message_id", message_id.0.clone()).with("item_id", id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use axum::body::to_bytes;
    use serde_json::Value;

    /// Seen under attack: a wait whose read failed said that nothing had been written.
    #[tokio::test]
    async fn attack_a_failed_wait_does_not_deny_the_message() {
        let agent = AgentName::new("main");
        for kind in [ErrorKind::Busy, ErrorKind::Internal] {
            let error = DoorError::new(kind, "store_failed", "nothing was written; send again");
            let problem = unread(error, &agent, "item", &MessageId::new("mine"));
            let response = problem.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            let body = to_bytes(response.into_body(), 4096).await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["code"], "wait_failed");
            assert_eq!((&body["item_id"], &body["message_id"]), (&"item".into(), &"mine".into()));
            assert!(!body["detail"].as_str().unwrap().contains("send again"), "{body}");
        }
    }
}
