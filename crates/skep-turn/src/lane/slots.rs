//! Who may run a turn now. All turns share `limits.concurrent_turns` slots. Operators take any of
//! them; everybody else leaves the last few to operators and runs at most `limits.turns_per_user`.
//! The lanes of those who have to wait are held in the store, so that others' work passes them.

use std::collections::{HashMap, VecDeque};
use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use skep_core::role::Role;
use skep_core::settings::Limits;
use skep_guard::clock;
use skep_store::Store;
use skep_store::lanes::Unhold;
use skep_store::leases::Admits;

use crate::handles::HolderOf;

/// Slots that only operators take; half of them where there are few.
const OPERATOR_SLOTS: usize = 8;

/// Locked for single updates by whoever begins or ends a turn, the writer among them: a task that
/// owns the counts would put a hop into every commit.
pub struct Slots {
    all: Arc<Semaphore>,
    shares: Arc<Mutex<Shares>>,
    wake: Arc<Notify>,
    holder_of: HolderOf,
}

/// A slot for a turn; given back when it is dropped.
pub struct Slot {
    _slot: OwnedSemaphorePermit,
    _share: Option<Share>,
}

struct Shares {
    /// Turns of all who are no operators, and of one of them.
    most: usize,
    each: usize,
    running: HashMap<String, usize>,
    /// For whom lanes are held, the next to be served first.
    held: VecDeque<String>,
    /// For whom lanes are to be made ready, and how many.
    due: Vec<(String, u32)>,
}

/// One turn of somebody who is no operator.
pub struct Share {
    by: String,
    shares: Arc<Mutex<Shares>>,
    wake: Arc<Notify>,
}

impl Slots {
    pub(super) fn new(
        limits: &Limits,
        held: Vec<String>,
        wake: Arc<Notify>,
        holder_of: HolderOf,
    ) -> Self {
        let mut shares = Shares {
            most: 0,
            each: 0,
            running: HashMap::new(),
            held: held.into(),
            due: Vec::new(),
        };
        shares.resize(limits);
        let all = Arc::new(Semaphore::new(limits.concurrent_turns));
        Self { all, shares: Arc::new(Mutex::new(shares)), wake, holder_of }
    }

