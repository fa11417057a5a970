//! `/v1`: agents for programs that speak OpenAI's chat completions. Each agent is a model.
//!
//! Without `X-Skep-Session` the messages given become a session of their own; with it, those after
//! the last assistant message are new and the rest is in the session already.

mod progress;
mod reply;
mod request;

pub(crate) use reply::{OpenAiError, described, reshape};

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use skep_core::event::ItemState;
use skep_core::ids::{AgentName, SessionKey};
use skep_core::message::Usage;
use skep_guard::{clock, random};
use skep_runtime::door::{Earlier, Failure, Followed, Inbound, Receipt, Source};

use crate::admission::only;
use crate::attachment::LARGE_BYTES;
use crate::doors::Doors;
use crate::extract::{self, IdempotencyKey, JsonBody, Params, Segments};
use crate::permit::Permit;
use crate::problem::{BadBody, Clash, Missing, NoAnswerYet, NotKept, Problem, TurnFailed};
use crate::rest::agents::Nothing;
use crate::rest::message_stream::{Sse, respond};
use crate::telling::{Listening, Message, Telling, Told};
use progress::Progress;
use reply::{Answer, Choice, Chunks, Completion, Model, Models, Tokens, id_of};
use request::{ChatRequest, Conversation, Kept, Speaker};

const SESSION: HeaderName = HeaderName::from_static("x-skep-session");
/// For an answer that is not streamed.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Agents, as models.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai",
    responses((status = 200, description = "Every agent you may see.", body = Models))
)]
pub(crate) async fn models(
    State(doors): State<Doors>,
    permit: Permit,
    Params(Nothing {}): Params<Nothing>,
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
    Params(Nothing {}): Params<Nothing>,
) -> Result<Json<Model>, Problem> {
    let agent = agent_of(&doors, &model)?;
    if !permit.sight().covers_agent(&agent) {
        return Err(unknown_model(&model));
    }
    Ok(Json(model_of(agent, doors.hive.started_at() / 1000)))
}

fn model_of(name: AgentName, created: i64) -> Model {
    Model { id: name.0, object: "model", created, owned_by: "skep" }
}

/// Asks an agent, in the form of OpenAI's chat completions.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai",
    params(
        ("X-Skep-Session" = Option<String>, Header, min_length = 1, max_length = 200,
         pattern = "^[!-~]+$", description = "A session to go on with; without it, a new one."),
        IdempotencyKey
    ),
    request_body = ChatRequest,
    responses(
        (status = 200, description = "The answer; with `stream`, chunks and `[DONE]`.",
         content((Completion = "application/json"), (Sse = "text/event-stream"))),
        Missing, Clash, BadBody, NotKept, NoAnswerYet, TurnFailed
    )
)]
pub(crate) async fn complete(
    State(doors): State<Doors>,
    permit: Permit,
    Params(Nothing {}): Params<Nothing>,
    headers: HeaderMap,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<ChatRequest, LARGE_BYTES>,
) -> Result<Response, Problem> {
    let agent = agent_of(&doors, &body.model)?;
    let session = only(&headers, &SESSION)?;
    let kept = if session.is_some() { Kept::InSession } else { Kept::Nowhere };
    let conversation = body.conversation(kept)?;
    let session_key = match session {
        Some(session) => permit.session_key(Some(session.to_owned()), "main")?,
        None => permit.session_key(None, &one_off(&permit, &key))?,
    };
    let asked = Asked { agent, session_key, conversation, key };
    let listening = Listening::begin(&doors, &permit);
    let receipt = hand_in(&doors, &permit, asked).await?;
    let telling = listening.to(Message::from(&receipt));
    match body.stream.unwrap_or(false) {
        true => {
            let include_usage = body.stream_options.is_some_and(|options| options.include_usage);
            Ok(streamed(&receipt, include_usage, telling))
        }
        false => whole(&receipt, telling).await,
    }
}

