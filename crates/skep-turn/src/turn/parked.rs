//! Engines with a loop of their own, each a process: how many there are, and those whose turn waits
//! for a person. Such an engine keeps its process while its turn has neither a slot nor a lease.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use skep_core::BoxFuture;
use skep_core::ids::TurnId;
use skep_store::leases::Lease;

use super::persist::Lost;
use crate::lane::Running;

/// What becomes of a parked engine: with a lease its turn goes on, without one the process ends.
pub(crate) type GoOn =
    Box<dyn FnOnce(Option<(Lease, Arc<Running>)>) -> BoxFuture<'static, Result<(), Lost>> + Send>;

/// Locked for single updates: each parked engine belongs to a task of its own.
#[derive(Clone, Default)]
pub struct EngineProcesses(Arc<Mutex<Processes>>);

#[derive(Default)]
struct Processes {
    /// Those that are parked too.
    running: usize,
    /// The oldest first.
    parked: VecDeque<ParkedEngine>,
}

struct ParkedEngine {
    turn: TurnId,
    wanted: oneshot::Sender<oneshot::Sender<GoOn>>,
    end: CancellationToken,
}

/// A process that is counted until this is dropped.
pub(crate) struct EngineProcess(EngineProcesses);

impl EngineProcesses {
    /// Counts one that starts. Beyond `most` the oldest parked one ends.
    pub(crate) fn count(&self, most: usize) -> EngineProcess {
        self.lock().running += 1;
        self.trim(most);
        EngineProcess(self.clone())
    }

    /// Keeps an engine until its turn goes on, until `over`, or until there are more than `most`.
    pub(crate) fn park(
        &self,
        turn: &TurnId,
        most: usize,
        over: impl Future<Output = ()> + Send + 'static,
        go_on: GoOn,
    ) {
        let (wanted, mut asked) = oneshot::channel::<oneshot::Sender<GoOn>>();
        let (turn, end) = (turn.clone(), CancellationToken::new());
        let parked = ParkedEngine { turn: turn.clone(), wanted, end: end.clone() };
        self.lock().parked.push_back(parked);
        self.trim(most);
        let all = self.clone();
        tokio::spawn(async move {
            let go_on = tokio::select! {
                Ok(reply) = &mut asked => match reply.send(go_on) {
                    Ok(()) => return,
                    Err(go_on) => go_on,
                },
                () = end.cancelled() => go_on,
                () = over => go_on,
            };
            let _ = go_on(None).await;
            all.lock().parked.retain(|parked| parked.turn != turn);
            // Whoever asked meanwhile has waited until here.
            drop(asked);
        });
    }

    /// The parked engine of a turn. One that ends is waited for: two never act.
    pub(crate) async fn take(&self, turn: &TurnId) -> Option<GoOn> {
        let (reply, go_on) = oneshot::channel();
        {
            let parked = &mut self.lock().parked;
            let at = parked.iter().position(|parked| parked.turn == *turn)?;
            parked.remove(at)?.wanted.send(reply).ok()?;
        }
        go_on.await.ok()
    }

    fn trim(&self, most: usize) {
        let all = self.lock();
        let stay: Vec<_> = all.parked.iter().filter(|one| !one.end.is_cancelled()).collect();
        let ending = all.parked.len() - stay.len();
        let over = all.running.saturating_sub(ending + most);
        stay.iter().take(over).for_each(|oldest| oldest.end.cancel());
    }

    fn lock(&self) -> MutexGuard<'_, Processes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}
