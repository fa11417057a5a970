//! Why a turn failed, in the words of rows and of the wire.

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
}
