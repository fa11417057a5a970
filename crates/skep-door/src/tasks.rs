//! Tasks as doors show them.

use serde::Serialize;
use skep_core::Millis;
use skep_core::event::ItemState;
use skep_core::ids::{AgentName, ItemId, SessionKey};
use skep_core::task::{TaskKind, TaskState};
use utoipa::ToSchema;

/// Work that one agent gave another. Its id is that of its item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TaskInfo {
    pub item_id: ItemId,
    /// The task in whose course it was given; nothing where that was a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_task: Option<ItemId>,
    pub from: AgentName,
    pub agent: AgentName,
    pub session_key: SessionKey,
    pub kind: TaskKind,
    pub state: TaskState,
    pub item_state: ItemState,
    /// How many hands it came through.
    pub hops: i64,
    /// What was given in its course and has not ended.
    pub open: i64,
    /// The first characters of the work.
    pub preview: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it did not end well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub created_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
}
