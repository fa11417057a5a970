//! The thread that starts programs. One for as long as this process runs: a child behind a wall is
//! killed by the kernel when the thread that started it ends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, mpsc};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::start;
use crate::limits::{self, Slice};

/// What is not waited for any more is dropped there; a child is killed by that.
pub(crate) async fn run<T: Send + 'static>(
    start: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (runtime, (done, started)) = (Handle::current(), oneshot::channel());
    let work = move || {
        let _entered = runtime.enter();
        let _ = done.send(start());
    };
    let without = |_| io::Error::other("there is no thread that starts programs");
    SPAWNER.send(Box::new(work)).map_err(without)?;
    started.await.map_err(|_| io::Error::other("the start failed by an error in this program"))
}

static SPAWNER: LazyLock<mpsc::Sender<Box<dyn FnOnce() + Send>>> = LazyLock::new(|| {
    let (starts, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let work = move || {
        start::heed_ends();
        // Programs give way to the hive.
        limits::set_slice_of_thread(Slice::Usual);
        for start in queue {
            // A panic is the end of that start, which says so, and of no other.
            let _ = catch_unwind(AssertUnwindSafe(start));
        }
    };
    // Without the thread the queue is dropped, and every start says so.
    let _ = std::thread::Builder::new().name("skep-spawn".to_owned()).spawn(work);
    starts
});

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[tokio::test]
    async fn a_start_that_panics_fails_alone() {
        let panicked = run(|| panic!("on purpose")).await;
        assert!(panicked.is_err());
        assert_eq!(run(|| 1).await.ok(), Some(1));
    }
}
