//! What clients have sent and nobody is done with, in bytes. Every connection counts what it reads,
//! whatever that belongs to: a head, a body, a frame. A little is free. More needs room, of which
//! there is a fixed amount for all and a share for each; where none is left, reading fails. What is
//! large waits until it may be read: one of each sender at a time, and few of all.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use skep_core::ids::Principal;
use skep_runtime::door::Quota;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::PollSemaphore;

/// For all connections together, beside what is large.
pub(crate) const ROOM: usize = 32 << 20;
/// As soon as this much of it is taken, there is none for those who have shown no credential.
pub(crate) const ROOM_OF_STRANGERS: usize = 8 << 20;
/// Of it for one credential.
pub(crate) const SHARE: usize = 8 << 20;
/// Of it for the connections of one address that have shown no credential.
pub(crate) const SHARE_OF_STRANGERS: usize = 4 << 20;
/// What a connection may have without room: most heads and messages.
pub(crate) const FREE: usize = 16 * 1024;
/// What is longer is large.
pub(crate) const LARGE: usize = 256 * 1024;
/// Large ones that are read at the same time, of different senders.
pub(crate) const LARGE_AT_ONCE: usize = 2;
/// Room is taken in pieces of this size.
const PIECE: usize = 64 * 1024;

/// Who sends, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sender {
    Stranger(IpAddr),
    Known(Principal),
    /// The owner of the home, at the local socket.
    Owner,
}

/// What is taken. A lock and not a task: an update is a few instructions and never waits.
pub(crate) struct IntakeRoom {
    taken: Mutex<Taken>,
    large: Arc<Semaphore>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_sender: HashMap<Sender, usize>,
    /// Who has something large, or waits for it: one turn each.
    turns: HashMap<Sender, Arc<Semaphore>>,
}

impl Default for IntakeRoom {
    fn default() -> Self {
        Self { taken: Mutex::default(), large: Arc::new(Semaphore::new(LARGE_AT_ONCE)) }
    }
}

impl IntakeRoom {
    fn take(&self, sender: &Sender, bytes: usize) -> Result<(), Full> {
        let mut taken = self.lock();
        let (room, share) = match sender {
            Sender::Stranger(_) => (ROOM_OF_STRANGERS, SHARE_OF_STRANGERS),
            Sender::Known(_) => (ROOM, SHARE),
            Sender::Owner => (ROOM, ROOM),
        };
        let own = taken.by_sender.get(sender).copied().unwrap_or_default();
        let (all, own) = (taken.all + bytes, own + bytes);
        if all > room || own > share {
            return Err(Full);
        }
        taken.all = all;
        taken.by_sender.insert(sender.clone(), own);
        Ok(())
    }

    fn give_back(&self, sender: &Sender, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut taken = self.lock();
        taken.all = taken.all.saturating_sub(bytes);
        let left = taken.by_sender.get(sender).copied().unwrap_or_default().saturating_sub(bytes);
        match left {
            0 => drop(taken.by_sender.remove(sender)),
            left => drop(taken.by_sender.insert(sender.clone(), left)),
        }
    }

