//! What one socket is sent. Durable frames go out once and in order of `seq`, whether they come
//! from the hub or from their rows.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures_util::stream::SplitSink;
use futures_util::{FutureExt, SinkExt};
use skep_core::frame::Frame;
use skep_core::message::Block;
use skep_runtime::door::{ActiveTurn, OpenedChannel};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::channel::frame::{self, DeltaMark, Place};
use crate::channel::hub::{Push, Queue, Seated};
use crate::door::state::Doors;
use crate::request::permit::Permit;
use crate::ws::socket::SocketEnd;

const PING_EVERY: Duration = Duration::from_secs(30);
/// A reader that takes nothing for this long is gone.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// Frames passed on before the kernel is asked to take them.
const BATCH: usize = 64;
/// Old frames sent again that are remembered, so that a socket sees each once.
const REMEMBERED: usize = 4096;

pub(crate) struct Outgoing<'a> {
    sink: SplitSink<WebSocket, Message>,
    queue: Queue,
    seated: &'a Seated,
    doors: &'a Doors,
    opened: &'a OpenedChannel,
    permit: &'a Permit,
    /// The last durable frame that was sent.
    last: i64,
    /// Where this socket began: older frames are sent only when they are asked for again…
    base: i64,
    /// …and then once.
    again: BTreeSet<i64>,
    stream: bool,
    /// Model calls whose text so far was sent in one piece: deltas below `index` are in it.
    shown: Vec<DeltaMark>,
}

/// How much there may be to catch up with: much waits for its turn among others who catch up.
#[derive(Clone, Copy)]
enum Rows {
    Few,
    Many,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(
        sink: SplitSink<WebSocket, Message>,
        queue: Queue,
        seated: &'a Seated,
        doors: &'a Doors,
        opened: &'a OpenedChannel,
        permit: &'a Permit,
        stream: bool,
    ) -> Self {
        Self {
            sink,
            queue,
            seated,
            doors,
            opened,
            permit,
            last: opened.seq,
            base: opened.seq,
            again: BTreeSet::new(),
            stream,
            shown: Vec::new(),
        }
    }

    /// Sends until the connection ends. `since` is the last frame the client has.
    pub(crate) async fn run(&mut self, since: Option<i64>) -> SocketEnd {
        match self.greet(since).await {
            Ok(()) => self.pump().await.err().unwrap_or(SocketEnd::Gone),
            Err(ended) => ended,
        }
    }

    async fn greet(&mut self, since: Option<i64>) -> Result<(), SocketEnd> {
        let OpenedChannel { channel, seq, floor } = self.opened;
        self.feed_text(frame::hello(channel, *seq)).await?;
        let since = since.unwrap_or(*seq);
        // Below the floor rows are gone; above the newest there never were any.
        self.last = since.clamp(*floor.min(seq), *seq);
        self.base = self.last;
        if self.last != since {
            self.feed_text(frame::resync(self.last)).await?;
        }
        let rows = if self.last < *seq { Rows::Many } else { Rows::Few };
        self.catch_up(rows).await?;
        self.show_active().await?;
        self.flush().await
    }

