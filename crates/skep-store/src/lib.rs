//! Everything that is kept: the tables of the product, their commands and reads.
//!
//! One `Store` handle. Writes are commands, run one after the other by the single writer of
//! `skep-db`, which commits them in groups and answers when they are on the disk. This crate never
//! reads a clock, never makes an id, never decides what a turn does next, and nobody else opens
//! the database file.

mod dialect;
mod spine;
mod tables;

#[cfg(test)]
mod plans_tests;

pub use skep_db::{
    Column, Columns, CommandSet, Committed, Conn, Integrity, Loss, Member, MigrationFile,
    OpenError, OpenOptions, OpenReport, Pending, Record, Refusal, Row, Run, Schema, SqlError,
    SqlKind, StoreError, StoreOf, StoredText, ToValue, Tx, Value, WAITING_WRITES, commands,
};
pub use spine::{Command, Outcome};
pub use tables::org::{
    assign, cancel, expiry, letters, ops, questions, receive, reminders, shutdown, spawn,
    task_views, teams, threads, timing, work,
};
pub use tables::people::{browsers, grants, requests, tokens, vault};
pub use tables::{
    agents, approvals, audit, begin, close, compactions, engine_sessions, files, history, import,
    inbox, item_views, journal, lanes, leases, outbox, outcomes, retention, search, sessions,
    spend, waits, watch,
};

/// The store of the product.
pub type Store = StoreOf<Command>;
