//! Which hive to use, where its home is, and the client for its doors.

pub mod client;
mod globals;
mod home;
pub(crate) mod ids;
pub(crate) mod stream;

pub use client::{CallError, Client};
pub(crate) use client::{escaped, with_query};
pub use globals::Globals;
pub use home::Home;
pub(crate) use ids::IdList;
pub(crate) use stream::{EventReader, MessageWatch, tell_approval};
