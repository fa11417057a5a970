//! Work as doors show it: a page of items, and how the time of a turn was spent.

use serde::Serialize;
use skep_core::Millis;
use skep_core::approval::ApprovalState;
use skep_core::event::ItemState;
use skep_core::ids::{AgentName, CallId, ItemId, SessionId, SessionKey, TurnId};
use skep_core::message::Usage;
use skep_core::money::Money;
use skep_core::task::{TaskKind, WorkKind};
use utoipa::ToSchema;

use super::MessageFailure;

/// What somebody wants to see of the work.
#[derive(Clone, Debug, Default)]
pub struct WorkQuery {
    pub agent: Option<AgentName>,
    /// Empty: all of them.
    pub states: Vec<ItemState>,
    pub kind: Option<WorkKind>,
    /// Only what the one who asks has sent.
    pub mine: bool,
    /// A text that it holds.
    pub text: Option<String>,
    pub after: Option<i64>,
    /// Also how much there is; what has ended is counted from this time on.
    pub since: Option<Millis>,
    /// 1..=500
    pub limit: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkPage {
    /// Newest first.
    pub items: Vec<WorkItem>,
    /// Give it as `after` for what is older; absent on the last page. A page may hold fewer items
    /// than it could, or none, where few of those it looked at are of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<WorkCounts>,
}

/// How much work there is. What is open is counted whatever its kind; what has ended as the query
/// says and among the newest 5 000 items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct WorkCounts {
    pub pending: i64,
    pub running: i64,
    pub waiting: i64,
    pub done: i64,
    pub failed: i64,
    pub cancelled: i64,
}

/// An item as work.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkItem {
    pub item_id: ItemId,
    /// Give it as `after` for what is older.
    pub ord: i64,
    pub kind: String,
    /// Of a task: how it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskKind>,
    pub agent: AgentName,
    pub session_key: SessionKey,
    /// The agent that gave it, else whoever sent it.
    pub from: String,
    /// The first 200 characters.
    pub preview: String,
    pub priority: &'static str,
    pub state: ItemState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    pub attempts: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageFailure>,
    pub created_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    /// The first item of its chain; itself where it begins one.
    pub root: ItemId,
    /// The item whose turn made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ItemId>,
    /// What was given in its course and has not ended.
    pub open: i64,
    /// Its newest try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<ItemId>,
}

/// What the turn of an item in a chain asked a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChainApproval {
    pub id: String,
    pub item_id: ItemId,
    pub tool: String,
    pub state: ApprovalState,
    pub asked_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
}

/// How the time of a turn was spent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TurnTiming {
    pub turn: TurnId,
    pub agent: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    /// The item it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// `ready`, `running`, `waiting` or `ended`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    pub started_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Without what it waited; as of the last thing it wrote.
    pub active_ms: i64,
    pub model_calls: u32,
    /// Of all of them; absent where one has no known price.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub cost: Option<Money>,
    /// In the order in which they began.
    pub rows: Vec<TimingRow>,
    /// It has more than are given.
    pub cut: bool,
}

/// A time in which a turn did one thing.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TimingRow {
    pub kind: TimingKind,
    /// The model, the tool, or `queue`.
    pub name: String,
    pub from: Millis,
    /// The first word of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Millis>,
    /// Absent while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// In a line: the profile, what the call is about, what is waited for, or why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The call went wrong, or was refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Of a model call that was made more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// What a person was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimingKind {
    Model,
    Tool,
    /// For its turn, for a person, or for another agent: the clock of the turn stands.
    Wait,
}
