//! The organisation: tasks that agents give each other, calls that wait for their answers, and
//! the chains all of that belongs to.

pub mod assign;
pub mod cancel;
pub(crate) mod chain;
pub mod expiry;
mod new_item;
mod parties;
pub mod questions;
pub(crate) mod results;
pub mod task_views;
pub(crate) mod waits;
