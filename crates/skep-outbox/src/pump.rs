//! The pump of one channel: sends its frames and records what became of each. A frame comes from
//! the commit that made it; where something was not sent, frames come from their rows.
//!
//! Frames of one channel id go out one after the other, in order. Channel ids do not wait for each
//! other, and no pump waits for another.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use skep_core::channel::{Channel, Delivery};
use skep_core::frame::Frame;
use skep_core::ids::ChannelId;
use skep_core::{BoxFuture, Millis};
use skep_guard::clock;
use skep_store::outbox::{self, PendingFrame};
use skep_store::{Pending, Store, StoreError};

use crate::dispatch::{Wake, Wakes};
use crate::records::DeliveryRecords;

/// Frames under way at once, each of another channel id.
const SENDING: usize = 64;
/// Channel ids with something to send that are kept in mind; further ones are found in the rows.
const LANES: usize = 4096;
/// A channel that takes longer than this is asked again later.
const SEND_TIME: Duration = Duration::from_secs(60);
/// The least time before something is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// Before a frame is sent again that took too long, or whose row could not be read.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// A frame that was delivered and has no record yet goes out again after a crash. So long records
/// are collected.
const RECORD_EVERY: Duration = Duration::from_secs(5);

struct Pump {
    channel: Arc<dyn Channel>,
    store: Store,
    wakes: Wakes,
    /// Channel ids with something to send, or under way.
    lanes: HashMap<ChannelId, Lane>,
    /// Those of the lanes that are [`Lane::Ready`].
    ready: VecDeque<ChannelId>,
    /// Those that are [`Lane::Waits`], by time.
    due: BTreeSet<(Millis, ChannelId)>,
    /// Channel ids whose first frame nobody took: what comes later goes out behind it.
    absent: HashSet<ChannelId>,
    sending: FuturesUnordered<BoxFuture<'static, Sent>>,
    /// The rows of channel ids after this one are still to be looked at.
    sweep: Option<String>,
    records: DeliveryRecords,
    /// A record that people look for is not collected.
    urgent: bool,
    writing: Option<Pending<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Its next frame is read from the rows.
    Ready,
    /// A frame is under way. `more`: the rows have others behind it. `present`: somebody has come
    /// since it was sent.
    Sending {
        more: bool,
        present: bool,
    },
    Waits,
}

type Sent = (Arc<Frame>, Delivery);

/// Whether the rows of a channel id may have more behind a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    More,
    Empty,
}

/// Who listens, since a frame was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listener {
    AsBefore,
    Came,
}

