//! `Channel`: where messages come from and where frames go. An adapter never talks to an engine; a
//! failing one stops no other.

use std::sync::Arc;

use crate::traits::inbound::{DoorError, Inbound, Receipt};
use crate::vocab::frame::Frame;
use crate::vocab::ids::ChannelId;
use crate::{BoxFuture, Millis};

pub trait Channel: Send + Sync {
    /// The word before the colon of its channel ids, such as `ws`.
    fn id(&self) -> &str;

    /// Called once, before the first frame. The future reads what comes in; the hive runs it and
    /// drops it when it stops.
    fn start(self: Arc<Self>, inbound: InboundHandle) -> BoxFuture<'static, ()>;

    /// Hands a durable frame on. Frames of one channel id come one after the other, in order of
    /// their `seq`. A frame may come again with the same id: after a crash, and when this took
    /// longer than a minute.
    fn send(self: Arc<Self>, frame: Arc<Frame>) -> BoxFuture<'static, Delivery>;
}

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At least one listener received it.
    Delivered,
    /// Nobody listens now. It is sent again when the channel says that somebody does, or after a
    /// restart.
    Absent,
    /// Not now; it and the frames behind it are sent from this time on.
    Retry { at: Millis },
    /// Never. The reason is shown with the message.
    Refused { why: String },
}

/// The way in, as a channel gets it.
#[derive(Clone)]
pub struct InboundHandle {
    submit: Arc<Submit>,
    present: Arc<dyn Fn(ChannelId) + Send + Sync>,
}

type Submit = dyn Fn(Inbound) -> BoxFuture<'static, Result<Receipt, DoorError>> + Send + Sync;

impl InboundHandle {
    pub fn new(
        submit: impl Fn(Inbound) -> BoxFuture<'static, Result<Receipt, DoorError>>
        + Send
        + Sync
        + 'static,
        present: impl Fn(ChannelId) + Send + Sync + 'static,
    ) -> Self {
        Self { submit: Arc::new(submit), present: Arc::new(present) }
    }

    /// Takes a message. It is queued in the order of the calls before this returns; the future
    /// gives the receipt once it is durable.
    pub fn submit(&self, inbound: Inbound) -> BoxFuture<'static, Result<Receipt, DoorError>> {
        (self.submit)(inbound)
    }

    /// Somebody listens again: what the channel id was not sent goes out.
    pub fn present(&self, channel: ChannelId) {
        (self.present)(channel);
    }
}
