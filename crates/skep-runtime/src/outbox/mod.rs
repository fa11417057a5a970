//! The way out: frames to channels, and the end of a message to whoever waits for it.

mod dispatch;
mod pump;
mod records;
mod waiters;

pub(crate) use dispatch::{Dispatcher, Wake};
pub(crate) use pump::run;
pub(crate) use waiters::Waiters;
