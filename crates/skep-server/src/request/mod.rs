//! What a client sends, read strictly, and how it is refused.
//!
//! Nothing here knows the hive's doors: bodies, parameters, headers and files become values, and
//! what cannot be used becomes a [`problem::Problem`].

pub(crate) mod attachment;
pub(crate) mod decision;
pub(crate) mod extract;
pub(crate) mod header;
pub(crate) mod openai_error;
pub(crate) mod permit;
pub(crate) mod problem;
