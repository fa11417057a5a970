//! `/v1`: agents for programs that speak OpenAI's chat completions. Each agent is a model.
//!
//! Without `X-Skep-Session` the messages given become a session of their own; with it, those after
//! the last assistant message are new and the rest is in the session already.
//!
//! One call is one turn: see [`crate::door::calls`].

mod progress;
mod reply;
mod request;
mod whole;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use skep_core::ids::{AgentId, AgentName, SessionKey};
use skep_core::message::StopReason;
use skep_guard::clock;
use skep_runtime::door::{
    DoorError, Earlier, ErrorKind, Followed, Inbound, MessageFailure, Receipt, Source,
};

use crate::door::{Attempt, CallId, Caller, DoorState, Doors, Presence};
use crate::request::{
    BadBody, Clash, HashedJsonBody, IdempotencyKey, Missing, NotKept, OnClose, OnCloseHeader,
    Permit, Problem, Segments, TurnFailed, extract, only,
};
use crate::stream::follow_stream::{FollowedMessage, Listening, Telling};
use crate::stream::sse::{Sse, respond};
use progress::Progress;
use reply::{Chunks, Completion, Model, Models, id_of};
use request::{ChatRequest, Conversation, Kept, Speaker};

const SESSION: HeaderName = HeaderName::from_static("x-skep-session");
/// The openai libraries count their repetitions of a call here.
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");

/// Agents, as models.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai",
    responses((status = 200, description = "Every agent you may see.", body = Models))
)]
pub(crate) async fn models(
    State(doors): State<Doors>,
    permit: Permit,
) -> Result<Json<Models>, Problem> {
    let agents = doors.hive.agents(&permit.sight()).await?;
    let created = doors.hive.started_at() / 1000;
    let data = agents.into_iter().map(|agent| model_of(agent.name, created)).collect();
    Ok(Json(Models { object: "list", data }))
}

/// One agent, as a model.
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "openai",
    params(("model" = String, Path, description = "The name of an agent.")),
    responses((status = 200, description = "It is there.", body = Model), Missing)
)]
pub(crate) async fn model(
    State(doors): State<Doors>,
    permit: Permit,
    Segments(model): Segments<String>,
) -> Result<Json<Model>, Problem> {
    let (agent, id) = agent_of(&doors, &model)?;
    if !permit.sight().covers_agent(id) {
        return Err(unknown_model(&model));
    }
    Ok(Json(model_of(agent, doors.hive.started_at() / 1000)))
}

fn model_of(name: AgentName, created: i64) -> Model {
    Model { id: name.0, object: "model", created, owned_by: "skep" }
}

/// Asks an agent, in the form of OpenAI's chat completions.
///
/// A call that is sent again joins the first. Without a session the turn is stopped when the
/// connection closes before the answer.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai",
    params(
        ("X-Skep-Session" = Option<String>, Header, min_length = 1, max_length = 200,
         pattern = "^[!-~]+$", description = "A session to go on with; without it, a new one."),
        IdempotencyKey,
        OnCloseHeader
    ),
    request_body = ChatRequest,
    responses(
        (status = 200, description = "The answer; with `stream`, chunks and `[DONE]`.",
         content((Completion = "application/json"), (Sse = "text/event-stream"))),
        Missing, Clash, BadBody, NotKept, TurnFailed
    )
)]
pub(crate) async fn complete(
    State(doors): State<Doors>,
    permit: Permit,
    headers: HeaderMap,
    key: IdempotencyKey,
    OnCloseHeader(on_close): OnCloseHeader,
    HashedJsonBody(body, hash, room): HashedJsonBody<ChatRequest>,
) -> Result<Response, Problem> {
    let (agent, _) = agent_of(&doors, &body.model)?;
    let session = only(&headers, &SESSION)?;
    let (kept, usually) = match session {
        Some(_) => (Kept::InSession, OnClose::Keep),
        None => (Kept::Nowhere, OnClose::Stop),
    };
    let conversation = body.conversation(kept)?;
    let (stream, usage) = (body.stream.unwrap_or(false), body.includes_usage());
    // The answer may take long, and nobody looks at this again.
    drop(body);
    let asked = Asked { agent: &agent, session, key: key.0.as_deref(), hash };
    let id = asked.call(&permit, on_close.unwrap_or(usually));
    let attempt = asked.attempt(&headers);
    let principal = permit.principal().clone();
    let caller = Caller { agent: agent.clone(), principal, item: None };
    let mut presence = doors.calls.enter(&doors, id, caller, attempt);
    let session_key = match session {
        Some(session) => permit.session_key(Some(session.to_owned()), "main"),
        None => permit.session_key(None, &format!("v1:{}", presence.id().nonce())),
    };
    let listening = Listening::begin(&doors, &permit);
    let submitted = async {
        let source = Source::Call { key: key.0, call: presence.id().message_id() };
        hand_in(&doors, &permit, agent, session_key?, conversation, source).await
    };
    let receipt = match submitted.await {
        Ok(receipt) => receipt,
        Err(error) => {
            // Else it may have been accepted.
            if error.kind != ErrorKind::Unsynced {
                presence.refused();
            }
            return Err(error.into());
        }
    };
    drop(room);
    let telling = listening.to(FollowedMessage::from(&receipt));
    match stream {
        true => Ok(streamed(&doors, &receipt, usage, telling, presence)),
        false => whole::answer(&doors, &receipt, telling, presence).await,
    }
}

