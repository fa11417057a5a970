//! `Channel`: where frames go. An adapter never talks to an engine; a failing one stops no other.

use std::sync::Arc;

use crate::BoxFuture;
use crate::vocab::frame::Frame;

pub trait Channel: Send + Sync {
    /// The word before the colon of its channel ids, such as `ws`.
    fn id(&self) -> &str;

    fn capabilities(&self) -> ChannelCapabilities;

    /// Hands a durable frame on. The row stays whatever happens: a client that comes back gets
    /// it by its `seq`.
    fn send<'a>(&'a self, frame: Arc<Frame>) -> BoxFuture<'a, Delivery>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelCapabilities {
    pub typing: bool,
    pub edits: bool,
    pub buttons: bool,
    pub attachments: bool,
    pub max_message_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At least one listener received it.
    Delivered,
    /// Nobody listens now.
    Absent,
}
