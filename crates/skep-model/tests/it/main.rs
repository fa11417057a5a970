//! The vendors as the engine sees them: every wire against a scripted server over real sockets,
//! the rehearsal model, and one conformance suite that all of them pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod conformance;
mod deviations;
mod rehearsal;
mod rows;
mod vendors;
mod wire;
mod wire_change;
mod wire_faults;
