//! Engines: what runs a turn. So far the native loop over a model vendor.
//!
//! An engine asks the model, hands its calls to the gate and asks again. It never runs a tool,
//! never writes a row and never decides what a turn's failure means for its message.

mod candidates;
mod native;

pub use native::{NativeEngine, Timing};
