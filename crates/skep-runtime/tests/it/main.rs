//! The hive in this process, with an engine that echoes: what needs no program around it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod channels;
mod children;
mod echo;
mod leases;
