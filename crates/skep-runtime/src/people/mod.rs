//! What people decide and how they come in: approvals, policies, calls of unknown outcome,
//! tokens, browsers.

pub mod outcomes;

pub(crate) mod approvals;
pub(crate) mod browsers;
pub(crate) mod policies;
pub(crate) mod tokens;
