//! Model vendors: each turns a request into its own wire and the answer back into events.
//!
//! One call is one try. This crate never retries, never runs a tool, never keeps a conversation:
//! the engine decides about retries, the gate runs tools, and requests are built from rows.
//!
//! A vendor is one folder with `request` (rows into a body) and `decode` (events into ours); what
//! a call on any wire has in common stands beside the folders.

mod answer;
mod body;
mod call;
mod conversation;
mod explanation;
mod failure;
mod link;
mod mend;
mod raw;
#[cfg(test)]
#[path = "rows_tests.rs"]
mod rows;

pub mod anthropic;
pub mod catalog;
pub mod effort;
pub mod openai_chat;
pub mod openai_responses;
pub mod rehearsal;
pub mod sse;
pub mod tally;

pub use anthropic::AnthropicProvider;
pub use link::{WireProvider, WireSettings};
pub use openai_chat::OpenAiChatProvider;
pub use openai_responses::OpenAiResponsesProvider;
pub use rehearsal::RehearsalProvider;
