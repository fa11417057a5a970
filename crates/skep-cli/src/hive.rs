//! Which hive is meant, where its home is, and how it is reached.

pub mod client;
mod home;
mod place;
pub(crate) mod stream;

pub use home::Home;
pub use place::Place;
