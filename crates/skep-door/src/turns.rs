//! What became of turns, as doors show it beside the messages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::engine::RetryInfo;
use skep_core::ids::{ItemId, TurnId};

/// A turn that was not simply answered. It is no message, and no model is shown it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TurnOutcome {
    pub turn: TurnId,
    /// The item it began with: `POST /api/v1/inbox/{id}/retry` tries its message again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// Its last row on the page.
    pub seq: i64,
    pub state: TurnOutcomeState,
    /// Why, as a word: that of `turn_end`, or of `retry`. Absent for an empty answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub started_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Model calls that were answered.
    pub steps: i64,
    /// Tool calls that ran.
    pub tools_run: i64,
    /// The newest other try of the item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<ItemId>,
    /// While it is `retrying`; `POST /api/v1/turns/{id}/retry-now` ends the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryInfo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcomeState {
    Failed,
    Cancelled,
    /// It ended as it should, and the answer holds no words.
    Empty,
    /// It goes on by itself.
    Retrying,
}
