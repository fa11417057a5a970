//! The organisation: tasks that agents give each other, calls that wait for their answers, and
//! the chains all of that belongs to.

pub mod assign;
pub mod cancel;
pub(crate) mod chain;
pub mod expiry;
mod hierarchy;
pub mod letters;
mod new_item;
pub mod ops;
pub mod questions;
pub mod receive;
pub mod reminders;
pub(crate) mod results;
pub(crate) mod shape;
pub mod shutdown;
pub mod spawn;
pub mod task_views;
pub mod teams;
pub mod threads;
pub mod timing;
pub(crate) mod waits;
pub mod work;
