//! The commands that talk to a hive through its doors, the terminal chat, and how results are
//! printed.
//!
//! This crate never opens the store, never reads the settings of a home and never links what
//! serves a hive. Where a command needs the home itself, the program hands that in.

pub mod commands;
pub mod hive;
pub mod print;

mod failure;

pub use failure::{Exit, Failure};