    /// A place in both lines: the sender's own, then the one of all.
    fn line_up(&self, sender: &Sender) -> Line {
        let mut taken = self.lock();
        // Those nobody has or waits for any more.
        taken.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        let own = taken.turns.entry(sender.clone()).or_insert_with(|| Arc::new(Semaphore::new(1)));
        let own = PollSemaphore::new(Arc::clone(own));
        Line { own, turn: None, all: PollSemaphore::new(Arc::clone(&self.large)) }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the turn to read something large.
struct Line {
    own: PollSemaphore,
    turn: Option<OwnedSemaphorePermit>,
    all: PollSemaphore,
}

/// The turn to read something large.
struct LargeTurn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Line {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<LargeTurn> {
        if self.turn.is_none() {
            self.turn = ready!(self.own.poll_acquire(context));
        }
        // Neither semaphore is ever closed.
        let all = ready!(self.all.poll_acquire(context));
        match (self.turn.take(), all) {
            (Some(own), Some(all)) => Poll::Ready(LargeTurn { _own: own, _all: all }),
            _ => Poll::Pending,
        }
    }
}

/// There is no room for what a client sends.
#[derive(Debug, thiserror::Error)]
#[error("too much is being sent at the same time")]
pub(crate) struct Full;

impl Full {
    /// Whether this is why a connection could not be read.
    pub(crate) fn is_in(error: &(dyn std::error::Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            let read = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if read.is_some_and(|inner| inner.is::<Self>()) {
                return true;
            }
            next = error.source();
        }
        false
    }

    pub(crate) fn quota() -> Quota {
        Quota::new("unread", SHARE as u64, 0).of("content-bytes")
    }
}

/// One connection. Copies are of the same one.
#[derive(Clone)]
pub(crate) struct Intake(Arc<Reading>);

struct Reading {
    room: Arc<IntakeRoom>,
    now: Mutex<Unread>,
}

struct Unread {
    sender: Sender,
    /// Read since what came before was done with, and since when.
    bytes: usize,
    since: Option<Instant>,
    /// Taken of the room.
    held: usize,
    large: Large,
}

#[derive(Default)]
enum Large {
    #[default]
    No,
    Waits(Box<Line>),
    Yes {
        _turn: LargeTurn,
    },
}

impl Intake {
    pub(crate) fn new(room: Arc<IntakeRoom>, sender: Sender) -> Self {
        let now = Mutex::new(Unread { sender, bytes: 0, since: None, held: 0, large: Large::No });
        Self(Arc::new(Reading { room, now }))
    }

    /// From now on this one counts for what comes.
    pub(crate) fn belongs_to(&self, principal: &Principal) {
        let mut now = self.0.lock();
        if !matches!(now.sender, Sender::Stranger(_) | Sender::Known(_)) {
            return;
        }
        let known = Sender::Known(principal.clone());
        let held = std::mem::take(&mut now.held);
        self.0.room.give_back(&now.sender, held);
        now.sender = known;
        // Little more than a head; without room for it the next bytes are refused.
        if self.0.room.take(&now.sender, held).is_ok() {
            now.held = held;
        }
    }

    /// Ready when more may be read.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut now = self.0.lock();
        if now.bytes <= LARGE {
            return Poll::Ready(Ok(()));
        }
        if matches!(now.sender, Sender::Stranger(_)) {
            return Poll::Ready(Err(io::Error::other(Full)));
        }
        if matches!(now.large, Large::No) {
            now.large = Large::Waits(Box::new(self.0.room.line_up(&now.sender)));
        }
        if let Large::Waits(line) = &mut now.large {
            now.large = Large::Yes { _turn: ready!(line.poll(context)) };
        }
        Poll::Ready(Ok(()))
    }

    /// Counts bytes that were read.
    pub(crate) fn took(&self, bytes: usize) -> io::Result<()> {
        let mut now = self.0.lock();
        now.bytes = now.bytes.saturating_add(bytes);
        now.since.get_or_insert_with(Instant::now);
        let needed = now.bytes.saturating_sub(FREE).next_multiple_of(PIECE);
        if needed > now.held && !matches!(now.large, Large::Yes { .. }) {
            let more = needed - now.held;
            self.0.room.take(&now.sender, more).map_err(io::Error::other)?;
            now.held = needed;
        }
        Ok(())
    }

    /// Bytes among those read that are done with, while what was begun before them goes on.
    pub(crate) fn forget(&self, bytes: usize) {
        let mut now = self.0.lock();
        now.bytes = now.bytes.saturating_sub(bytes);
        if now.bytes == 0 {
            now.since = None;
        }
    }

    /// Since when something is on its way.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.0.lock().since
    }

    /// All that was read so far is one thing; its room is free when the result is dropped.
    pub(crate) fn hand_over(&self) -> HeldRoom {
        let mut now = self.0.lock();
        now.bytes = 0;
        now.since = None;
        let (bytes, large) = (std::mem::take(&mut now.held), std::mem::take(&mut now.large));
        let room = Arc::clone(&self.0.room);
        HeldRoom { room, sender: now.sender.clone(), bytes, _large: large }
    }
}

impl Reading {
    fn lock(&self) -> MutexGuard<'_, Unread> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let now = self.lock();
        self.room.give_back(&now.sender, now.held);
    }
}

