//! The vocabulary of Skep: ids, messages, events, settings, the four traits, and every decision
//! that can be made without touching the world.
//!
//! This crate never does I/O, never reads a clock or randomness, never knows SQL or sockets.
//! Time comes in as milliseconds since the epoch, ids are made elsewhere and handed in.

mod words;

pub mod event;
pub mod file;
pub mod fold;
pub mod frame;
pub mod ids;
pub mod message;
pub mod money;
pub mod settings;

pub mod channel;
pub mod engine;
pub mod provider;
pub mod tool;

pub mod allow;
pub mod approval;
pub mod arrival;
pub mod audit;
pub mod brake;
pub mod budget;
pub mod choice;
pub mod compaction;
pub mod count;
pub mod fallback;
pub mod hook;
pub mod names;
pub mod policy;
pub mod prompt;
pub mod query;
pub mod redelivery;
pub mod retry;
pub mod role;
pub mod slash;
pub mod spend;
pub mod time;
pub mod visible;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// A boxed future, as the traits need it to stay usable behind `dyn`.
pub type BoxFuture<'a, T> = futures_util::future::BoxFuture<'a, T>;
/// A boxed stream, for the same reason.
pub type BoxStream<'a, T> = futures_util::stream::BoxStream<'a, T>;