/// What tells one call from another.
struct Asked<'a> {
    agent: &'a AgentName,
    session: Option<&'a str>,
    key: Option<&'a str>,
    /// Of the body as it was sent.
    hash: [u8; 32],
}

impl Asked<'_> {
    fn call(&self, permit: &Permit, on_close: OnClose) -> CallId {
        let principal = permit.principal();
        let mut digest = Sha256::new();
        for part in [principal.as_str(), self.agent.as_str(), self.session.unwrap_or_default()] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        digest.update(self.hash);
        // The same again for who asks again with the same key.
        let nonce = self.key.map(|key| hex(&Sha256::digest(format!("{principal}/{key}"))));
        CallId::new(on_close, hex(&digest.finalize()), nonce)
    }

    fn attempt(&self, headers: &HeaderMap) -> Attempt {
        let count = headers.get(&RETRY_COUNT).and_then(|count| count.to_str().ok());
        let repeats =
            count.and_then(|count| count.parse().ok()).is_some_and(|count: u32| count > 0);
        match (self.key, repeats) {
            (Some(_), _) => Attempt::Named,
            (None, true) => Attempt::Again,
            (None, false) => Attempt::First,
        }
    }
}

/// The first half of a hash: enough to tell calls apart.
fn hex(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

async fn hand_in(
    doors: &Doors,
    permit: &Permit,
    agent: AgentName,
    session_key: SessionKey,
    Conversation { earlier, newest }: Conversation,
    source: Source,
) -> Result<Receipt, DoorError> {
    let principal = permit.principal();
    if !earlier.is_empty() {
        let earlier = earlier.into_iter().map(|(speaker, said)| match speaker {
            Speaker::User => Earlier::User(said.text, said.pictures),
            Speaker::Assistant => Earlier::Assistant(said.text),
        });
        doors.hive.begin_session(&agent, &session_key, principal, earlier.collect()).await?;
    }
    let inbound = Inbound {
        agent,
        session_key,
        text: newest.text,
        attachments: newest.pictures,
        mode: None,
        think: None,
        principal: principal.clone(),
        source,
    };
    doors.hive.submit(inbound).await
}

fn streamed(
    doors: &Doors,
    receipt: &Receipt,
    include_usage: bool,
    telling: Telling,
    presence: Presence,
) -> Response {
    let chunks = Chunks {
        id: id_of(&receipt.item_id),
        created: clock::now_ms() / 1000,
        model: receipt.agent.clone(),
        include_usage,
    };
    let progress = Progress::new(doors, chunks, telling, receipt.joined);
    let events = stream::unfold((progress, presence), |(mut progress, mut presence)| async move {
        let sent = progress.next().await?;
        if progress.has_ended() {
            presence.delivered();
        }
        Some((sent, (progress, presence)))
    });
    respond(events.map(Ok))
}

/// What was said in answer to a message.
struct Answered {
    text: String,
    finish: &'static str,
}

/// The text of all model calls of the turn, as it is streamed, or why there is none.
async fn answer_of(doors: &DoorState, followed: &Followed) -> Result<Answered, MessageFailure> {
    let Some(response) = &followed.response else {
        return Err(followed.error.clone().unwrap_or_else(|| MessageFailure {
            code: "failed".to_owned(),
            error: "the turn ended without an answer".to_owned(),
        }));
    };
    let spoken = doors.hive.spoken(followed).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the words of a turn cannot be read");
        Default::default()
    });
    let text = match spoken.texts.is_empty() {
        true => response.content.clone(),
        false => spoken.texts.join("\n\n"),
    };
    let finish = match spoken.stop {
        Some(StopReason::MaxTokens) => "length",
        Some(StopReason::Refusal) => "content_filter",
        _ => "stop",
    };
    Ok(Answered { text, finish })
}

fn agent_of(doors: &Doors, model: &str) -> Result<(AgentName, AgentId), Problem> {
    let agent = extract::agent(model).map_err(|_| unknown_model(model))?;
    let id = doors.hive.agent_id(&agent).map_err(|_| unknown_model(model))?;
    Ok((agent, id))
}

fn unknown_model(model: &str) -> Problem {
    let shown = skep_scrub::known().beginning(model, 64);
    let detail = format!("there is no agent {shown:?}; GET /v1/models lists them");
    Problem::new(StatusCode::NOT_FOUND, "model_not_found", detail).about("model")
}
