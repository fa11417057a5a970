//! Engines: what runs a turn: the native loop over a model vendor, and programs of vendors that
//! have a loop of their own.
//!
//! An engine asks the model, hands its calls to the gate and asks again. It never runs a tool,
//! never writes a row and never decides what a turn's failure means for its message.

mod candidates;
pub mod claude;
pub mod codex;
mod native;
mod process;
mod rebuild;

pub use native::{NativeEngine, Timing};
pub use process::EngineHome;
