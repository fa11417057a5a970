//! Live events inside the process. A watcher that lags is told so; it never slows the publisher.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio::sync::broadcast;

use skep_core::BoxStream;
use skep_core::event::Event;

/// Events a watcher may be behind before it must read the snapshot anew.
const DEPTH: usize = 8192;

pub struct Bus {
    sender: broadcast::Sender<Arc<Event>>,
}

/// What a watcher is told.
#[derive(Clone, Debug)]
pub enum Live {
    Event(Arc<Event>),
    /// Something was missed: read the snapshot and go on from its `seq`.
    Resync,
}

impl Default for Bus {
    fn default() -> Self {
        Self { sender: broadcast::channel(DEPTH).0 }
    }
}

impl Bus {
    pub fn publish(&self, event: Event) {
        // Nobody listening is no error.
        let _ = self.sender.send(Arc::new(event));
    }

    pub fn is_watched(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// What happens from now on. Nothing comes after a `Resync`.
    pub fn live(&self) -> BoxStream<'static, Live> {
        let receiver = Some(self.sender.subscribe());
        let live = stream::unfold(receiver, |receiver| async move {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Ok(event) => Some((Live::Event(event), Some(receiver))),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Live::Resync, None)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        });
        live.boxed()
    }
}