/// Room of something that was read and is being worked on.
pub(crate) struct HeldRoom {
    room: Arc<IntakeRoom>,
    sender: Sender,
    bytes: usize,
    _large: Large,
}

impl Drop for HeldRoom {
    fn drop(&mut self) {
        self.room.give_back(&self.sender, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn taken(room: &IntakeRoom) -> usize {
        let taken = room.lock();
        assert_eq!(taken.all, taken.by_sender.values().sum::<usize>());
        taken.all
    }

    fn ready(intake: &Intake) -> bool {
        let polled = intake.poll_ready(&mut Context::from_waker(std::task::Waker::noop()));
        polled.map(Result::unwrap).is_ready()
    }

    #[test]
    fn room_is_shared_and_given_back() {
        let room = Arc::new(IntakeRoom::default());
        let of = |name: &str| Intake::new(Arc::clone(&room), Sender::Known(Principal::new(name)));
        let (first, second, third) = (of("a"), of("a"), of("b"));
        first.took(FREE).unwrap();
        assert_eq!(taken(&room), 0, "a little needs no room");
        first.took(SHARE / 2).unwrap();
        let full = second.took(SHARE).unwrap_err();
        assert!(Full::is_in(&full) && !Full::is_in(&io::Error::other("x")));
        third.took(SHARE).unwrap();
        assert_eq!(taken(&room), SHARE / 2 + SHARE);
        let address = Sender::Stranger("192.0.2.1".parse().unwrap());
        let stranger = Intake::new(Arc::clone(&room), address);
        assert!(stranger.took(2 * FREE).is_err(), "strangers get what nobody else needs");
        let others = ["c", "d", "e"].map(of);
        let got = others.each_ref().map(|other| other.took(SHARE).is_ok());
        assert_eq!(got, [true, true, false], "there is none for anybody");
        drop(others);
        let held = first.hand_over();
        assert!(first.since().is_none() && second.took(1).is_err(), "it is worked on");
        drop(held);
        second.took(1).unwrap();
        drop((first, second, third));
        assert_eq!(taken(&room), 0);
    }

    #[test]
    fn large_ones_are_read_one_after_the_other() {
        let room = Arc::new(IntakeRoom::default());
        let of = |name: &str| Intake::new(Arc::clone(&room), Sender::Known(Principal::new(name)));
        let (first, second, other, third) = (of("a"), of("a"), of("b"), of("c"));
        for one in [&first, &second, &other, &third] {
            one.took(LARGE).unwrap();
            assert!(ready(one));
            one.took(1).unwrap();
        }
        assert_eq!([&first, &second, &other, &third].map(ready), [true, false, true, false]);
        let before = taken(&room);
        first.took(60 << 20).unwrap();
        assert_eq!(taken(&room), before, "whose turn it is needs no more room");
        let held = first.hand_over();
        assert_eq!([&second, &third].map(ready), [false, false], "it is worked on");
        drop(held);
        // Who came first in the line of all.
        assert_eq!([&third, &second].map(ready), [true, false]);
        drop((other, third));
        assert!(ready(&second));
        drop((first, second));
        assert_eq!(room.large.available_permits(), LARGE_AT_ONCE);
    }

    #[test]
    fn strangers_have_less_until_they_are_known() {
        let room = Arc::new(IntakeRoom::default());
        let address = || Sender::Stranger("192.0.2.1".parse().unwrap());
        let stranger = Intake::new(Arc::clone(&room), address());
        stranger.took(FREE + PIECE).unwrap();
        assert!(Intake::new(Arc::clone(&room), address()).took(SHARE_OF_STRANGERS).is_err());
        stranger.belongs_to(&Principal::new("a"));
        stranger.took(SHARE - PIECE).unwrap();
        assert_eq!(taken(&room), SHARE);
    }

    #[test]
    fn what_goes_between_does_not_end_what_was_begun() {
        let one = Intake::new(Arc::default(), Sender::Owner);
        one.took(100).unwrap();
        one.forget(60);
        assert!(one.since().is_some());
        one.forget(40);
        assert!(one.since().is_none());
    }
}
