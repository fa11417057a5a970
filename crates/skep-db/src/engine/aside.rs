//! Readers beside the pool, with threads and connections of their own: for whoever reads much, or
//! is one of many. However many wait here, nobody else waits for them, and each who asks has its
//! turn after every other who asks.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::engine::conn::Conn;
use crate::engine::dialect;
use crate::engine::error::{SqlError, StoreError};
use crate::engine::readers;

/// Threads of one group of readers.
const THREADS: usize = 2;
/// How much they leave to others (`nice`): turns go first.
const GIVE_WAY: i32 = 10;

/// Threads start with the first read and end with the last one that waits; memory that a burst
/// of reads took is given back with them.
pub(crate) struct Aside {
    name: &'static str,
    database: PathBuf,
    // A lock and not a task: held to push or pop, never while something is read.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Fair<Job>,
    running: usize,
    idle: Vec<Conn>,
    closed: bool,
}

/// Reads with the thread's connection, which it opens where there is none.
type Job = Box<dyn FnOnce(&mut Option<Conn>) + Send>;

impl Aside {
    pub(crate) fn new(name: &'static str, database: PathBuf) -> Arc<Self> {
        Arc::new(Self { name, database, state: Mutex::default() })
    }

    /// Runs `query` inside one read transaction. It waits for its turn among those of `who`.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        who: &str,
        query: impl AsyncFnOnce(&mut Conn) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        let database = self.database.clone();
        let job: Job = Box::new(move |place| {
            // The caller has gone.
            if answer.is_closed() {
                return;
            }
            let read = runtime.block_on(async {
                let mut conn = match place.take() {
                    Some(conn) => conn,
                    None => dialect::connect_reader(&database).await?,
                };
                let (read, usable) = readers::in_transaction(&mut conn, query).await;
                *place = usable.then_some(conn);
                read
            });
            let _ = answer.send(read);
        });
        self.push(who, job)?;
        Ok(answered.await.map_err(|_| StoreError::Closed)??)
    }

    fn push(self: &Arc<Self>, who: &str, job: Job) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.waiting.push(who, job);
        if state.running == THREADS {
            return Ok(());
        }
        state.running += 1;
        drop(state);
        let own = Arc::clone(self);
        let thread = std::thread::Builder::new().name(self.name.to_owned());
        match thread.spawn(move || own.work()) {
            Ok(_) => Ok(()),
            Err(error) => {
                // Those that wait are read by a thread that runs, or with the next one.
                self.lock().running -= 1;
                Err(StoreError::Broken { detail: format!("{}: {error}", self.name) })
            }
        }
    }

    /// Reads until the queue is empty.
    fn work(&self) {
        // Zero is the calling thread. One that may not be lowered works as before.
        let _ = rustix::process::setpriority_process(None, GIVE_WAY);
        let mut conn = self.lock().idle.pop();
        loop {
            let mut state = self.lock();
            let Some(job) = state.waiting.pop() else {
                state.running -= 1;
                if !state.closed {
                    state.idle.extend(conn);
                }
                return;
            };
            drop(state);
            // A query that panics fails for its own caller alone.
            let read = catch_unwind(AssertUnwindSafe(|| job(&mut conn)));
            if read.is_err() {
                conn = None;
            }
        }
    }

    /// Turns away new reads and those that wait; one under way ends by itself.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let left = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.idle));
        drop(state);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue for each who asks, and whose turn it is.
struct Fair<T> {
    waiting: HashMap<String, VecDeque<T>>,
    turns: VecDeque<String>,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T> Fair<T> {
    fn push(&mut self, who: &str, job: T) {
        match self.waiting.get_mut(who) {
            Some(queue) => queue.push_back(job),
            None => {
                self.waiting.insert(who.to_owned(), VecDeque::from([job]));
                self.turns.push_back(who.to_owned());
            }
        }
    }

    fn pop(&mut self) -> Option<T> {
        let who = self.turns.pop_front()?;
        let queue = self.waiting.get_mut(&who)?;
        let job = queue.pop_front();
        match queue.is_empty() {
            true => drop(self.waiting.remove(&who)),
            false => self.turns.push_back(who),
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_after_the_others() {
        let mut fair = Fair::default();
        for number in 0..4 {
            fair.push("many", ("many", number));
        }
        fair.push("one", ("one", 0));
        fair.push("other", ("other", 0));
        fair.push("other", ("other", 1));
        let mut order = Vec::new();
        while let Some(job) = fair.pop() {
            order.push(job);
            if job == ("one", 0) {
                fair.push("one", ("one", 1));
            }
        }
        let expected = [
            ("many", 0),
            ("one", 0),
            ("other", 0),
            ("many", 1),
            ("one", 1),
            ("other", 1),
            ("many", 2),
            ("many", 3),
        ];
        assert_eq!(order, expected);
        assert!(fair.waiting.is_empty() && fair.turns.is_empty());
    }
}
