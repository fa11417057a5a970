//! One file per family of tables: its rows, the commands that write them, the reads.

pub mod agents;
pub mod approvals;
pub mod audit;
pub mod begin;
pub mod close;
pub mod compactions;
pub mod engine_sessions;
pub mod files;
pub mod history;
pub mod import;
pub mod inbox;
pub mod item_views;
pub mod journal;
pub mod lanes;
pub mod leases;
pub mod org;
pub mod outbox;
pub mod outcomes;
mod pending;
pub mod people;
pub mod retention;
pub mod search;
pub mod sessions;
pub mod spend;
pub mod waits;
pub mod watch;
