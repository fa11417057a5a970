//! Everything that is kept: the only crate that knows SQL.
//!
//! One `Store` handle. Writes are commands, run one after the other by a single writer that
//! commits them in groups and answers when they are on the disk; reads run beside it on a pool.
//! This crate never reads a clock, never makes an id, never decides what a turn does next, and
//! nobody else opens the database file.

mod disk;
mod engine;
mod spine;
mod tables;

#[cfg(test)]
mod plans_tests;

pub use disk::open_error::OpenError;
pub use engine::command::{CommandSet, Member, MigrationFile, Run, Schema};
pub use engine::conn::{Conn, Row, Value};
pub use engine::dialect::StoredText;
pub use engine::error::{Refusal, SqlError, SqlKind, StoreError};
pub use engine::integrity::Integrity;
pub use engine::loss::Loss;
pub use engine::open::{OpenOptions, OpenReport};
pub use engine::record::{Column, Columns, Record, ToValue};
pub use engine::store::{Pending, StoreOf};
pub use engine::tx::{Committed, Tx};
pub use engine::writer::WAITING_WRITES;
pub use spine::{Command, Outcome};
pub use tables::org::{assign, cancel, expiry, task_views};
pub use tables::people::{browsers, grants, requests, tokens, vault};
pub use tables::{
    agents, approvals, audit, begin, close, compactions, engine_sessions, files, history, import,
    inbox, item_views, journal, lanes, leases, outbox, outcomes, retention, search, sessions,
    spend, waits, watch,
};

/// The store of the product.
pub type Store = StoreOf<Command>;
