//! The turns that run in this process. Kept by the commits themselves: an entry appears with the
//! commit that begins a lease, in commit order, so that whoever asks to end a turn finds it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use skep_core::engine::RetryInfo;
use skep_core::event::{CancelReason, Event, EventKind};
use skep_core::fold::Fold;
use skep_core::ids::{AgentId, AgentName, SessionId, SessionKey, Token, TurnId};

use super::call_clock::CallClock;

/// Locked for single map operations only; the writer's notify and every door need it at once, so
/// a handle to an owning task would put a hop into every commit.
#[derive(Default)]
pub struct Registry {
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    by_id: HashMap<TurnId, Arc<Running>>,
    /// A lane runs one at a time.
    by_lane: HashMap<(AgentId, SessionKey), Arc<Running>>,
}

impl Turns {
    fn insert(&mut self, running: Arc<Running>) {
        self.by_lane.insert(running.lane(), Arc::clone(&running));
        self.by_id.insert(running.turn.clone(), running);
    }

    fn remove(&mut self, turn: &TurnId) {
        let Some(running) = self.by_id.remove(turn) else { return };
        let lane = running.lane();
        if self.by_lane.get(&lane).is_some_and(|other| other.turn == *turn) {
            self.by_lane.remove(&lane);
        }
    }
}

/// A turn under way.
pub struct Running {
    pub turn: TurnId,
    pub token: Token,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    pub cancel: CancellationToken,
    /// Its agent is stopped: it gives its lease back, and goes on when the agent does.
    pub cut: CancellationToken,
    reason: OnceLock<CancelReason>,
    /// Tokens of the last model call; 0 before the first.
    used: AtomicU64,
    /// A message came in behind the turn, and may not have joined it yet.
    arrivals: AtomicBool,
    arrived: Notify,
    /// What the model says right now. Shared with late watchers; the turn locks it per delta.
    so_far: Mutex<Fold>,
    /// When it began to; shared and locked like the words.
    times: Mutex<CallClock>,
    /// Wakes the engine where it sits out a pause before its next try.
    pub retry_now: Arc<Notify>,
    /// That pause, and why. Shared with late watchers; locked for a look or a change.
    pause: Mutex<Option<BackOff>>,
}

/// A pause before a model call is made again, and the failure before it.
#[derive(Clone, Debug)]
pub struct BackOff {
    pub retry: RetryInfo,
    pub error: String,
}

impl Running {
    fn lane(&self) -> (AgentId, SessionKey) {
        (self.agent, self.session_key.clone())
    }

    pub fn reason(&self) -> Option<CancelReason> {
        self.reason.get().copied()
    }

    pub fn used(&self) -> Option<u64> {
        Some(self.used.load(Ordering::Relaxed)).filter(|used| *used > 0)
    }

    pub fn note_used(&self, tokens: u64) {
        self.used.store(tokens, Ordering::Relaxed);
    }

    pub fn note_arrival(&self) {
        self.arrivals.store(true, Ordering::Relaxed);
        self.arrived.notify_one();
    }

    /// Returns when a message came in, also one that was taken in meanwhile. One task may wait.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    pub fn has_arrivals(&self) -> bool {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// Before a commit that lets them join: one that comes later is noted anew.
    pub fn forget_arrivals(&self) {
        self.arrivals.store(false, Ordering::Relaxed);
    }

    pub fn back_off(&self, retry: RetryInfo, error: String) {
        *self.lock_pause() = Some(BackOff { retry, error });
    }

    pub fn end_back_off(&self) {
        *self.lock_pause() = None;
    }

    pub fn backs_off(&self) -> Option<BackOff> {
        self.lock_pause().clone()
    }

    fn lock_pause(&self) -> MutexGuard<'_, Option<BackOff>> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn times(&self) -> MutexGuard<'_, CallClock> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn fold(&self) -> MutexGuard<'_, Fold> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Called with every committed event, in commit order.
    pub fn note(&self, event: &Event) {
        if let EventKind::InboxAccepted { session_key, .. } = &event.kind
            && let Some(running) = event.agent_id.and_then(|id| self.of_lane(id, session_key))
        {
            running.note_arrival();
        }
        let Some(turn) = &event.turn else { return };
        match &event.kind {
            EventKind::TurnStart { session_key, token, .. } => {
                let (Some(session), Some(agent)) = (&event.session, event.agent_id) else {
                    return;
                };
                let running = Running {
                    turn: turn.clone(),
                    token: *token,
                    agent,
                    agent_name: event.agent.clone(),
                    session: session.clone(),
                    session_key: session_key.clone(),
                    cancel: CancellationToken::new(),
                    cut: CancellationToken::new(),
                    reason: OnceLock::new(),
                    used: AtomicU64::new(0),
                    arrivals: AtomicBool::new(false),
                    arrived: Notify::new(),
                    so_far: Mutex::default(),
                    times: Mutex::default(),
                    retry_now: Arc::default(),
                    pause: Mutex::default(),
                };
                self.lock().insert(Arc::new(running));
            }
            EventKind::TurnEnd { .. } | EventKind::TurnWaiting { .. } => {
                self.lock().remove(turn);
            }
            _ => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lock().by_id.is_empty()
    }

    pub fn get(&self, turn: &TurnId) -> Option<Arc<Running>> {
        self.lock().by_id.get(turn).cloned()
    }

    /// The lease is over though its turn is not.
    pub fn remove(&self, turn: &TurnId, token: Token) {
        let mut turns = self.lock();
        if turns.by_id.get(turn).is_some_and(|running| running.token == token) {
            turns.remove(turn);
        }
    }

    /// Ends a running turn; false when none of that id runs here.
    pub fn cancel(&self, turn: &TurnId, reason: CancelReason) -> bool {
        match self.get(turn) {
            Some(running) => {
                let _ = running.reason.set(reason);
                running.cancel.cancel();
                true
            }
            None => false,
        }
    }

    /// Has the running turns of an agent give their leases back. How many there are.
    pub fn cut(&self, agent: AgentId) -> usize {
        let turns = self.lock();
        let of_agent = turns.by_id.values().filter(|running| running.agent == agent);
        of_agent.map(|running| running.cut.cancel()).count()
    }

    /// Ends the pause before a running turn's next try; false where it makes none.
    pub fn retry_now(&self, turn: &TurnId) -> bool {
        match self.get(turn) {
            Some(running) if running.backs_off().is_some() => {
                running.retry_now.notify_waiters();
                true
            }
            _ => false,
        }
    }

    pub fn of_lane(&self, agent: AgentId, key: &SessionKey) -> Option<Arc<Running>> {
        self.lock().by_lane.get(&(agent, key.clone())).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
