//! The organisation around the turns: what comes in, what goes out, what people decide and what
//! they are shown.
//!
//! This crate never knows a socket, a vendor or an SQL statement, and never runs a tool: turns do,
//! through their gate.

pub use skep_door as door;

mod hive;
mod intake;
mod org;
mod people;
mod subagents;
mod views;

pub use door::{
    AgentDraft, ChangeFolder, DescribeAgent, DraftedProfile, FileRefusal, FileReport, FileWish,
    FileWriters, FolderStep, MoveSecrets, PrepareProfile, ProfileDraft, PutInForce, ReachFile,
    Refresh, RemoveProfile, RuleDraft, ScanFiles, WriteRules,
};
pub use hive::{Hive, HiveError, Parts, SettingsChange};
pub use org::Organisation;
pub use people::browsers::SignedIn;
pub use people::life_cycle::LifeCycle;
pub use people::outcomes;
pub use people::questions::Questions;
pub use people::tokens::FreshToken;
pub use skep_turn::Live;
pub use skep_turn::handles::Meters;
pub use skep_turn::snapshot::Offer;
pub use subagents::subagent_tools;
pub use views::download::Download;
pub use views::watch::{Watch, WatchItem};
pub use views::{audit, budgets, guidance, logs, usage};
