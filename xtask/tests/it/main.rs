//! The test command itself: what it counts and how it ends, with a cargo that only pretends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod test_command;
