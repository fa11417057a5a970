//! The store through its public door, with a small set of commands of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod failures;
mod opening;
mod probe;
