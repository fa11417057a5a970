//! Who listens where: frames of a channel go to its sockets, provisional text to those that asked
//! for it. One subscription to the hive's events serves all sockets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::extract::ws::Utf8Bytes;
use futures_util::{FutureExt, StreamExt};
use skep_core::channel::{Channel, Delivery, InboundHandle};
use skep_core::event::{DeltaPart, Event, EventKind};
use skep_core::frame::Frame;
use skep_core::ids::{ChannelId, SessionKey, TurnId};
use skep_core::{BoxFuture, BoxStream};
use skep_runtime::door::{DoorError, Identity, Inbound, OpenedChannel, Receipt, Sight, TurnInfo};
use skep_runtime::{Hive, Live};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::channel::event_texts::EventTexts;
use crate::channel::frame::{self, DeltaMark, Place};

/// Frames waiting for one socket. A reader that falls further behind is told `resync` and gets the
/// durable ones from their rows.
const QUEUE: usize = 512;
/// Frames waiting for the hub's task; further ones overtake what is provisional.
const FRAMES: usize = 4096;
/// Events passed on before a frame: more than the hive keeps for a watcher that lags.
const SAID_BEFORE: usize = 10_000;

/// Something on its way to one socket.
#[derive(Clone, Debug)]
pub(crate) enum Push {
    Durable(Arc<Frame>),
    /// A durable frame of before, which the client asked for by sending its message again.
    Again(Arc<Frame>),
    Delta(Arc<DeltaMark>, Utf8Bytes),
    /// Sent as it is.
    Plain(Utf8Bytes),
    Past(Arc<PastPage>),
}

/// A page of stored events for one socket. The next one is read when this is dropped, which is
/// when the socket has taken it.
#[derive(Debug)]
pub(crate) struct PastPage {
    pub(crate) texts: Vec<Utf8Bytes>,
    pub(crate) _taken: oneshot::Sender<()>,
}

pub(crate) struct Hub {
    // A lock, because sockets come and go beside the task that routes. Nobody holds it longer
    // than a look-up and a few `try_send`s.
    registry: Mutex<Registry>,
    next_seat: AtomicU64,
    frames: mpsc::Sender<Arc<Frame>>,
    /// The way in, from the start on.
    inbound: OnceLock<InboundHandle>,
    /// Live events as sockets get them.
    texts: EventTexts,
}

/// What the hub's task reads.
pub(crate) struct Feed {
    live: BoxStream<'static, Live>,
    frames: mpsc::Receiver<Arc<Frame>>,
}

#[derive(Default)]
struct Registry {
    channels: HashMap<ChannelId, Vec<Seat>>,
    /// By session key; without a place, the conversations of every agent under the key.
    streams: HashMap<SessionKey, Vec<(Option<Place>, Seat)>>,
    /// Where each open turn belongs: its deltas do not say.
    turns: HashMap<TurnId, Place>,
}

/// A socket's end in the hub.
#[derive(Clone)]
struct Seat {
    number: u64,
    queue: mpsc::Sender<Push>,
    lagging: Arc<AtomicBool>,
    /// The socket reads the channel's frames up to this one by itself.
    after: i64,
}

impl Seat {
    fn push(&self, push: Push) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(push) {
            self.lagging.store(true, Ordering::Release);
        }
    }
}

/// A socket's place in the hub; dropping it gives it up.
pub(crate) struct Seated {
    hub: Arc<Hub>,
    channel: ChannelId,
    seat: Seat,
    streams: Mutex<Vec<SessionKey>>,
}

/// The other end of a seat.
pub(crate) struct Queue {
    pub(crate) pushes: mpsc::Receiver<Push>,
    lagging: Arc<AtomicBool>,
}

impl Queue {
    /// Whether frames were left out since this was last asked.
    pub(crate) fn take_lag(&self) -> bool {
        self.lagging.swap(false, Ordering::AcqRel)
    }
}

impl Hub {
    /// `live` is subscribed before a door opens, so that no turn starts unseen.
    pub(crate) fn new(live: BoxStream<'static, Live>) -> (Arc<Self>, Feed) {
        let (sender, frames) = mpsc::channel(FRAMES);
        let (registry, texts) = (Mutex::default(), EventTexts::new(frame::event));
        let (next_seat, inbound) = (AtomicU64::new(0), OnceLock::new());
        let hub = Self { registry, next_seat, frames: sender, inbound, texts };
        (Arc::new(hub), Feed { live, frames })
    }

