//! The built-in tools: what an agent's hands can do on this machine.
//!
//! A tool reads its arguments, does one thing through `skep-guard` and answers. It never decides
//! whether it may run, never bounds or records its own answer: that is the gate's. It does keep
//! what it gathers within the size it was told, so that the gate has nothing to cut.

mod bash;
mod blocking;
mod diff;
mod edit;
mod glob;
mod governance;
mod grep;
mod ignores;
mod jobs;
mod read;
mod spec;
mod vault;
mod walk;
mod web_fetch;
mod write;

pub use bash::BashTool;
pub use diff::unified as unified_diff;
pub use edit::EditTool;
pub use glob::GlobTool;
pub use governance::Governance;
pub use grep::GrepTool;
pub use read::ReadTool;
pub use vault::VaultTool;
pub use web_fetch::WebFetchTool;
pub use write::WriteTool;
