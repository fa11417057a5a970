//! The built-in tools: what an agent's hands can do on this machine.
//!
//! A tool reads its arguments, does one thing through `skep-guard` and answers. It never decides
//! whether it may run, never bounds or records its own answer: that is the gate's.

mod read;

pub use read::ReadTool;
