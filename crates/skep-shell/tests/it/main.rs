//! Tests of `skep-shell` that need more than the crate: here, the real bash.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bash;
mod lines;
