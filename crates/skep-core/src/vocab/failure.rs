//! Why a turn failed or is tried again, in the words of rows and of the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Millis;
use crate::vocab::words::words;

words! {
    FailureCode {
        ProviderUnavailable = "provider_unavailable",
        ProviderAuth = "provider_auth",
        ProviderRejected = "provider_rejected",
        ContextTooLong = "context_too_long",
        LimitSteps = "limit_steps",
        LimitTime = "limit_time",
        LimitCost = "limit_cost",
        LimitTokens = "limit_tokens",
        LimitLoop = "limit_loop",
        EngineCrashed = "engine_crashed",
        /// The engine made a call of its own that nobody permitted.
        EngineUngated = "engine_ungated",
        AgentUnavailable = "agent_unavailable",
        Dead = "dead",
        Cancelled = "cancelled",
        Interrupted = "interrupted",
        /// The client that waited for the answer closed its connection.
        ClientGone = "client_gone",
    }
    /// Why something is tried again.
    RetryCode {
        Overloaded = "overloaded",
        RateLimited = "rate_limited",
        /// The vendor failed by its own account.
        Unavailable = "unavailable",
        Unreachable = "unreachable",
        /// The vendor stays silent.
        Timeout = "timeout",
        /// The answer broke off.
        Cut = "cut",
        /// The answer is empty or makes no sense.
        Unusable = "unusable",
        EngineCrashed = "engine_crashed",
    }
    /// What is tried again: one model call inside its turn, or the turn from its last step on.
    RetryScope { Call = "call", Turn = "turn" }
}

/// A failure that may pass, and the pause before the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetryInfo {
    pub scope: RetryScope,
    /// The number of the next try; absent where the vendor named the time, which is not counted.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none", default)]
    pub number: Option<u32>,
    /// So many tries there are at most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<u32>,
    /// The attempt of the turn in which the call is made, where it is not the first: tries of a
    /// call are counted anew in each.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempt: Option<u32>,
    pub code: RetryCode,
    pub next_at: Millis,
}

impl FailureCode {
    /// Somebody ended the turn: nothing failed.
    pub fn is_cancel(self) -> bool {
        matches!(self, Self::Cancelled | Self::Interrupted | Self::ClientGone)
    }

    /// A model call failed.
    pub fn is_of_model(self) -> bool {
        matches!(
            self,
            Self::ProviderAuth
                | Self::ProviderRejected
                | Self::ProviderUnavailable
                | Self::ContextTooLong
        )
    }
}

impl RetryCode {
    /// What a turn failed for when no try is left.
    pub fn failure(self) -> FailureCode {
        match self {
            Self::EngineCrashed => FailureCode::EngineCrashed,
            _ => FailureCode::ProviderUnavailable,
        }
    }
}
