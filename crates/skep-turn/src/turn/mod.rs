//! One turn: `TurnEnv` is what all turns share, `Turn` what holds for a lease, `TurnState` what
//! changes while it runs. `lead` takes it from its lease to its end.

mod brake;
mod budget;
mod compact;
mod context;
mod deferred;
mod ending;
mod engine;
mod engine_calls;
mod env;
mod launch;
mod lead;
mod own_loop;
mod own_park;
mod own_request;
mod parked;
mod persist;
mod prompt;
mod redact;
mod resume;
mod session_cache;
mod session_scope;
mod start;
mod state;
mod step;

pub use env::TurnEnv;
pub use lead::run;
pub use parked::EngineProcesses;
pub use prompt::{prompt_parts, system_prompt};
pub use session_cache::SessionCache;
pub use session_scope::SessionScopes;
pub use state::millis;

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "requester_tests.rs"]
mod requester;

#[cfg(test)]
#[path = "conformance_tests.rs"]
mod conformance;

#[cfg(test)]
#[path = "parked_tests.rs"]
mod parked_engines;

#[cfg(test)]
#[path = "stdio_engine_tests.rs"]
mod stdio_engine;
