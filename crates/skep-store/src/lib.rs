//! Everything that is kept: the only crate that knows SQL.
//!
//! One `Store` handle. Writes are commands, run one after the other by a single writer that
//! commits them in groups and answers when they are on the disk; reads run beside it on a pool.
//! This crate never reads a clock, never makes an id, never decides what a turn does next, and
//! nobody else opens the database file.

pub mod command;
pub mod conn;
pub mod error;
mod tx;

pub mod agents;
pub mod approvals;
pub mod audit;
pub mod begin;
pub mod browsers;
pub mod close;
pub mod compactions;
pub mod files;
pub mod grants;
pub mod history;
pub mod import;
pub mod inbox;
pub mod journal;
pub mod lanes;
pub mod leases;
pub mod outbox;
pub mod outcomes;
pub mod retention;
pub mod search;
pub mod sessions;
pub mod spend;
pub mod storage;
pub mod tasks;
pub mod tokens;
pub mod watch;

mod spine;

mod aside;
mod checkpoint;
mod dialect;
mod file;
mod floor;
mod head;
mod integrity;
mod line_file;
mod log_file;
mod log_reader;
mod loss;
mod migrate;
mod open;
mod pending;
mod readers;
mod store;
mod thread;
mod trail;
mod writer;

#[cfg(test)]
mod plans_tests;

pub use command::{CommandSet, Member, MigrationFile, Run, Schema};
pub use conn::{Conn, Row, Value};
pub use error::{OpenError, Refusal, SqlError, SqlKind, StoreError};
pub use integrity::Integrity;
pub use loss::Loss;
pub use open::{OpenOptions, OpenReport};
pub use spine::{Command, Outcome};
pub use store::{Pending, StoreOf};
pub use tx::{Committed, NewEvent, Tx};

/// The store of the product.
pub type Store = StoreOf<Command>;
