//! Live events inside the process. A watcher that lags is told so; it never slows the publisher.

use std::sync::Arc;

use futures_util::stream;
use tokio::sync::broadcast;

use skep_core::BoxStream;
use skep_core::event::Event;
use skep_store::{Store, StoreError, watch};

/// Events a watcher may be behind before it must read the snapshot anew.
const DEPTH: usize = 8192;
/// Stored events read at once for a watcher that catches up.
const PAGE: u32 = 500;

pub(crate) struct Bus {
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

    /// Everything durable after `since` from the store, then what happens, without gap or double.
    /// Without `since`: from now.
    pub fn watch(&self, store: Store, since: Option<i64>) -> BoxStream<'static, Live> {
        let watcher = Watcher {
            live: self.sender.subscribe(),
            store,
            seen: since,
            backlog: Vec::new().into_iter(),
            catching_up: since.is_some(),
            over: false,
        };
        Box::pin(stream::unfold(watcher, |mut watcher| async move {
            watcher.next().await.map(|live| (live, watcher))
        }))
    }
}

struct Watcher {
    live: broadcast::Receiver<Arc<Event>>,
    store: Store,
    /// The newest durable event handed on.
    seen: Option<i64>,
    backlog: std::vec::IntoIter<Event>,
    catching_up: bool,
    over: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Live> {
        if self.over {
            return None;
        }
        if self.catching_up
            && let Some(event) = self.stored().await
        {
            return Some(event);
        }
        loop {
            match self.live.recv().await {
                Ok(event) => match event.seq {
                    Some(seq) if self.seen.is_some_and(|seen| seq <= seen) => {}
                    Some(seq) => {
                        self.seen = Some(seq);
                        return Some(Live::Event(event));
                    }
                    None => return Some(Live::Event(event)),
                },
                Err(broadcast::error::RecvError::Lagged(_)) => return Some(self.resync()),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// The next stored event; `None` once the store has no more, and the live ones take over.
    async fn stored(&mut self) -> Option<Live> {
        if let Some(event) = self.backlog.next() {
            self.seen = event.seq;
            return Some(Live::Event(Arc::new(event)));
        }
        match self.read_on().await {
            Ok(Some(page)) if page.is_empty() => {
                self.catching_up = false;
                None
            }
            Ok(Some(page)) => {
                self.backlog = page.into_iter();
                let event = self.backlog.next()?;
                self.seen = event.seq;
                Some(Live::Event(Arc::new(event)))
            }
            Ok(None) | Err(_) => Some(self.resync()),
        }
    }

    /// Nothing when events after `seen` are no longer kept, or `seen` was never given.
    async fn read_on(&self) -> Result<Option<Vec<Event>>, StoreError> {
        let since = self.seen.unwrap_or(0);
        self.store
            .read(async move |conn| {
                let (oldest, newest) = watch::event_range(conn).await?;
                if since > newest || (since < newest && since + 1 < oldest) {
                    return Ok(None);
                }
                watch::events_since(conn, since, PAGE).await.map(Some)
            })
            .await
    }

    fn resync(&mut self) -> Live {
        self.over = true;
        Live::Resync
    }
}
