//! `/api/v1`: one file per noun, each handler a call of the hive and its answer as JSON. `routes`
//! says how a route is declared.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod budgets;
pub(crate) mod calls;
pub(crate) mod commands;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod hive;
pub(crate) mod items;
pub(crate) mod logs;
mod message_stream;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod policies;
pub(crate) mod providers;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod tokens;
pub(crate) mod usage;
