//! Who comes in, and how many: connections, hosts and origins, credentials, lockout, and the state
//! that every door shares ([`state::Doors`]).

pub(crate) mod state;

pub(crate) mod admission;
pub(crate) mod browser;
pub(crate) mod calls;
pub(crate) mod connection;
mod cors;
pub(crate) mod credential_watch;
mod hosts;
pub(crate) mod lockout;
pub(crate) mod metrics;
mod pace;
pub(crate) mod redact_response;
pub(crate) mod site;
