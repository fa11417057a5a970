//! The way out: frames to channels, one pump for each, and the end of a message to whoever waits
//! for it.
//!
//! A slow or failing channel delays no other. This crate never knows a socket, a turn or who may
//! see what.

mod dispatch;
mod pump;
mod records;
mod waiters;

pub use dispatch::{Dispatcher, Inlet, Wake, Wakes};
pub use pump::run;
pub use waiters::Waiters;
