//! The organisation at work: messages in, turns, tool calls through the gate, answers out.
//!
//! This crate never knows a socket, a vendor or an SQL statement, and never runs a tool outside
//! the gate. Persist, then act, then tell: nothing worth a retry happens before it is a row.

pub mod door;

mod bus;
mod gate;
mod hive;
mod intake;
mod lane;
mod ledger;
mod meters;
mod outbox;
mod people;
mod turn;
mod views;

pub use bus::{Live, Told, Watch};
pub use hive::{Hive, HiveError, Parts};
pub use meters::Meters;
pub use people::approvals::{RuleDraft, WriteRules};
pub use people::browsers::SignedIn;
pub use people::outcomes;
pub use people::tokens::FreshToken;
pub use views::{audit, budgets, logs, usage};
