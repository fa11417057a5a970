//! What one watcher of events is sent: stored ones page by page, each when the connection took the
//! one before; then live ones, in heaps.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use skep_core::BoxStream;
use skep_core::event::Event;
use skep_runtime::door::{ActiveTurn, DoorError};
use skep_runtime::{Hive, Live, Watch, WatchItem};
use tokio::time::{Instant, sleep_until};

use crate::door::state::Doors;
use crate::request::permit::Permit;
use crate::stream::event_filter::EventFilter;

/// Between two looks at live events. Every event wakes every watcher otherwise, and a hundred of
/// them leave the machine no time for those who talk.
const PACE: Duration = Duration::from_millis(10);
/// Live events passed on at one look.
const AT_ONCE: usize = 256;

pub(crate) enum Seen<P> {
    /// Empty where nothing of it was asked for.
    Past(P),
    Now(Vec<Arc<Event>>),
    /// Events were left out, or the hive stops: read the state and go on from its `seq`. Nothing
    /// comes after this.
    Resync,
}

pub(crate) struct Watching<P> {
    told: BoxStream<'static, WatchItem<P>>,
    /// Not before this moment the next live ones are taken.
    rest: Option<Instant>,
    over: bool,
}

impl<P: Send + 'static> Watching<P> {
    /// `page` makes a page out of stored events. Also says which model call is under way, where
    /// one conversation was asked for.
    pub(crate) async fn begin(
        doors: &Doors,
        permit: &Permit,
        since: Option<i64>,
        mut filter: EventFilter,
        page: fn(Vec<Event>) -> P,
    ) -> Result<(Option<ActiveTurn>, Self), DoorError> {
        let hive = &doors.hive;
        // Begun before anything is read: what happens in between is in it.
        let live = hive.events();
        let active = filter.resolve(hive, permit.credential()).await?;
        let watch = Asked { hive: hive.clone(), filter, page };
        let told = hive.watch(live, permit.credential(), since, watch);
        Ok((active, Self { told, rest: None, over: false }))
    }

    /// What comes next; can be dropped and called again.
    pub(crate) async fn next(&mut self) -> Seen<P> {
        if let Some(rest) = self.rest {
            sleep_until(rest).await;
            self.rest = None;
        }
        if self.over {
            return Seen::Resync;
        }
        let first = match self.told.next().await {
            Some(WatchItem::Past(page)) => return Seen::Past(page),
            Some(WatchItem::Now(Live::Event(event))) => event,
            Some(WatchItem::Now(Live::Resync)) | None => {
                self.over = true;
                return Seen::Resync;
            }
        };
        let mut heap = vec![first];
        while heap.len() < AT_ONCE {
            match self.told.next().now_or_never() {
                Some(Some(WatchItem::Now(Live::Event(event)))) => heap.push(event),
                None => break,
                // Live ones have begun: no page comes any more.
                Some(Some(WatchItem::Past(_) | WatchItem::Now(Live::Resync)) | None) => {
                    self.over = true;
                    break;
                }
            }
        }
        self.rest = Some(Instant::now() + PACE);
        Seen::Now(heap)
    }
}

/// Of all events, those that were asked for and may be seen.
struct Asked<P> {
    hive: Hive,
    filter: EventFilter,
    page: fn(Vec<Event>) -> P,
}

impl<P: Send + 'static> Watch for Asked<P> {
    type Page = P;

    async fn admits(&mut self, event: &Event) -> bool {
        self.filter.admits(&self.hive, event).await
    }

    async fn page(&mut self, events: Vec<Event>) -> P {
        let mut admitted = Vec::with_capacity(events.len());
        for event in events {
            if self.filter.admits(&self.hive, &event).await {
                admitted.push(event);
            }
        }
        (self.page)(admitted)
    }
}
