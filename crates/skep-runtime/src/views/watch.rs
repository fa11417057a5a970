//! What a watcher is told: durable events page by page until it has caught up, then live ones.

use futures_util::{StreamExt, stream};

use skep_core::BoxStream;
use skep_core::event::Event;
use skep_store::{Store, StoreError, watch};
use skep_turn::Live;

/// What a watcher that came late is told.
#[derive(Clone, Debug)]
pub enum WatchItem<P> {
    /// A page of what happened before it caught up.
    Past(P),
    Now(Live),
}

/// Which events a watcher sees, and what it makes of stored ones.
pub trait Watch: Send + 'static {
    /// A page of stored events as it is sent.
    type Page: Send + 'static;

    fn admits(&mut self, event: &Event) -> impl Future<Output = bool> + Send;

    /// Runs on a reader's own thread: many pages at once cost the turns nothing.
    fn page(&mut self, events: Vec<Event>) -> impl Future<Output = Self::Page> + Send;
}

/// What the watcher sees of everything durable after `since`, page by page as it takes them, then
/// of what happens, without gap or double. Without `since`: from now. `live` was begun before;
/// `who` shares the readers of pages with the others who ask.
pub(crate) fn watch<W: Watch>(
    live: BoxStream<'static, Live>,
    store: Store,
    who: String,
    since: Option<i64>,
    watch: W,
) -> BoxStream<'static, WatchItem<W::Page>> {
    let catching_up = since.is_some();
    let watcher = Watcher { live, store, who, seen: since, catching_up, watch };
    let told = stream::unfold(Some(watcher), |watcher| async move { watcher?.next().await });
    told.boxed()
}

struct Watcher<W> {
    live: BoxStream<'static, Live>,
    store: Store,
    who: String,
    /// The newest durable event handed on.
    seen: Option<i64>,
    catching_up: bool,
    watch: W,
}

/// What is told, and who goes on; nobody after a `Resync`.
type Step<W> = (WatchItem<<W as Watch>::Page>, Option<Watcher<W>>);

enum Page<P> {
    /// And the `seq` of its last event.
    Read(P, i64),
    /// There are no more; the live ones take over.
    End,
    /// Events after `since` are no longer kept, or it was never given.
    Gone,
}

impl<W: Watch> Watcher<W> {
    async fn next(mut self) -> Option<Step<W>> {
        while self.catching_up {
            let since = self.seen.unwrap_or(0);
            let read = read_page(&self.store, &self.who, since, self.watch).await;
            let Ok((watch, page)) = read else { return Some((WatchItem::Now(Live::Resync), None)) };
            self.watch = watch;
            match page {
                Page::Read(page, last) => {
                    self.seen = Some(last);
                    return Some((WatchItem::Past(page), Some(self)));
                }
                Page::End => self.catching_up = false,
                Page::Gone => return Some((WatchItem::Now(Live::Resync), None)),
            }
        }
        loop {
            let event = match self.live.next().await? {
                Live::Event(event) => event,
                Live::Resync => return Some((WatchItem::Now(Live::Resync), None)),
            };
            if event.seq.is_some() {
                if event.seq <= self.seen {
                    continue;
                }
                self.seen = event.seq;
            }
            if self.watch.admits(&event).await {
                return Some((WatchItem::Now(Live::Event(event)), Some(self)));
            }
        }
    }
}

async fn read_page<W: Watch>(
    store: &Store,
    who: &str,
    since: i64,
    mut watch: W,
) -> Result<(W, Page<W::Page>), StoreError> {
    let read = store.read_page(who, async move |conn| {
        let (oldest, newest) = watch::event_range(conn).await?;
        if since > newest || (since < newest && since + 1 < oldest) {
            return Ok((watch, Page::Gone));
        }
        let events = watch::events_since(conn, since).await?;
        let Some(last) = events.last().and_then(|event| event.seq) else {
            return Ok((watch, Page::End));
        };
        let page = watch.page(events).await;
        Ok((watch, Page::Read(page, last)))
    });
    read.await
}
