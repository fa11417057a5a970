//! What a channel or another door hands in, and the receipt it gets.

use serde::Serialize;
use utoipa::ToSchema;

use crate::settings::{QueueMode, Think};
use crate::vocab::file::Attachment;
use crate::vocab::frame::Frame;
use crate::vocab::ids::{
    AgentName, ChannelId, ItemId, MessageId, Principal, SessionId, SessionKey,
};
use crate::vocab::words::words;

/// A message on its way in.
#[derive(Clone, Debug)]
pub struct Inbound {
    pub agent: AgentName,
    pub session_key: SessionKey,
    pub text: String,
    pub attachments: Vec<Attachment>,
    /// The sender's wish; else the agent's `queue_mode`.
    pub mode: Option<QueueMode>,
    /// How hard the turn it begins thinks; else what was chosen for the session.
    pub think: Option<Think>,
    pub principal: Principal,
    pub source: Source,
}

/// Where it came from, and so where ids are unique and the answer goes.
#[derive(Clone, Debug)]
pub enum Source {
    /// Frames of this channel answer it; `id` is unique in the channel.
    Socket { channel: ChannelId, id: Option<String> },
    /// Followed by item id; `key` is unique for (principal, agent).
    Api { key: Option<String> },
    /// The same, for a client that waits for the answer and knows no commands: its text is text.
    /// `call` becomes the message id, and is the key where the client gave none.
    Call { key: Option<String>, call: MessageId },
}

words! {
    AckState {
        Started = "started",
        Queued = "queued",
        Waiting = "waiting",
        /// A command: answered already.
        Done = "done",
    }
}

/// The message is durable.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Receipt {
    pub message_id: MessageId,
    pub item_id: ItemId,
    pub agent: AgentName,
    pub session_key: SessionKey,
    /// The new conversation, where an answer is regenerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    pub state: AckState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The same id and body had been accepted before; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
    /// The frames that answered it then.
    #[serde(skip)]
    pub repeated: Vec<Frame>,
}

/// Why a door's wish was not met. `text` says what, why and what to do, and is safe to show.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct DoorError {
    pub kind: ErrorKind,
    /// A stable word for programs.
    pub code: &'static str,
    pub text: String,
    /// The limit that was met. Boxed: few errors have one.
    pub quota: Option<Box<Quota>>,
}

/// A limit as `RateLimit` headers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub name: &'static str,
    pub most: u64,
    pub left: u64,
    pub unit: &'static str,
    /// After this long without further use all of it is there again.
    pub seconds: Option<u64>,
}

impl Quota {
    pub fn new(name: &'static str, most: u64, left: u64) -> Self {
        Self { name, most, left, unit: "requests", seconds: None }
    }

    pub fn of(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// 400
    Invalid,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 409
    Conflict,
    /// 413
    TooLarge,
    /// 503 with Retry-After: nothing was taken, try again.
    Busy,
    /// 503 `store_unsynced`: outcome unknown, send again with the same id.
    Unsynced,
    /// 507
    DiskFull,
    /// 503: the hive is stopping.
    Stopping,
    /// 500, logged
    Internal,
}

impl DoorError {
    pub fn new(kind: ErrorKind, code: &'static str, text: impl Into<String>) -> Self {
        Self { kind, code, text: text.into(), quota: None }
    }

    pub fn limited(self, quota: Quota) -> Self {
        Self { quota: Some(Box::new(quota)), ..self }
    }

    /// A task of the hive's own broke.
    pub fn failed() -> Self {
        Self::new(ErrorKind::Internal, "internal", "The hive failed; see its log.")
    }
}
