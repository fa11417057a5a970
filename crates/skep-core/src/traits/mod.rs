//! The four traits that have several implementations, the relay to models, what goes in and comes
//! out of them, and the hooks of the gate.

pub mod channel;
pub mod engine;
mod gate;
pub mod hook;
pub mod inbound;
pub mod provider;
pub mod relay;
pub mod tool;
