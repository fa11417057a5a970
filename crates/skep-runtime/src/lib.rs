//! The organisation at work: messages in, turns, tool calls through the gate, answers out.
//!
//! This crate never knows a socket, a vendor or an SQL statement, and never runs a tool outside
//! the gate. Persist, then act, then tell: nothing worth a retry happens before it is a row.

pub mod audit;
pub mod budgets;
pub mod door;
pub mod logs;
pub mod outcomes;
pub mod usage;

mod approvals;
mod begin;
mod brake;
mod browsers;
mod bus;
mod choose;
mod compact;
mod configuration;
mod dispatch;
mod drain;
mod ear;
mod ending;
mod files;
mod follow;
mod gate;
mod held;
mod hive;
mod intake;
mod integrity;
mod ledger;
mod lines;
mod lives;
mod meters;
mod page;
mod persist;
mod policies;
mod providers;
mod query;
mod recent;
mod registry;
mod resume;
mod scheduler;
mod search;
mod sessions;
mod shown;
mod slots;
mod start;
mod step;
mod tasks;
mod tokens;
mod toolbox;
mod turn;
mod window;

pub use approvals::{RuleDraft, WriteRules};
pub use browsers::SignedIn;
pub use bus::{Live, Told, Watch};
pub use hive::{Hive, HiveError, Parts};
pub use meters::Meters;
pub use tokens::FreshToken;
