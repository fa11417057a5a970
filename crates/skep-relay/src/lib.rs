//! The model relay: how an engine that is a process reaches its model, and nothing else.
//!
//! The process speaks its vendor's wire to a name in its own network. Each request is read whole
//! and judged before the vendor sees a byte of it; then both bodies go through as they are, the
//! profile's key is added on the way out, and what the answer used is counted on the way back.
//! What is not understood is refused: the process is hostile.
//!
//! It never changes a body, asks a vendor by itself, tries again, falls back, or lets a key in.

mod account;
mod answer;
mod body;
mod bounds;
mod check;
mod connection;
mod launch;
mod refusal;
mod tools;
mod wire;

pub use launch::Relay;
