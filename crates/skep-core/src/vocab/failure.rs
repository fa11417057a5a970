//! Why a turn failed, in the words of rows and of the wire.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    ProviderUnavailable,
    ProviderAuth,
    ProviderRejected,
    ContextTooLong,
    LimitSteps,
    LimitTime,
    LimitCost,
    LimitTokens,
    LimitLoop,
    EngineCrashed,
    AgentUnavailable,
    Dead,
    Cancelled,
    Interrupted,
    /// The client that waited for the answer closed its connection.
    ClientGone,
}

impl FailureCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProviderUnavailable => "provider_unavailable",
            Self::ProviderAuth => "provider_auth",
            Self::ProviderRejected => "provider_rejected",
            Self::ContextTooLong => "context_too_long",
            Self::LimitSteps => "limit_steps",
            Self::LimitTime => "limit_time",
            Self::LimitCost => "limit_cost",
            Self::LimitTokens => "limit_tokens",
            Self::LimitLoop => "limit_loop",
            Self::EngineCrashed => "engine_crashed",
            Self::AgentUnavailable => "agent_unavailable",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::ClientGone => "client_gone",
        }
    }
}