    pub(crate) fn event_text(&self, event: &Arc<Event>) -> Utf8Bytes {
        self.texts.of(event)
    }

    /// From now on frames of the channel after its newest are queued for this socket; with
    /// `stream` also what is said in that conversation.
    pub(crate) fn sit(
        self: &Arc<Self>,
        opened: &OpenedChannel,
        stream: Option<SessionKey>,
    ) -> (Seated, Queue) {
        let OpenedChannel { channel, seq: after, .. } = opened;
        let (queue, pushes) = mpsc::channel(QUEUE);
        let lagging = Arc::new(AtomicBool::new(false));
        let number = self.next_seat.fetch_add(1, Ordering::Relaxed);
        let seat = Seat { number, queue, lagging: Arc::clone(&lagging), after: *after };
        let mut registry = self.registry();
        registry.channels.entry(channel.clone()).or_default().push(seat.clone());
        let mut keys = Vec::new();
        if let Some(key) = stream {
            registry.streams.entry(key.clone()).or_default().push((None, seat.clone()));
            keys.push(key);
        }
        drop(registry);
        if *after > 0
            && let Some(inbound) = self.inbound.get()
        {
            inbound.present(channel.clone());
        }
        let seated = Seated {
            hub: Arc::clone(self),
            channel: channel.clone(),
            seat,
            streams: Mutex::new(keys),
        };
        (seated, Queue { pushes, lagging })
    }

    /// Sockets that are open.
    pub(crate) fn sockets(&self) -> usize {
        self.registry().channels.values().map(Vec::len).sum()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame over without waiting.
    fn accept(&self, frame: Arc<Frame>) -> Delivery {
        let registry = self.registry();
        if !registry.channels.contains_key(&frame.channel) {
            return Delivery::Absent;
        }
        if let Err(full) = self.frames.try_send(frame) {
            registry.deliver(&full.into_inner());
        }
        Delivery::Delivered
    }

    /// Hands frames, provisional text and tool starts to the sockets, until the hive stops. What
    /// was said before a frame was committed goes out before it.
    pub(crate) async fn route(self: Arc<Self>, hive: Hive, feed: Feed, closing: CancellationToken) {
        let Feed { mut live, mut frames } = feed;
        let open = open_turns(&hive).await;
        self.registry().turns.extend(open);
        loop {
            let frame = tokio::select! {
                () = closing.cancelled() => return,
                next = live.next() => {
                    let Some(next) = next else { return };
                    self.take(&hive, &mut live, next).await;
                    continue;
                }
                frame = frames.recv() => frame,
            };
            let Some(frame) = frame else { return };
            for _ in 0..SAID_BEFORE {
                let Some(Some(next)) = live.next().now_or_never() else { break };
                self.take(&hive, &mut live, next).await;
            }
            self.registry().deliver(&frame);
        }
    }

    async fn take(&self, hive: &Hive, live: &mut BoxStream<'static, Live>, next: Live) {
        match next {
            Live::Event(event) => self.registry().route(&event),
            // Starts and ends may be among the events left out.
            Live::Resync => {
                *live = hive.events();
                let open = open_turns(hive).await;
                self.registry().turns = open;
            }
        }
    }
}

impl Registry {
    fn deliver(&self, frame: &Arc<Frame>) {
        let seats = self.channels.get(&frame.channel).into_iter().flatten();
        for seat in seats.filter(|seat| frame.seq > seat.after) {
            seat.push(Push::Durable(Arc::clone(frame)));
        }
    }

    fn route(&mut self, event: &Event) {
        let Some(turn) = &event.turn else { return };
        match &event.kind {
            EventKind::TurnStart { session_key, .. } => {
                let Some(agent_id) = event.agent_id else { return };
                let (agent, session) = (event.agent.clone(), session_key.clone());
                self.turns.insert(turn.clone(), Place { agent, agent_id, session });
            }
            EventKind::TurnEnd { .. } => {
                self.turns.remove(turn);
            }
            EventKind::Delta { token, call, index, part: DeltaPart::Text, text } => {
                self.stream(turn, |place| {
                    let (turn, token) = (turn.0.clone(), token.0);
                    let mark = DeltaMark { turn, token, call: *call, index: *index };
                    let wire = frame::delta(place, &mark, text);
                    Push::Delta(Arc::new(mark), wire)
                });
            }
            EventKind::ToolStart { tool, .. } => {
                self.stream(turn, |place| Push::Plain(frame::progress(place, turn.as_str(), tool)));
            }
            _ => {}
        }
    }

