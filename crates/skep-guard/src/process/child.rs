//! A child as the runtime sees it: its pipes, its end. Dropped before its end, it is killed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;

use super::start::{ChildProgram, Process};

/// What a child reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Nothing,
    Piped,
}

/// Our ends: standard input where it is piped, output and error.
pub(crate) type Pipes = (Option<pipe::Sender>, Option<pipe::Receiver>, Option<pipe::Receiver>);

#[derive(Debug)]
pub(crate) struct PipedChild {
    pid: i32,
    /// Nothing once it was waited for.
    process: Option<AsyncFd<Process>>,
    ended: Option<ExitStatus>,
    pipes: Pipes,
}

impl PipedChild {
    /// Within a runtime.
    ///
    /// # Safety
    /// As with [`ChildProgram::start`].
    pub unsafe fn start(program: ChildProgram, input: Input) -> io::Result<Self> {
        let (stdin, sender): (OwnedFd, _) = match input {
            Input::Nothing => (File::open("/dev/null")?.into(), None),
            Input::Piped => {
                let (theirs, ours) = io::pipe()?;
                (theirs.into(), Some(pipe::Sender::from_owned_fd(ours.into())?))
            }
        };
        let output = || {
            let (ours, theirs) = io::pipe()?;
            Ok::<_, io::Error>((theirs, pipe::Receiver::from_owned_fd(ours.into())?))
        };
        let (stdout, stderr) = (output()?, output()?);
        // SAFETY: the caller's promise.
        let process =
            unsafe { program.start([stdin.as_fd(), stdout.0.as_fd(), stderr.0.as_fd()])? };
        let pid = process.id();
        // SAFETY: a process has one handle, from its start until it is dropped.
        let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) };
        let process = process.map_err(|error| {
            let (process, error) = error.into_parts();
            process.kill();
            error
        })?;
        let pipes = (sender, Some(stdout.1), Some(stderr.1));
        Ok(Self { pid, process: Some(process), ended: None, pipes })
    }

    pub fn id(&self) -> i32 {
        self.pid
    }

    /// Each of them once.
    pub fn pipes(&mut self) -> Pipes {
        std::mem::take(&mut self.pipes)
    }

    /// May be dropped while it waits, and called again afterwards.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        let gone = || io::Error::other("it was waited for");
        let ended = end(self.process.as_ref().ok_or_else(gone)?).await?;
        (self.ended, self.process) = (Some(ended), None);
        Ok(ended)
    }
}

async fn end(process: &AsyncFd<Process>) -> io::Result<ExitStatus> {
    loop {
        let mut readable = process.readable().await?;
        if let Some(ended) = readable.get_inner().try_wait()? {
            return Ok(ended);
        }
        readable.clear_ready();
    }
}

impl Drop for PipedChild {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        process.get_ref().kill();
        // Somebody has to ask for its end. Without a runtime this process ends too.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { end(&process).await });
        }
    }
}
