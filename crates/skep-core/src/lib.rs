//! The vocabulary of Skep: ids, messages, events, settings, the four traits, and every decision
//! that can be made without touching the world.
//!
//! This crate never does I/O, never reads a clock or randomness, never knows SQL or sockets.
//! Time comes in as milliseconds since the epoch, ids are made elsewhere and handed in.

mod vocab;

pub mod policy;
pub mod seed;
pub mod settings;

mod traits;

mod hive_settings;

mod decide;

pub use decide::{
    arrival, brake, bucket, cache_break, choice, compaction, count, fallback, fold, heads, names,
    overlap, peer_text, prompt, query, question, redelivery, resume_text, retry, skill_text, slash,
    task_event, title, visible,
};
pub use traits::{channel, engine, hook, inbound, provider, relay, tool};
pub use vocab::{
    approval, audit, audit_export, budget, cause, decision, event, file, frame, ids, message,
    money, role, spend, task, time,
};

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// A boxed future, as the traits need it to stay usable behind `dyn`.
pub type BoxFuture<'a, T> = futures_util::future::BoxFuture<'a, T>;
/// A boxed stream, for the same reason.
pub type BoxStream<'a, T> = futures_util::stream::BoxStream<'a, T>;
