//! The scheduler: while there is a free slot and ready work, take it. Woken by commits and by
//! one timer; it polls nothing.

use std::iter;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use skep_core::Millis;
use skep_core::ids::{NodeName, SessionId, TurnId};
use skep_guard::{clock, random};
use skep_store::inbox;
use skep_store::lanes::{self, ClockSetBack, WakeLanes};
use skep_store::leases::{self, Admits, Lease, LostTurns, Recover, RenewLeases, Take};
use skep_store::{Store, StoreError};

use super::registry::Registry;
use super::slots::{Slot, Slots};
use crate::handles::{HolderOf, StoreHealth};
use crate::snapshot::SnapshotCell;

/// After a store that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The wall clock may jump: the timer looks at it at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// Pieces of work that are taken with one commit, where many are ready.
const MOST_AT_ONCE: usize = 16;
/// How often this node says that its turns run: two may fail before a lease is over.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The lanes of a hive: who runs in them, who may, and what wakes their scheduler.
pub struct Lanes {
    pub registry: Arc<Registry>,
    pub slots: Arc<Slots>,
    pub health: StoreHealth,
    store: Store,
    node: NodeName,
    snapshot: Arc<SnapshotCell>,
    /// The scheduler has something to look at.
    wake: Arc<Notify>,
    /// When the next parked or retrying turn may go on.
    next_due: AtomicI64,
    /// What the clock said at the last look.
    looked_at: AtomicI64,
}

impl Lanes {
    /// Lanes that a process before this one held are made ready first.
    pub async fn open(
        store: Store,
        node: NodeName,
        registry: Arc<Registry>,
        snapshot: Arc<SnapshotCell>,
        holder_of: HolderOf,
    ) -> Result<Self, StoreError> {
        let wake = Arc::new(Notify::new());
        let held = store.read(lanes::held).await?;
        let limits = &snapshot.current().settings.limits;
        let slots = Arc::new(Slots::new(limits, held, Arc::clone(&wake), holder_of));
        let (next_due, looked_at) = (AtomicI64::new(i64::MIN), AtomicI64::new(i64::MAX));
        let health = StoreHealth::default();
        Ok(Self { registry, slots, health, store, node, snapshot, wake, next_due, looked_at })
    }

    /// There may be work that is ready.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// A turn may go on at this time: the scheduler looks then at the latest.
    pub fn note_due(&self, at: Option<Millis>) {
        if let Some(at) = at {
            self.next_due.fetch_min(at, Ordering::Relaxed);
        }
        self.wake();
    }

    /// A lane that has more to do wakes the scheduler; another turn's end says nothing to it.
    pub fn look_for_more(&self, more: bool) {
        if more {
            self.wake();
        }
    }

