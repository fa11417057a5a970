//! One writer, many readers, and a log that is known to be whole: the generic half of the store.
//!
//! Commands of a [`CommandSet`] run one after the other in a single writer, which commits them in
//! groups and answers when they are on the disk; reads run beside it. This crate knows no table
//! but those the writer itself keeps (events, the audit chain), never reads a clock and never makes
//! an id. `skep-store` gives it the product's commands and schema.

mod disk;
mod engine;

pub use disk::open_error::OpenError;
pub use engine::additions::Addition;
pub use engine::audit_chain;
pub use engine::command::{CommandSet, Member, MigrationFile, Run, Schema};
pub use engine::conn::{Cell, Conn, PAGE_ROWS, Row, Value, observe_statements};
pub use engine::dialect::{StoredText, unwatch, watch};
pub use engine::error::{Refusal, SqlError, SqlKind, StoreError};
pub use engine::integrity::Integrity;
pub use engine::loss::Loss;
pub use engine::open::{OpenOptions, OpenReport};
pub use engine::record::{Column, Columns, Record, ToValue};
pub use engine::store::{Pending, StoreOf};
pub use engine::tx::{Committed, Tx};
pub use engine::writer::WAITING_WRITES;
