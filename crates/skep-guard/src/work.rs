//! Long work off the async threads: reading and changing files, answers of many megabytes.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{self, JoinHandle};

use crate::limits::{self, BELOW_TURNS};

/// Runs `work` in a thread that gives way to turns, with the runtime of the caller as its own. The
/// result is an error only where the work panics or the hive ends.
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    /// Nothing of it runs but its threads for blocking work.
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let start = || {
        let lower = || limits::lower_priority_of_thread(BELOW_TURNS);
        Builder::new_current_thread().on_thread_start(lower).thread_name("skep-work").build().ok()
    };
    let caller = Handle::current();
    let work = move || {
        let _entered = caller.enter();
        work()
    };
    match THREADS.get_or_init(start) {
        Some(threads) => threads.spawn_blocking(work),
        None => task::spawn_blocking(work),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_gives_way_and_its_thread_alone() {
        let nice = || rustix::process::getpriority_process(None).ok();
        let usual = nice();
        assert_eq!(spawn(nice).await.ok(), Some(Some(BELOW_TURNS)));
        assert_eq!((nice(), task::spawn_blocking(nice).await.ok()), (usual, Some(usual)));
    }

    #[tokio::test]
    async fn work_waits_for_tasks_and_timers_of_its_caller() {
        let work = || {
            let timer = async { tokio::time::sleep(Duration::ZERO).await };
            Handle::current().block_on(async { tokio::spawn(timer).await.is_ok() })
        };
        assert_eq!(spawn(work).await.ok(), Some(true));
    }
}
