//! What people decide and how they come in: approvals, policies, calls of unknown outcome, what
//! agents ask operators, whether an agent works, its file, profiles, tokens, the vault, browsers,
//! requests sent twice.

pub mod outcomes;

pub(crate) mod agent_files;
pub(crate) mod approvals;
pub(crate) mod browsers;
pub mod life_cycle;
pub(crate) mod policies;
pub(crate) mod profiles;
pub(crate) mod questions;
pub(crate) mod requests;
pub(crate) mod tokens;
pub(crate) mod vault;
