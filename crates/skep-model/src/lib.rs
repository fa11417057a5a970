//! Model vendors: each turns a request into its own wire and the answer back into events.
//!
//! One call is one try. This crate never retries, never runs a tool, never keeps a conversation:
//! the engine decides about retries, the gate runs tools, and requests are built from rows.

pub mod anthropic;
pub mod rehearsal;
pub mod sse;

pub use anthropic::{AnthropicProvider, AnthropicSettings};
pub use rehearsal::RehearsalProvider;
