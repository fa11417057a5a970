//! Sessions as doors list, fork, carry and search them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::cache_break::CacheBreak;
use skep_core::ids::{AgentName, SessionId, SessionKey};
use skep_core::message::Role;
use skep_core::money::Money;
use skep_core::settings::Think;

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SessionInfo {
    pub id: SessionId,
    pub agent: AgentName,
    pub session_key: SessionKey,
    /// What a person named it, else what its first message is about. Empty where that says too
    /// little: show the agent and `created_at`.
    pub title: String,
    pub pinned: bool,
    /// Out of the way until something is said in it.
    pub archived: bool,
    pub state: SessionState,
    /// Why the newest turn failed or was cancelled; absent in other states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The first words of the newest message, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
    pub created_at: Millis,
    /// When something was last said in it.
    pub last_at: Millis,
    pub messages: i64,
    /// What its model calls took so far. A fork counts from its beginning.
    pub tokens: i64,
    /// Dollars; absent where the price of a call is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub cost: Option<Money>,
    /// Its key leads here now: a message under the key goes on in it.
    pub current: bool,
    /// What `/model` chose for its key; absent where the agent's own profile holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What `/think` chose for its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Where the vendor's cache did not help its newest calls, and why; only of one that is asked
    /// for by its id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_breaks: Vec<CacheBreak>,
    /// Only of one that is asked for by its id, and where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<AttachmentSum>,
}

/// What goes on in a conversation, or how its newest turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    Idle,
    Running,
    /// A turn waits for a person, or for its next try.
    Waiting,
    Queued,
    Failed,
    Cancelled,
}

/// The files of a conversation, each content once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AttachmentSum {
    pub count: i64,
    pub bytes: i64,
}

/// What a person changes about a conversation; what is left out stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionEdit {
    /// One line; empty for the automatic title.
    #[schema(max_length = 120, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub title: Option<String>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
}

/// Where a fork began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ForkedFrom {
    pub session: SessionId,
    /// The last message that was copied.
    pub at: i64,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionPage {
    /// The pinned ones first, then the latest.
    pub sessions: Vec<SessionInfo>,
    /// Give this as `after` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Which part of a list of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionQuery {
    /// Those that are, or that are not; else all of them.
    pub archived: Option<bool>,
    /// What the page before gave.
    pub after: Option<String>,
    pub limit: u32,
}

/// A wish for a fork.
#[derive(Clone, Debug)]
pub struct ForkWish {
    pub agent: AgentName,
    pub from: SessionId,
    /// The last message to keep; else all of them.
    pub at: Option<i64>,
    /// Leads to the fork from then on.
    pub session_key: SessionKey,
}

/// How messages are written as lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryForm {
    /// As they are stored.
    #[default]
    Skep,
    /// Time, role, content and meta alone.
    Seed,
    /// What was said, for people; it cannot be imported.
    Markdown,
}

/// What became of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ImportReport {
    pub agent: AgentName,
    pub session: SessionId,
    pub messages: usize,
    /// Absent rows were written; `false`: the same session was there already.
    pub imported: bool,
}

#[derive(Clone, Debug)]
pub struct SearchWish {
    pub query: String,
    pub agent: Option<AgentName>,
    /// Hits older than this place only.
    pub before: Option<i64>,
    /// 1..=100
    pub limit: u32,
}

#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SearchPage {
    /// Newest first, in the order they came into the hive.
    pub hits: Vec<SearchHit>,
    /// With the words in their titles, the latest first; on the first page alone.
    pub conversations: Vec<SessionInfo>,
    /// Give this as `before` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// How many messages the index does not know yet, after an upgrade; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unindexed: Option<i64>,
}

/// A message with the words in it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SearchHit {
    pub agent: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    /// Of the conversation; empty where it has none.
    pub title: String,
    pub archived: bool,
    pub seq: i64,
    pub timestamp: Millis,
    pub role: Role,
    /// The name of whoever sent it; absent for your own messages and for answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The part of the text around the first match.
    pub excerpt: String,
    /// Where it begins in the text, in characters.
    pub excerpt_at: usize,
    /// The text goes on after it.
    pub cut: bool,
    /// The matches in the excerpt: first character and length.
    #[schema(value_type = Vec<Vec<usize>>)]
    pub marks: Vec<(usize, usize)>,
}
