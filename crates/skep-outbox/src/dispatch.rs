//! From commits to the pumps of the channels. The rows are what counts: a frame that finds a full
//! queue is read from them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::mpsc;

use skep_core::frame::Frame;
use skep_core::ids::ChannelId;

/// What waits for one pump; what is beyond is read from the rows.
const DEPTH: usize = 4096;

/// What a pump hears of.
pub enum Wake {
    /// A frame was committed.
    Frame(Frame),
    /// Somebody listens on this channel again.
    Present(ChannelId),
}

/// The pumps, by the word their channel ids begin with.
#[derive(Clone, Default)]
pub struct Dispatcher {
    /// Written once per channel at start, read per frame.
    inlets: Arc<RwLock<HashMap<String, Inlet>>>,
}

/// One pump's end of the queue.
#[derive(Clone)]
pub struct Inlet {
    queue: mpsc::Sender<Wake>,
    lost: Arc<AtomicBool>,
}

/// The other end.
pub struct Wakes {
    pub(crate) queue: mpsc::Receiver<Wake>,
    lost: Arc<AtomicBool>,
}

impl Dispatcher {
    pub fn add(&self, word: &str) -> (Inlet, Wakes) {
        let (sender, queue) = mpsc::channel(DEPTH);
        let lost = Arc::new(AtomicBool::new(false));
        let inlet = Inlet { queue: sender, lost: Arc::clone(&lost) };
        let mut inlets = self.inlets.write().unwrap_or_else(PoisonError::into_inner);
        inlets.insert(word.to_owned(), inlet.clone());
        (inlet, Wakes { queue, lost })
    }

    /// Called by the writer after a commit: never waits.
    pub fn frames(&self, frames: Vec<Frame>) {
        if frames.is_empty() {
            return;
        }
        let inlets = self.inlets.read().unwrap_or_else(PoisonError::into_inner);
        for frame in frames {
            let word = frame.channel.as_str().split(':').next().unwrap_or_default();
            if let Some(inlet) = inlets.get(word) {
                inlet.wake(Wake::Frame(frame));
            }
        }
    }
}

impl Inlet {
    pub fn wake(&self, wake: Wake) {
        if self.queue.try_send(wake).is_err() {
            self.lost.store(true, Ordering::Release);
        }
    }
}

impl Wakes {
    /// Whether the queue was too short since this was last asked.
    pub(crate) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::AcqRel)
    }
}
