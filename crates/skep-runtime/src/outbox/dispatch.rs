//! From the outbox to the channels. The rows are what counts: a frame that is not handed on here
//! is found by its `seq` when the client comes back or sees the gap.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use skep_core::channel::Channel;
use skep_core::frame::Frame;
use skep_core::ids::ChannelId;

/// Frames on their way to channels; what is beyond is left to replay.
const DEPTH: usize = 4096;

#[derive(Clone)]
pub(crate) struct Dispatcher {
    sender: mpsc::Sender<Frame>,
    /// Written once per channel at start, read per frame.
    channels: Arc<RwLock<HashMap<String, Arc<dyn Channel>>>>,
    /// The newest frame of each channel that found the queue full. Handed on when it is empty:
    /// its `seq` shows the gap, and the rows fill it.
    missed: Arc<Mutex<HashMap<ChannelId, Frame>>>,
}

impl Dispatcher {
    pub fn new() -> (Self, mpsc::Receiver<Frame>) {
        let (sender, receiver) = mpsc::channel(DEPTH);
        (Self { sender, channels: Arc::default(), missed: Arc::default() }, receiver)
    }

    pub fn add(&self, channel: Arc<dyn Channel>) {
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        channels.insert(channel.id().to_owned(), channel);
    }

    /// Called by the writer after a commit: never waits.
    pub fn frames(&self, frames: Vec<Frame>) {
        for frame in frames {
            if let Err(TrySendError::Full(frame)) = self.sender.try_send(frame) {
                self.missed().insert(frame.channel.clone(), frame);
            }
        }
    }

    fn missed(&self) -> MutexGuard<'_, HashMap<ChannelId, Frame>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn hand_on(&self, frame: Frame) {
        if let Some(channel) = self.channel_of(&frame.channel) {
            channel.send(Arc::new(frame)).await;
        }
    }

    fn channel_of(&self, id: &ChannelId) -> Option<Arc<dyn Channel>> {
        let word = id.as_str().split(':').next().unwrap_or_default();
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        channels.get(word).cloned()
    }
}

/// Hands frames on until the hive ends.
pub(crate) async fn run(
    dispatcher: Dispatcher,
    mut frames: mpsc::Receiver<Frame>,
    cut_hard: CancellationToken,
) {
    loop {
        tokio::select! {
            biased;
            () = cut_hard.cancelled() => return,
            frame = frames.recv() => {
                let Some(frame) = frame else { return };
                dispatcher.hand_on(frame).await;
                if frames.is_empty() {
                    let missed = std::mem::take(&mut *dispatcher.missed());
                    for frame in missed.into_values() {
                        dispatcher.hand_on(frame).await;
                    }
                }
            }
        }
    }
}
