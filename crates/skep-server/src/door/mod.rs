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
mod linger;
pub(crate) mod lockout;
pub(crate) mod metrics;
mod pace;
pub(crate) mod rates;
pub(crate) mod redact_response;
pub(crate) mod site;
pub(crate) mod strangers;

pub(crate) use admission::{ConnectionSlot, Entrance, OpenRoutes, Peer};
pub(crate) use calls::{Attempt, CallId, CallTimes, Caller, Calls, Presence};
pub(crate) use connection::Places;
pub(crate) use credential_watch::{Standing, Stay};
pub(crate) use lockout::Lockout;
pub(crate) use metrics::Metrics;
pub(crate) use rates::Rates;
pub(crate) use redact_response::ShowsSecret;
pub(crate) use site::Site;
pub(crate) use state::{DoorState, Doors};
