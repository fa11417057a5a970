//! The organisation: tasks that agents give each other, calls that wait for their answers, and
//! the chains all of that belongs to.

pub mod assign;
pub mod cancel;
pub(crate) mod chain;
pub mod expiry;
pub mod letters;
mod new_item;
mod parties;
pub mod questions;
pub mod receive;
pub mod reminders;
pub(crate) mod results;
pub mod task_views;
pub mod threads;
pub(crate) mod waits;