    async fn pump(&mut self) -> Result<(), SocketEnd> {
        let mut ping = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.queue.take_lag() {
                self.recover().await?;
                self.flush().await?;
            }
            tokio::select! {
                push = self.queue.pushes.recv() => {
                    let Some(push) = push else { return Ok(()) };
                    self.pass(push).await?;
                    for _ in 0..BATCH {
                        let Ok(push) = self.queue.pushes.try_recv() else { break };
                        self.pass(push).await?;
                    }
                }
                _ = ping.tick() => self.feed(Message::Ping(Default::default())).await?,
            }
            self.flush().await?;
        }
    }

    async fn pass(&mut self, push: Push) -> Result<(), SocketEnd> {
        match push {
            Push::Durable(frame) => self.pass_durable(&frame).await,
            Push::Again(frame) if frame.seq > self.last => self.pass_durable(&frame).await,
            Push::Again(frame) => self.pass_again(&frame).await,
            Push::Delta(mark, _) if self.is_shown(&mark) => Ok(()),
            Push::Delta(_, text) | Push::Plain(text) => self.feed_text(text).await,
            Push::Past(page) => {
                for text in &page.texts {
                    self.feed_text(text.clone()).await?;
                }
                self.flush().await
            }
        }
    }

    async fn pass_durable(&mut self, frame: &Arc<Frame>) -> Result<(), SocketEnd> {
        if frame.seq > self.last + 1 {
            // Commits may be told out of order; the rows know what lies between.
            self.catch_up(Rows::Few).await?;
        }
        if frame.seq <= self.last {
            return Ok(());
        }
        self.feed_text(frame::wire(&frame.to_wire())).await?;
        self.last = frame.seq;
        Ok(())
    }

    /// Somebody asked with an id for the second time: the same answer as before. What this socket
    /// was sent already comes without its `seq`, so that each number comes once.
    async fn pass_again(&mut self, frame: &Frame) -> Result<(), SocketEnd> {
        if self.again.len() >= REMEMBERED {
            self.again.clear();
        }
        let mut wire = frame.to_wire();
        let sent = frame.seq > self.base || !self.again.insert(frame.seq);
        if sent && let Some(fields) = wire.as_object_mut() {
            fields.shift_remove("seq");
            fields.insert("repeated".to_owned(), true.into());
        }
        self.feed_text(frame::wire(&wire)).await
    }

    /// Sends the rows after the last frame sent.
    async fn catch_up(&mut self, rows: Rows) -> Result<(), SocketEnd> {
        loop {
            let (hive, channel) = (&self.doors.hive, &self.opened.channel);
            let page = match rows {
                Rows::Few => hive.frames_after(channel, self.last).await,
                Rows::Many => hive.frames_since(self.permit.credential(), channel, self.last).await,
            };
            let page = page.map_err(|error| {
                tracing::warn!(%channel, %error, "cannot read the frames of a channel");
                SocketEnd::Unreadable
            })?;
            if page.is_empty() {
                return Ok(());
            }
            for row in page {
                self.feed_text(frame::wire(&row.to_wire())).await?;
                self.last = row.seq;
            }
        }
    }

    /// The queue overflowed: durable frames come from their rows, provisional ones start afresh.
    async fn recover(&mut self) -> Result<(), SocketEnd> {
        let mut kept = Vec::new();
        while let Ok(push) = self.queue.pushes.try_recv() {
            if matches!(push, Push::Plain(_) | Push::Again(_) | Push::Past(_)) {
                kept.push(push);
            }
        }
        self.feed_text(frame::resync(self.last)).await?;
        self.catch_up(Rows::Many).await?;
        self.show_active().await?;
        for push in kept {
            self.pass(push).await?;
        }
        Ok(())
    }

    /// What model calls under way have said so far, for a socket that streams.
    async fn show_active(&mut self) -> Result<(), SocketEnd> {
        if !self.stream {
            return Ok(());
        }
        self.shown.clear();
        for place in self.seated.open_places() {
            if let Some(active) = self.doors.hive.active(place.agent_id, &place.session) {
                self.show(&place, &active).await?;
            }
        }
        Ok(())
    }

    async fn show(&mut self, place: &Place, active: &ActiveTurn) -> Result<(), SocketEnd> {
        let texts = active.content.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        let text: String = texts.collect();
        let mut mark = DeltaMark {
            turn: active.turn.0.clone(),
            token: active.token.0,
            call: active.call,
            index: active.deltas.saturating_sub(1),
        };
        if !text.is_empty() {
            self.feed_text(frame::delta(place, &mark, &text)).await?;
        }
        mark.index = active.deltas;
        self.shown.push(mark);
        Ok(())
    }

    /// Whether the text was part of what `show` sent.
    fn is_shown(&mut self, delta: &DeltaMark) -> bool {
        let Some(at) = self.shown.iter().position(|mark| mark.turn == delta.turn) else {
            return false;
        };
        let Some(mark) = self.shown.get(at) else { return false };
        // An older lease or call is void already.
        let reached = (mark.token, mark.call, mark.index);
        if (delta.token, delta.call, delta.index) < reached {
            return true;
        }
        self.shown.swap_remove(at);
        false
    }

    async fn feed_text(&mut self, text: Utf8Bytes) -> Result<(), SocketEnd> {
        self.feed(Message::Text(text)).await
    }

    async fn feed(&mut self, message: Message) -> Result<(), SocketEnd> {
        in_time(poll_fn(|context| self.sink.poll_ready_unpin(context))).await?;
        self.sink.start_send_unpin(message).map_err(|_| SocketEnd::Gone)
    }

    async fn flush(&mut self) -> Result<(), SocketEnd> {
        in_time(poll_fn(|context| self.sink.poll_flush_unpin(context))).await
    }

    /// Says why, as far as the other side still listens. The caller bounds the time.
    pub(crate) async fn say_goodbye(&mut self, ended: &SocketEnd) {
        // The store may be closed by now; the rows are there when the client comes back.
        if matches!(ended, SocketEnd::Stopping)
            && self.catch_up(Rows::Few).await == Err(SocketEnd::Gone)
        {
            return;
        }
        if let Some((code, reason)) = ended.close_code() {
            let close = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
            if self.feed(Message::Close(Some(close))).await.is_err() {
                return;
            }
        }
        // The answer to a client's own close is written here too.
        if let Err(ended) = self.flush().await {
            tracing::trace!(?ended, "a socket ended without its goodbye");
        }
    }
}

/// Mostly the kernel takes it at once: then no timer is made, which would cost more than the frame.
async fn in_time<E>(step: impl Future<Output = Result<(), E>> + Unpin) -> Result<(), SocketEnd> {
    let mut step = step;
    let done = match (&mut step).now_or_never() {
        Some(done) => Ok(done),
        None => timeout(WRITE_TIME, step).await,
    };
    match done {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(SocketEnd::Gone),
    }
}
