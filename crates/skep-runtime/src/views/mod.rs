//! What doors read. Nothing here changes what a turn does.

pub mod audit;
pub mod budgets;
pub mod guidance;
pub mod logs;
pub mod usage;

mod cache_breaks;
mod context_meter;
pub(crate) mod download;
mod files;
mod follow;
mod page;
mod providers;
mod query;
mod search;
#[cfg(test)]
mod seed_tests;
mod sessions;
mod timing;
mod transcript;
mod turn_outcomes;
pub(crate) mod watch;
mod work;
mod workspace;
