//! One file per command: its arguments and what it does.

pub mod agent;
pub mod approve;
pub mod ask;
pub mod audit;
pub mod budget;
pub mod calls;
pub mod chat;
pub mod down;
pub mod guidance;
pub mod history;
pub mod inbox;
pub mod link;
pub mod provider;
pub mod send;
pub mod session;
pub mod status;
pub mod token;
pub mod tour;
pub mod usage;
pub mod vault;

#[cfg(test)]
#[path = "commands/fake_hive_tests.rs"]
mod fake_hive;
#[cfg(test)]
mod lines_tests;
#[cfg(test)]
mod send_tests;
