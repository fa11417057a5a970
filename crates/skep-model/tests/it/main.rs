//! The vendors as the engine sees them: the Anthropic wire against a scripted server over real
//! sockets, the rehearsal model, and one conformance suite that both pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod conformance;
mod rehearsal;
mod rows;
mod wire;
mod wire_faults;
