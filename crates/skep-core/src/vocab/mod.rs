//! The words everything else is said in: ids, messages, events, frames, money and
//! budgets, roles, audit rows.

pub(crate) mod words;

pub mod approval;
pub mod audit;
pub mod audit_export;
pub mod budget;
pub mod cause;
pub(crate) mod compaction_reason;
pub(crate) mod configuration;
pub mod decision;
pub mod event;
pub(crate) mod failure;
pub mod file;
pub mod frame;
pub mod ids;
pub mod message;
pub mod money;
pub mod role;
pub mod spend;
pub mod task;
pub mod time;
