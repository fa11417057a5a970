//! How many calls of one agent run at the same time. What is over waits, and not without bound.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use skep_core::ids::AgentId;

/// Calls of one agent at the same time, over all of its sessions.
pub(crate) const AT_ONCE: usize = 5;
/// Calls of one agent that may wait.
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
    waiting: AtomicUsize,
}

pub(crate) enum AdmissionResult {
    /// May run until this is dropped.
    In { place: OwnedSemaphorePermit, waited: Duration },
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
    /// A place where one is free. Whoever waits already comes first.
    pub(super) fn enter_now(&self, agent: AgentId) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.door(agent).places).try_acquire_owned().ok()
    }

    pub(super) async fn enter(
        &self,
        agent: AgentId,
        patience: Patience,
        cancel: &CancellationToken,
    ) -> AdmissionResult {
        let door = self.door(agent);
        let counted = (patience == Patience::Bounded).then(|| Counted::enter(&door));
        if counted.as_ref().is_some_and(Option::is_none) {
            return AdmissionResult::Full("too many of its calls wait already");
        }
        let begun = Instant::now();
        let too_long = async {
            match patience {
                Patience::Bounded => tokio::time::sleep(LONGEST_WAIT).await,
                Patience::Unbounded => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => AdmissionResult::Cancelled,
            place = Arc::clone(&door.places).acquire_owned() => match place {
                Ok(place) => AdmissionResult::In { place, waited: begun.elapsed() },
                Err(_) => AdmissionResult::Cancelled,
            },
            () = too_long => AdmissionResult::Full("its other calls took too long"),
        }
    }

    fn door(&self, agent: AgentId) -> Arc<Door> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let door = agents.entry(agent).or_insert_with(|| {
            let places = Arc::new(Semaphore::new(AT_ONCE));
            Arc::new(Door { places, waiting: AtomicUsize::new(0) })
        });
        Arc::clone(door)
    }
}

/// One that waits; no longer once dropped.
struct Counted<'a>(&'a Door);

impl<'a> Counted<'a> {
    fn enter(door: &'a Door) -> Option<Self> {
        let before = door.waiting.fetch_add(1, Ordering::Relaxed);
        let counted = Self(door);
        (before < MOST_WAITING).then_some(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
