//! A channel that a test drives: it takes frames, refuses them, puts them off, hangs, or is not
//! there. It lives in the process of the hive it is added to.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::FutureExt;
use skep_core::channel::{Channel, Delivery, InboundHandle};
use skep_core::frame::Frame;
use skep_core::ids::ChannelId;
use skep_core::{BoxFuture, Millis};
use tokio::sync::watch;

/// What the channel does with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    Take,
    Refuse(String),
    /// Put off to this time.
    Delay(Millis),
    /// Nothing comes back until the manner changes.
    Hang,
    Absent,
}

pub struct ScriptedChannel {
    word: String,
    manner: watch::Sender<Manner>,
    // A lock, because tests look at it beside the pump.
    sent: Mutex<Vec<Arc<Frame>>>,
    inbound: OnceLock<InboundHandle>,
}

impl ScriptedChannel {
    pub fn new(word: &str, manner: Manner) -> Arc<Self> {
        let (manner, _) = watch::channel(manner);
        let (sent, inbound) = (Mutex::default(), OnceLock::new());
        Arc::new(Self { word: word.to_owned(), manner, sent, inbound })
    }

    pub fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// Takes frames again, and says so for this channel id.
    pub fn come_back(&self, channel: &ChannelId) {
        self.set(Manner::Take);
        if let Some(inbound) = self.inbound() {
            inbound.present(channel.clone());
        }
    }

    /// Every frame it was handed, as often as it was.
    pub fn sent(&self) -> Vec<Arc<Frame>> {
        self.lock().clone()
    }

    /// The way into the hive it was added to.
    pub fn inbound(&self) -> Option<&InboundHandle> {
        self.inbound.get()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Frame>>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel for ScriptedChannel {
    fn id(&self) -> &str {
        &self.word
    }

    fn start(self: Arc<Self>, inbound: InboundHandle) -> BoxFuture<'static, ()> {
        assert!(self.inbound.set(inbound).is_ok(), "a channel is started once");
        std::future::ready(()).boxed()
    }

    fn send(self: Arc<Self>, frame: Arc<Frame>) -> BoxFuture<'static, Delivery> {
        self.lock().push(frame);
        async move {
            let mut manner = self.manner.subscribe();
            let settled = manner.wait_for(|manner| *manner != Manner::Hang).await;
            match settled.map(|manner| manner.clone()) {
                Ok(Manner::Take) => Delivery::Delivered,
                Ok(Manner::Refuse(why)) => Delivery::Refused { why },
                Ok(Manner::Delay(at)) => Delivery::Retry { at },
                Ok(Manner::Hang | Manner::Absent) | Err(_) => Delivery::Absent,
            }
        }
        .boxed()
    }
}
