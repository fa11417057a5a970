//! The work of a turn: lanes and who may run in them, the turn itself, the gate that every tool
//! call passes, and the ledger of what model calls use.
//!
//! This crate never knows a door, a person's credential or a page that somebody reads. What it
//! needs of them comes in as a closure; what they need of it goes out as an event of a commit.
//! Persist, then act, then tell: nothing worth a retry happens before it is a row.

pub mod gate;
pub mod handles;
pub mod lane;
pub mod ledger;
pub mod snapshot;
pub mod turn;
mod turns;

pub use handles::Live;
pub use turns::Turns;