/// A key nobody used before; the same again for who asks again with the same Idempotency-Key.
fn one_off(permit: &Permit, key: &IdempotencyKey) -> String {
    match &key.0 {
        None => format!("v1:{}", random::uuid().simple()),
        Some(key) => {
            let hash = Sha256::digest(format!("{}/{key}", permit.principal()));
            let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("v1:{hex}")
        }
    }
}

struct Asked {
    agent: AgentName,
    session_key: SessionKey,
    conversation: Conversation,
    key: IdempotencyKey,
}

async fn hand_in(doors: &Doors, permit: &Permit, asked: Asked) -> Result<Receipt, Problem> {
    let Asked { agent, session_key, conversation: Conversation { earlier, newest }, key } = asked;
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
        source: Source::Api { key: key.0 },
    };
    Ok(doors.hive.submit(inbound).await?)
}

async fn whole(receipt: &Receipt, telling: Telling) -> Result<Response, Problem> {
    let mut telling = telling;
    let ending = async {
        loop {
            match telling.next().await {
                Some(Told::End(followed, usage)) => return Some((followed, usage)),
                Some(Told::Left) | None => return None,
                Some(Told::Event(_) | Told::Lost) => {}
            }
        }
    };
    let Ok(ended) = tokio::time::timeout(LONGEST_WAIT, ending).await else {
        let detail = format!(
            "no answer within {} s; the message is kept and goes on. Follow it: GET \
             /api/v1/agents/{}/messages/{}",
            LONGEST_WAIT.as_secs(),
            receipt.agent,
            receipt.item_id
        );
        return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "wait_timeout", detail));
    };
    let (followed, usage) = ended.ok_or_else(Problem::stopping)?;
    let content = answer_of(*followed)?;
    Ok(Json(completion(receipt, content, usage)).into_response())
}

fn completion(receipt: &Receipt, content: String, usage: Option<Usage>) -> Completion {
    let message = Answer { role: "assistant", content };
    Completion {
        id: id_of(&receipt.item_id),
        object: "chat.completion",
        created: clock::now_ms() / 1000,
        model: receipt.agent.clone(),
        choices: vec![Choice { index: 0, message, finish_reason: "stop" }],
        usage: usage.map(Tokens::from),
    }
}

fn streamed(receipt: &Receipt, include_usage: bool, telling: Telling) -> Response {
    let chunks = Chunks {
        id: id_of(&receipt.item_id),
        created: clock::now_ms() / 1000,
        model: receipt.agent.clone(),
        include_usage,
    };
    let progress = Progress::new(chunks, telling);
    let events = stream::unfold(progress, |mut progress| async move {
        let sent = progress.next().await?;
        Some((sent, progress))
    });
    respond(events.map(Ok))
}

/// The text of the answer, or why there is none.
fn answer_of(followed: Followed) -> Result<String, Problem> {
    // Commands are carried out at the door, without a turn.
    let command = followed.turn.is_none() && followed.state == ItemState::Failed;
    match (followed.response, followed.error) {
        (Some(response), _) => Ok(response.content),
        (None, Some(Failure { code, error })) if command => {
            Err(Problem::refused_command(code, error))
        }
        (None, error) => {
            let (code, text) = failure(error);
            Err(Problem::failed_turn(code, text))
        }
    }
}

fn failure(error: Option<Failure>) -> (String, String) {
    match error {
        Some(failure) => (failure.code, failure.error),
        None => ("failed".to_owned(), "the turn ended without an answer".to_owned()),
    }
}

fn agent_of(doors: &Doors, model: &str) -> Result<AgentName, Problem> {
    let agent = extract::agent(model).map_err(|_| unknown_model(model))?;
    doors.hive.check_agent(&agent).map_err(|_| unknown_model(model))?;
    Ok(agent)
}

fn unknown_model(model: &str) -> Problem {
    let shown: String = model.chars().take(64).collect();
    let detail = format!("there is no agent {shown:?}; GET /v1/models lists them");
    Problem::new(StatusCode::NOT_FOUND, "model_not_found", detail).about("model")
}