/// Sends until the hive ends.
pub async fn run(
    channel: Arc<dyn Channel>,
    store: Store,
    wakes: Wakes,
    cut_hard: CancellationToken,
) {
    let mut pump = Pump {
        channel,
        store,
        wakes,
        lanes: HashMap::new(),
        absent: HashSet::new(),
        ready: VecDeque::new(),
        due: BTreeSet::new(),
        sending: FuturesUnordered::new(),
        sweep: Some(String::new()),
        records: DeliveryRecords::default(),
        urgent: false,
        writing: None,
    };
    let mut tick = tokio::time::interval(RECORD_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !cut_hard.is_cancelled() {
        pump.work(&mut tick, &cut_hard).await;
    }
    // The store runs what is queued before it closes.
    if !pump.records.is_empty() {
        pump.record();
    }
}

impl Pump {
    /// One thing that is to be done, or a wait for the next.
    async fn work(&mut self, tick: &mut Interval, cut_hard: &CancellationToken) {
        let next_due = self.due.first().map(|(at, _)| until(*at));
        let room = self.sending.len() < SENDING;
        let has_ready = room && !self.ready.is_empty();
        let sweeps = room && self.sweep.is_some() && self.lanes.len() < LANES;
        let writes = self.writing.is_none() && !self.records.is_empty();
        tokio::select! {
            biased;
            () = cut_hard.cancelled() => {}
            Some((frame, delivery)) = self.sending.next() => self.sent(&frame, delivery),
            () = sleep_until(next_due) => self.wake_due(),
            Some(wake) = self.wakes.queue.recv(), if room => self.take(wake),
            () = std::future::ready(()), if has_ready => self.send_next().await,
            // Behind the queue: what was committed before a record is not sent after it.
            written = written(&mut self.writing), if room => {
                if let Err(error) = written {
                    tracing::warn!(%error, "what became of frames is not recorded");
                }
                self.writing = None;
                self.records.written();
            }
            () = std::future::ready(()), if writes && self.urgent => self.record(),
            _ = tick.tick() => if writes { self.record() },
            () = std::future::ready(()), if sweeps => self.sweep().await,
        }
        if self.wakes.take_lost() {
            self.sweep = Some(String::new());
        }
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Frame(frame) => self.take_frame(frame),
            Wake::Present(channel) => match self.lanes.get_mut(&channel) {
                Some(Lane::Sending { present, .. }) => *present = true,
                _ => self.look_at(channel),
            },
        }
    }

    /// A frame that was just committed goes out without being read, where nothing is before it.
    fn take_frame(&mut self, frame: Frame) {
        let swept = self.sweep.as_ref().is_none_or(|upto| frame.channel.as_str() <= upto.as_str());
        let behind = self.lanes.contains_key(&frame.channel) || self.absent.remove(&frame.channel);
        if !swept || behind {
            self.look_at(frame.channel);
        } else if self.records.over_until(&frame.channel, frame.seq).is_none() {
            self.send(frame, Rows::Empty);
        }
    }

    /// The rows have something for this channel id.
    fn look_at(&mut self, channel: ChannelId) {
        let room = self.lanes.len() < LANES;
        match self.lanes.get_mut(&channel) {
            Some(Lane::Ready | Lane::Waits) => {}
            Some(Lane::Sending { more, .. }) => *more = true,
            None if room => self.make_ready(channel),
            None => self.sweep = Some(String::new()),
        }
    }

    fn make_ready(&mut self, channel: ChannelId) {
        self.lanes.insert(channel.clone(), Lane::Ready);
        self.ready.push_back(channel);
    }

    fn wait(&mut self, channel: ChannelId, at: Millis) {
        self.lanes.insert(channel.clone(), Lane::Waits);
        self.due.insert((at, channel));
    }

    fn wake_due(&mut self) {
        let now = clock::now_ms();
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, channel)) = self.due.pop_first() {
                self.make_ready(channel);
            }
        }
    }

    /// Sends the next frame of a channel id that is ready.
    async fn send_next(&mut self) {
        // A read ends in the thread that began it.
        tokio::task::yield_now().await;
        let Some(channel) = self.ready.pop_front() else { return };
        let mut after = 0;
        loop {
            let read = async |conn: &mut _| outbox::next_undelivered(conn, &channel, after).await;
            match self.store.read(read).await {
                Ok(Some(next)) => match self.records.over_until(&channel, next.frame.seq) {
                    Some(over) => after = over,
                    None => return self.send_in_time(next),
                },
                Ok(None) => {
                    self.lanes.remove(&channel);
                    return;
                }
                Err(error) => {
                    tracing::warn!(%channel, %error, "cannot read the frames to be sent");
                    return self.wait(channel, later(LONG_PAUSE));
                }
            }
        }
    }

    /// Looks at the next channel id that has something to send.
    async fn sweep(&mut self) {
        tokio::task::yield_now().await;
        let Some(upto) = self.sweep.take() else { return };
        let word = self.channel.id();
        let read = async |conn: &mut _| outbox::next_channel(conn, word, &upto).await;
        match self.store.read(read).await {
            Ok(Some(channel)) => {
                self.sweep = Some(channel.to_string());
                self.look_at(channel);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(channel = word, %error, "cannot read the frames to be sent");
                self.sweep = Some(upto);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    fn send_in_time(&mut self, next: PendingFrame) {
        match next.not_before {
            Some(at) if at > clock::now_ms() => self.wait(next.frame.channel, at),
            _ => self.send(next.frame, Rows::More),
        }
    }

    /// Mostly a channel takes a frame at once: then nothing is set up to wait for it.
    fn send(&mut self, frame: Frame, rows: Rows) {
        let frame = Arc::new(frame);
        let mut sending = Arc::clone(&self.channel).send(Arc::clone(&frame));
        if let Some(delivery) = (&mut sending).now_or_never() {
            return self.settle(&frame, delivery, rows, Listener::AsBefore);
        }
        let lane = Lane::Sending { more: rows == Rows::More, present: false };
        self.lanes.insert(frame.channel.clone(), lane);
        let sent = async move {
            let delivery = tokio::time::timeout(SEND_TIME, sending).await;
            let late = |_| Delivery::Retry { at: later(LONG_PAUSE) };
            (frame, delivery.unwrap_or_else(late))
        };
        self.sending.push(sent.boxed());
    }

    /// A frame that was under way is not any more.
    fn sent(&mut self, frame: &Frame, delivery: Delivery) {
        let Some(Lane::Sending { more, present }) = self.lanes.get(&frame.channel) else { return };
        let rows = if *more { Rows::More } else { Rows::Empty };
        let listener = if *present { Listener::Came } else { Listener::AsBefore };
        self.settle(frame, delivery, rows, listener);
    }

    fn settle(&mut self, frame: &Frame, delivery: Delivery, rows: Rows, listener: Listener) {
        let channel = &frame.channel;
        self.lanes.remove(channel);
        let goes_on = match delivery {
            Delivery::Absent => {
                // Beyond the bound it is the order alone that is not kept.
                if self.absent.len() >= LANES {
                    self.absent.clear();
                }
                self.absent.insert(channel.clone());
                listener == Listener::Came
            }
            Delivery::Retry { at } => {
                let at = at.max(later(PAUSE));
                self.records.add(frame, Delivery::Retry { at });
                return self.wait(channel.clone(), at);
            }
            Delivery::Refused { why } => {
                tracing::warn!(%channel, seq = frame.seq, why, "a channel refuses a frame");
                self.records.add(frame, Delivery::Refused { why });
                self.urgent = true;
                rows == Rows::More
            }
            Delivery::Delivered => {
                self.records.add(frame, Delivery::Delivered);
                rows == Rows::More
            }
        };
        if goes_on {
            self.make_ready(channel.clone());
        }
    }

    fn record(&mut self) {
        self.urgent = false;
        self.writing = Some(self.store.submit(self.records.take()));
    }
}

fn later(pause: Duration) -> Millis {
    clock::now_ms().saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX))
}

fn until(at: Millis) -> Duration {
    Duration::from_millis(u64::try_from(at.saturating_sub(clock::now_ms())).unwrap_or(0))
}

async fn sleep_until(due: Option<Duration>) {
    match due {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

async fn written(writing: &mut Option<Pending<()>>) -> Result<(), StoreError> {
    match writing {
        Some(writing) => writing.await,
        None => std::future::pending().await,
    }
}