    /// A free slot, whoever it is for.
    pub async fn any(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// Those that are free now, one after the other.
    pub(super) fn free(&self) -> impl Iterator<Item = OwnedSemaphorePermit> {
        iter::from_fn(|| Arc::clone(&self.all).try_acquire_owned().ok())
    }

    /// Returns when no turn runs. `all` slots there are.
    pub async fn idle(&self, all: usize) {
        let _ = self.all.acquire_many(u32::try_from(all).unwrap_or(u32::MAX)).await;
    }

    /// Slots that are taken away are waited for: a turn under way keeps its own, and the ones that
    /// come free next are not given out again.
    pub async fn resize(&self, before: usize, limits: &Limits) {
        self.lock().resize(limits);
        self.wake.notify_one();
        let after = limits.concurrent_turns;
        self.all.add_permits(after.saturating_sub(before));
        let fewer = u32::try_from(before.saturating_sub(after)).unwrap_or(u32::MAX);
        if fewer > 0
            && let Ok(permits) = self.all.acquire_many(fewer).await
        {
            permits.forget();
        }
    }

    fn share(&self, by: &str, when_full: impl FnOnce(&mut Shares)) -> Option<Share> {
        let mut shares = self.lock();
        let running = shares.running.values().sum::<usize>();
        let own = shares.running.get(by).copied().unwrap_or(0);
        if running >= shares.most || own >= shares.each {
            when_full(&mut shares);
            return None;
        }
        shares.running.insert(by.to_owned(), own + 1);
        let (shares, wake) = (Arc::clone(&self.shares), Arc::clone(&self.wake));
        Some(Share { by: by.to_owned(), shares, wake })
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares {
    fn resize(&mut self, limits: &Limits) {
        let all = limits.concurrent_turns;
        (self.most, self.each) = (all - OPERATOR_SLOTS.min(all / 2), limits.turns_per_user);
        // Whoever waits may have room now.
        let each = u32::try_from(self.each).unwrap_or(u32::MAX);
        self.due = self.held.iter().map(|by| (by.clone(), each)).collect();
    }

    /// A turn of somebody has ended: the next of those who wait and have room is served.
    fn ended(&mut self, by: &str) {
        if let Some(running) = self.running.get_mut(by) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(by);
            }
        }
        self.serve_next();
    }

    fn serve_next(&mut self) {
        let has_room = |by: &String| self.running.get(by).copied().unwrap_or(0) < self.each;
        if let Some(next) = self.held.iter().position(has_room)
            && let Some(next) = self.held.remove(next)
        {
            self.due.push((next.clone(), 1));
            self.held.push_back(next);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.ended(&self.by);
        let is_due = !shares.due.is_empty();
        drop(shares);
        if is_due {
            self.wake.notify_one();
        }
    }
}

impl Slots {
    fn is_operator(&self, principal: &str) -> bool {
        (self.holder_of)(principal).0 == Some(Role::Operator)
    }

    /// A slot for a turn on behalf of somebody, where there is one at once.
    pub fn slot_for(&self, principal: &str) -> Option<Slot> {
        let share = match self.is_operator(principal) {
            true => None,
            false => Some(self.share(principal, |_| {})?),
        };
        let slot = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Slot { _slot: slot, _share: share })
    }

    /// Asked by the store when it takes work: whether a turn on behalf of somebody may begin. What
    /// the last one that may was given stands in `given`.
    pub(super) fn admits(self: &Arc<Self>, given: &Arc<Mutex<Option<Share>>>) -> Admits {
        let (slots, given) = (Arc::clone(self), Arc::clone(given));
        Arc::new(move |principal| {
            let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
            // A command that was rolled back is run again.
            given.take();
            if slots.is_operator(principal) {
                return true;
            }
            *given = slots.share(principal, |shares| {
                if !shares.held.iter().any(|known| known == principal) {
                    shares.held.push_back(principal.to_owned());
                }
            });
            given.is_some()
        })
    }

    /// Makes lanes ready whose people have room again. Called by the scheduler alone, between two
    /// takes: nothing is held meanwhile.
    pub(super) async fn unhold(&self, store: &Store) {
        loop {
            let Some((by, most)) = self.lock().due.pop() else { return };
            let command = Unhold { by: by.clone(), most, now: clock::now_ms() };
            let outcome = store.write(command).await;
            let mut shares = self.lock();
            match outcome {
                Ok((_, true)) => {}
                Ok((made, false)) => {
                    shares.held.retain(|known| *known != by);
                    if made == 0 {
                        shares.serve_next();
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "waiting messages could not be made ready");
                    shares.due.push((by, most));
                    return;
                }
            }
        }
    }
}

impl Slot {
    pub(super) fn new(slot: OwnedSemaphorePermit, share: Option<Share>) -> Self {
        Self { _slot: slot, _share: share }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn slots(concurrent_turns: usize, turns_per_user: usize) -> Slots {
        let limits = Limits { concurrent_turns, turns_per_user, ..Limits::default() };
        let nobody: HolderOf = Arc::new(|_| (None, None));
        Slots::new(&limits, Vec::new(), Arc::default(), nobody)
    }

    fn held(slots: &Slots, by: &str) -> Option<Share> {
        slots.share(by, |shares| shares.held.push_back(by.to_owned()))
    }

    #[test]
    fn operators_keep_eight_slots_or_half_of_them() {
        for (all, most) in [(1, 1), (2, 1), (3, 2), (15, 8), (16, 8), (64, 56), (1000, 992)] {
            assert_eq!(slots(all, 16).lock().most, most, "{all}");
        }
    }

    #[test]
    fn nobody_has_more_than_their_share_and_those_who_wait_take_turns() {
        let slots = slots(64, 2);
        let mut anna: Vec<_> = (0..2).map(|_| slots.share("anna", |_| {}).unwrap()).collect();
        assert!(held(&slots, "anna").is_none());
        let berta = slots.share("berta", |_| {}).unwrap();
        drop(berta);
        assert!(slots.lock().due.is_empty(), "anna has no room");
        anna.pop();
        assert_eq!(slots.lock().due, [("anna".to_owned(), 1)]);
        assert!(slots.share("anna", |_| {}).is_some());
    }

    #[test]
    fn the_pool_of_all_users_is_shared_in_turn() {
        let slots = slots(4, 2);
        let mut running: Vec<_> = (0..2).map(|_| slots.share("anna", |_| {}).unwrap()).collect();
        assert_eq!(slots.lock().most, 2);
        for by in ["berta", "carla"] {
            assert!(held(&slots, by).is_none(), "{by}");
        }
        running.clear();
        let due: Vec<String> = slots.lock().due.iter().map(|(by, _)| by.clone()).collect();
        assert_eq!(due, ["berta", "carla"]);
        let more = Limits { concurrent_turns: 64, turns_per_user: 5, ..Limits::default() };
        slots.lock().resize(&more);
        let due = slots.lock().due.clone();
        assert_eq!(due, [("berta".to_owned(), 5), ("carla".to_owned(), 5)]);
    }
}
