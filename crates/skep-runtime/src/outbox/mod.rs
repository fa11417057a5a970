//! The way out: frames to channels, and the end of a message to whoever waits for it.

mod dispatch;
mod waiters;

pub(crate) use dispatch::{Dispatcher, run};
pub(crate) use waiters::Waiters;
