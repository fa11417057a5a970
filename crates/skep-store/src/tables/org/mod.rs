//! The organisation: tasks that agents give each other, calls that wait for their answers, and
//! the chains all of that belongs to.

pub mod answer;
pub mod assign;
pub mod cancel;
pub(crate) mod chain;
pub mod expiry;
mod hierarchy;
mod new_item;
pub mod ops;
pub(crate) mod results;
pub(crate) mod shape;
pub mod shutdown;
pub mod spawn;
pub mod task_views;
pub mod teams;
pub(crate) mod waits;
