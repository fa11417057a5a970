//! The way out: frames to channels, and the end of a message to whoever waits for it.

pub(crate) mod dispatch;
pub(crate) mod follow;
