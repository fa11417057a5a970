//! Threads for whoever may hang on a disk or take long: a sync that never returns holds its own
//! thread and nobody else's, and does not keep the process from ending.

use std::future::Future;
use std::io;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Runs `work` to its end on a new thread. Its result is dropped if the caller has gone.
pub(crate) fn start<T: Send + 'static, F: Future<Output = T>>(
    name: &str,
    work: impl FnOnce() -> F + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (done, ended) = oneshot::channel();
    let runtime = Handle::current();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        let _ = done.send(runtime.block_on(work()));
    })?;
    Ok(ended)
}
