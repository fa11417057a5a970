//! The task that keeps the index of what was said near.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use skep_core::event::{Event, EventKind};
use skep_store::Store;
use skep_store::search::{self, IndexSpoken};

/// The index takes rows once there are this many; a search takes what is left before it looks.
const PIECE: u32 = 256;

/// Counts new messages and says when the index should take them.
#[derive(Default)]
pub(crate) struct Indexer {
    unseen: AtomicI64,
    wake: Notify,
}

impl Indexer {
    /// Called with every committed event.
    pub fn note(&self, event: &Event) {
        if let EventKind::HistoryUpdated { first, last } = &event.kind {
            let more = last - first + 1;
            let unseen = self.unseen.fetch_add(more, Ordering::Relaxed) + more;
            if unseen >= i64::from(PIECE) {
                self.unseen.store(0, Ordering::Relaxed);
                self.wake.notify_one();
            }
        }
    }
}

/// Takes rows into the index, a piece a commit, so that nobody waits long for the writer.
pub(crate) async fn keep_up(store: Store, indexer: Arc<Indexer>, draining: CancellationToken) {
    loop {
        let behind = store.read(search::behind).await;
        let mut behind = behind.unwrap_or_default();
        while behind >= i64::from(PIECE) && !draining.is_cancelled() {
            match store.write(IndexSpoken { rows: PIECE }).await {
                Ok(left) => behind = left,
                Err(error) => {
                    tracing::warn!(%error, "the search index waits; again with more messages");
                    break;
                }
            }
        }
        tokio::select! {
            () = draining.cancelled() => return,
            () = indexer.wake.notified() => {}
        }
    }
}
