//! What the tests of every crate are built with: a model that plays a script over the real wire,
//! a WebSocket client, a process harness, a shim that breaks and takes back disk writes, a client
//! that records what was promised to it, a channel that a test drives, a terminal to look at,
//! effect counters and canaries.
//!
//! It knows of the product only the vocabulary and the traits of `skep-core`: everything here sees
//! Skep from outside, as a vendor, a client, a disk or an operator would. It is never part of the
//! shipped program.

pub mod canary;
pub mod channel;
pub mod deviations;
pub mod effects;
pub mod hive;
pub mod http;
pub mod locate;
pub mod model;
pub mod processes;
pub mod recorder;
pub mod shim;
pub mod terminal;
pub mod wait;
pub mod ws;

pub use hive::Hive;
pub use model::{Gate, ModelRequest, Reply, ScriptedModel};
pub use shim::Shim;
pub use terminal::Terminal;
pub use ws::WsClient;

/// True when the long form of the tests was asked for (`./test --all`): raise the counts.
pub fn all() -> bool {
    std::env::var_os("SKEP_TEST_ALL").is_some_and(|value| value == "1")
}