    /// Keeps the leases of the turns that run, with one write for all of them. While another node
    /// has turns, those whose lease is over are taken from it.
    pub async fn keep_leases(&self, cut_hard: &CancellationToken) {
        let mut others_over = Some(i64::MIN);
        loop {
            let now = clock::now_ms();
            if others_over.is_some_and(|over| over <= now) {
                others_over = self.take_over(now).await;
            }
            tokio::select! {
                () = cut_hard.cancelled() => return,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
            if !self.registry.is_empty() {
                let renew = RenewLeases { node: self.node.clone(), now: clock::now_ms() };
                if let Err(error) = self.store.write(renew).await {
                    tracing::warn!(%error, "the leases of running turns are not renewed");
                }
            }
        }
    }

    /// Takes over what other nodes left, and learns when to look again.
    async fn take_over(&self, now: Millis) -> Option<Millis> {
        let next = self.store.read(async |conn| leases::next_over(conn, &self.node).await).await;
        match next {
            Ok(Some(over)) if over <= now => {
                let (node, lost) = (self.node.clone(), LostTurns::OfOthers);
                match self.store.write(Recover { node, lost, now }).await {
                    Ok(turns) => tracing::info!(turns, "turns of a node that ended go on here"),
                    Err(error) => tracing::warn!(%error, "turns of another node are not taken"),
                }
                self.wake();
                Some(now)
            }
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "the leases of other nodes cannot be read");
                Some(now)
            }
        }
    }

    /// Takes work until there is no more to come. `begin` runs what was taken.
    pub async fn schedule(&self, draining: &CancellationToken, begin: impl Fn(Lease, Slot)) {
        while !draining.is_cancelled() {
            self.take_all(draining, &begin).await;
            tokio::select! {
                () = draining.cancelled() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(self.until_due()) => {}
            }
        }
    }

    /// Takes work until there is none. Only the wait for a slot can be given up: what was taken is
    /// always run, or it would look like an attempt that failed.
    async fn take_all(&self, draining: &CancellationToken, begin: &impl Fn(Lease, Slot)) {
        self.wake_due().await;
        let mut at_once = 1;
        loop {
            let slot = tokio::select! {
                biased;
                () = draining.cancelled() => return,
                slot = self.slots.any() => slot,
            };
            let Some(slot) = slot else { return };
            self.slots.unhold(&self.store).await;
            let slots = iter::once(slot).chain(self.slots.free().take(at_once - 1));
            let taken = join_all(slots.map(|slot| self.take_admitted(slot))).await;
            let more = taken.iter().all(|taken| taken.as_ref().is_some_and(|(of, _)| of.others));
            for (lease, slot) in taken.into_iter().flatten() {
                begin(lease, slot);
            }
            if !more {
                return;
            }
            at_once = MOST_AT_ONCE.min(at_once * 2);
        }
    }

    async fn take_admitted(&self, slot: OwnedSemaphorePermit) -> Option<(Lease, Slot)> {
        let given = Arc::default();
        let lease = self.take(None, Some(self.slots.admits(&given))).await?;
        let share = given.lock().unwrap_or_else(PoisonError::into_inner).take();
        Some((lease, Slot::new(slot, share)))
    }

    /// Takes the best ready work, or one idle turn.
    pub async fn take(&self, only: Option<TurnId>, admits: Option<Admits>) -> Option<Lease> {
        let command = Take { slot: self.turn_ids(), only, admits, now: clock::now_ms() };
        let outcome = self.store.write(command).await;
        self.health.note(&outcome);
        match outcome {
            Ok(lease) => lease.map(|lease| *lease),
            Err(error) => {
                tracing::warn!(%error, "taking work failed; again in a second");
                tokio::time::sleep(PAUSE).await;
                self.wake();
                None
            }
        }
    }

    /// Ids for a turn that may begin.
    pub fn turn_ids(&self) -> inbox::NewTurn {
        let idle = self.snapshot.current().settings.limits.session_idle.as_millis();
        inbox::NewTurn {
            turn: TurnId(random::uuid().to_string()),
            session: SessionId(random::uuid().to_string()),
            idle_ms: i64::try_from(idle).unwrap_or(i64::MAX),
            node: self.node.clone(),
        }
    }

    /// Makes lanes ready whose time has come, and learns when the next one's will.
    async fn wake_due(&self) {
        let now = clock::now_ms();
        if now < self.looked_at.swap(now, Ordering::Relaxed) {
            // Also the first look: the clock may have been set back between two starts.
            if self.store.write(ClockSetBack { now }).await.is_err() {
                self.looked_at.store(i64::MAX, Ordering::Relaxed);
            }
            self.next_due.store(i64::MIN, Ordering::Relaxed);
        }
        while self.next_due.load(Ordering::Relaxed) <= clock::now_ms() {
            // Set before reading: a time noted meanwhile is earlier than what we find, and stays.
            self.next_due.store(i64::MAX, Ordering::Relaxed);
            let woken = self.store.write(WakeLanes { now: clock::now_ms() }).await;
            let next = self.store.read(lanes::next_due).await;
            match (woken, next) {
                (Ok(_), Ok(next)) => {
                    if let Some(at) = next {
                        self.note_due(Some(at));
                    }
                }
                _ => {
                    self.note_due(Some(clock::now_ms() + 1000));
                    return;
                }
            }
        }
    }

    fn until_due(&self) -> Duration {
        let wait = self.next_due.load(Ordering::Relaxed).saturating_sub(clock::now_ms()).max(0);
        Duration::from_millis(u64::try_from(wait).unwrap_or(0)).min(LONGEST_SLEEP)
    }
}
