//! What doors read. Nothing here changes what a turn does.

pub mod audit;
pub mod budgets;
pub mod logs;
pub mod usage;

mod context_meter;
mod files;
mod page;
pub(crate) mod providers;
pub(crate) mod query;
pub(crate) mod search;
mod sessions;
mod transcript;