    /// Builds what is to be pushed only when somebody listens.
    fn stream(&self, turn: &TurnId, build: impl FnOnce(&Place) -> Push) {
        let Some(place) = self.turns.get(turn) else { return };
        let listeners = self.streams.get(&place.session).into_iter().flatten();
        let mut seats = listeners.filter(|(wanted, _)| covers(wanted, place)).peekable();
        if seats.peek().is_some() {
            let push = build(place);
            seats.for_each(|(_, seat)| seat.push(push.clone()));
        }
    }
}

fn covers(wanted: &Option<Place>, place: &Place) -> bool {
    wanted.as_ref().is_none_or(|one| one == place)
}

/// Turns that began before we listened.
async fn open_turns(hive: &Hive) -> HashMap<TurnId, Place> {
    match hive.snapshot(&Identity::owner(), &Sight::All).await {
        Ok(snapshot) => {
            let place = |turn: TurnInfo| {
                let TurnInfo { turn, agent, agent_id, session_key: session, .. } = turn;
                (turn, Place { agent, agent_id, session })
            };
            snapshot.turns.into_iter().map(place).collect()
        }
        Err(error) => {
            tracing::warn!(%error, "streams of turns already open are not shown");
            HashMap::new()
        }
    }
}

impl Channel for Hub {
    fn id(&self) -> &str {
        "ws"
    }

    /// Sockets read what comes in.
    fn start(self: Arc<Self>, inbound: InboundHandle) -> BoxFuture<'static, ()> {
        let _ = self.inbound.set(inbound);
        std::future::ready(()).boxed()
    }

    fn send(self: Arc<Self>, frame: Arc<Frame>) -> BoxFuture<'static, Delivery> {
        std::future::ready(self.accept(frame)).boxed()
    }
}

impl Seated {
    pub(crate) fn queue(&self) -> &mpsc::Sender<Push> {
        &self.seat.queue
    }

    /// Hands a message in.
    pub(crate) fn submit(
        &self,
        inbound: Inbound,
    ) -> BoxFuture<'static, Result<Receipt, DoorError>> {
        match self.hub.inbound.get() {
            Some(handle) => handle.submit(inbound),
            None => std::future::ready(Err(DoorError::failed())).boxed(),
        }
    }

    /// Conversations with an open turn whose stream comes to this socket.
    pub(crate) fn open_places(&self) -> Vec<Place> {
        let registry = self.hub.registry();
        let listens = |place: &Place| {
            let listeners = registry.streams.get(&place.session).into_iter().flatten();
            let mut own = listeners.filter(|(_, seat)| seat.number == self.seat.number);
            own.any(|(wanted, _)| covers(wanted, place))
        };
        registry.turns.values().filter(|place| listens(place)).cloned().collect()
    }

    /// Streams of this conversation too come to this socket from now on.
    pub(crate) fn follow(&self, place: &Place) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let mut registry = self.hub.registry();
        let listeners = registry.streams.entry(place.session.clone()).or_default();
        let number = self.seat.number;
        let covered =
            listeners.iter().any(|(wanted, seat)| seat.number == number && covers(wanted, place));
        if !covered {
            listeners.push((Some(place.clone()), self.seat.clone()));
            streams.push(place.session.clone());
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let number = self.seat.number;
        let streams = self.streams.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut registry = self.hub.registry();
        if let Some(seats) = registry.channels.get_mut(&self.channel) {
            seats.retain(|seat| seat.number != number);
            if seats.is_empty() {
                registry.channels.remove(&self.channel);
            }
        }
        for key in streams.drain(..) {
            if let Some(listeners) = registry.streams.get_mut(&key) {
                listeners.retain(|(_, seat)| seat.number != number);
                if listeners.is_empty() {
                    registry.streams.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
