//! The relay over real sockets: what it lets through, what it refuses, and what hostile programs
//! get out of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod scene;
mod vendor;

mod ends;
mod hostile;
mod requests;
mod sandboxed;
