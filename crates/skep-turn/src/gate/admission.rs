//! How many calls of one agent run at the same time. What is over waits, and not without bound.
//! Operators take any place. Everybody else leaves one to them, and two to others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use skep_core::ids::AgentId;

/// Calls of one agent at the same time, over all of its sessions.
pub(crate) const AT_ONCE: usize = 5;
/// Those of all who are no operators, and of one of them.
const USERS: usize = AT_ONCE - 1;
const EACH: usize = AT_ONCE - 2;
/// Calls of one agent that may wait, for each of those who made them.
pub(crate) const MOST_WAITING: usize = 256;
/// Longer than one call may take, so that whoever waits sees those before it end.
const LONGEST_WAIT: Duration = Duration::from_secs(900);

/// The map is locked to look an agent up and for nothing else; agents are few and stay.
#[derive(Default)]
pub struct Admission {
    agents: Mutex<HashMap<AgentId, Arc<Door>>>,
}

struct Door {
    places: Arc<Semaphore>,
    users: Arc<Semaphore>,
    /// By principal, operators under no name; as long as a call of theirs runs or waits.
    shares: Mutex<HashMap<Option<String>, Arc<CallShare>>>,
}

struct CallShare {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// What a call has while it runs.
pub(crate) struct CallPlace {
    _permits: Vec<OwnedSemaphorePermit>,
    _share: Arc<CallShare>,
}

pub(crate) enum AdmissionResult {
    /// May run until this is dropped.
    In { place: CallPlace, waited: Duration },
    /// Too many wait already, or it waited too long.
    Full(&'static str),
    /// The turn ended while the call waited.
    Cancelled,
}

/// How long a call waits for its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Refused where too many wait, or after too long.
    Bounded,
    /// A person said yes to it: it waits until its turn comes or its turn ends.
    Unbounded,
}

impl Admission {
    /// A place where one is free. Whoever waits already comes first. `user`: whose call it is,
    /// unless an operator's.
    pub(super) fn enter_now(&self, agent: AgentId, user: Option<&str>) -> Option<CallPlace> {
        let door = self.door(agent);
        let share = door.share(user);
        let permits = door.doors(&share, user).map(|places| places.try_acquire_owned().ok());
        Some(CallPlace { _permits: permits.collect::<Option<_>>()?, _share: share })
    }

    pub(super) async fn enter(
        &self,
        agent: AgentId,
        user: Option<&str>,
        patience: Patience,
        cancel: &CancellationToken,
    ) -> AdmissionResult {
        let door = self.door(agent);
        let share = door.share(user);
        let counted = (patience == Patience::Bounded).then(|| Counted::enter(&share));
        if counted.as_ref().is_some_and(Option::is_none) {
            return AdmissionResult::Full("too many of its calls wait already");
        }
        let begun = Instant::now();
        let place = async {
            let mut permits = Vec::new();
            for places in door.doors(&share, user) {
                permits.push(places.acquire_owned().await?);
            }
            Ok::<_, AcquireError>(CallPlace { _permits: permits, _share: Arc::clone(&share) })
        };
        let too_long = async {
            match patience {
                Patience::Bounded => tokio::time::sleep(LONGEST_WAIT).await,
                Patience::Unbounded => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => AdmissionResult::Cancelled,
            place = place => match place {
                Ok(place) => AdmissionResult::In { place, waited: begun.elapsed() },
                Err(_) => AdmissionResult::Cancelled,
            },
            () = too_long => AdmissionResult::Full("its other calls took too long"),
        }
    }

    fn door(&self, agent: AgentId) -> Arc<Door> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let door = agents.entry(agent).or_insert_with(|| {
            let (places, users) = (Semaphore::new(AT_ONCE), Semaphore::new(USERS));
            let (places, users) = (Arc::new(places), Arc::new(users));
            Arc::new(Door { places, users, shares: Mutex::default() })
        });
        Arc::clone(door)
    }
}

impl Door {
    fn share(&self, user: Option<&str>) -> Arc<CallShare> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        let share = shares.entry(user.map(str::to_owned)).or_insert_with(|| {
            let places = Arc::new(Semaphore::new(EACH));
            Arc::new(CallShare { places, waiting: AtomicUsize::new(0) })
        });
        Arc::clone(share)
    }

    /// What a call has to pass, in this order: who waits for their own share is in nobody's way.
    fn doors(&self, share: &CallShare, user: Option<&str>) -> impl Iterator<Item = Arc<Semaphore>> {
        let users = user.map(|_| [Arc::clone(&share.places), Arc::clone(&self.users)]);
        users.into_iter().flatten().chain([Arc::clone(&self.places)])
    }
}

/// One that waits; no longer once dropped.
struct Counted<'a>(&'a CallShare);

impl<'a> Counted<'a> {
    fn enter(share: &'a CallShare) -> Option<Self> {
        let before = share.waiting.fetch_add(1, Ordering::Relaxed);
        let counted = Self(share);
        (before < MOST_WAITING).then_some(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
