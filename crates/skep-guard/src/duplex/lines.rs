//! Lines over pipes, with a bound on each line and on all that wait.

use std::sync::Arc;

use memchr::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::process::ListeningPace;

/// What is read at once, and kept of a buffer that was larger for a long line.
const CHUNK: usize = 16 * 1024;
/// Lines that wait to be written.
const WAITING: usize = 64;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("a line is longer than the {most} bytes it may have and was left out")]
    TooLong { most: usize },
    #[error("the child ended in the middle of a line: {:?}", String::from_utf8_lossy(.0))]
    Half(Vec<u8>),
    #[error("a text with a line break is more than one line and was not sent")]
    Broken,
    #[error("the child does not listen any more: it has ended or closed its standard input")]
    Gone,
}

/// Lines of a child, as they come.
pub(super) struct LineReader {
    pipe: pipe::Receiver,
    pace: ListeningPace,
    buffer: Vec<u8>,
    /// Before it, lines that were given out.
    start: usize,
    /// Before it, no end of a line.
    searched: usize,
    most: usize,
    /// The rest of a line that was too long is left out.
    skips: bool,
}

impl LineReader {
    pub fn new(pipe: pipe::Receiver, most: usize) -> Self {
        let pace = ListeningPace::new();
        Self { pipe, pace, buffer: Vec::new(), start: 0, searched: 0, most, skips: false }
    }

    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.start..self.searched + at;
                (self.start, self.searched) = (line.end + 1, line.end + 1);
                if std::mem::take(&mut self.skips) {
                    continue;
                }
                if line.len() > self.most {
                    return Err(LineError::TooLong { most: self.most });
                }
                return Ok(Some(self.buffer[line].to_vec()));
            }
            self.searched = self.buffer.len();
            let too_long = self.buffer.len() - self.start > self.most;
            if too_long || self.skips {
                self.start = self.searched;
            }
            if too_long && !std::mem::replace(&mut self.skips, true) {
                return Err(LineError::TooLong { most: self.most });
            }
            if self.read().await == 0 {
                let half = self.buffer.split_off(self.start);
                (self.buffer, self.start, self.searched) = (Vec::new(), 0, 0);
                return if half.is_empty() { Ok(None) } else { Err(LineError::Half(half)) };
            }
        }
    }

    /// An error means that the pipe is gone: the same as its end.
    async fn read(&mut self) -> usize {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.buffer.shrink_to(CHUNK);
            self.searched -= self.start;
            self.start = 0;
        }
        self.pace.keep().await;
        self.buffer.reserve(CHUNK);
        let count = self.pipe.read_buf(&mut self.buffer).await.unwrap_or(0);
        self.pace.add(count);
        count
    }
}

type QueuedLine = (Vec<u8>, OwnedSemaphorePermit);

/// The way to a child. Copies lead to the same one.
#[derive(Debug, Clone)]
pub struct LineSender {
    lines: mpsc::Sender<QueuedLine>,
    room: Arc<Semaphore>,
    most: usize,
}

/// What the child is to be told.
pub(super) struct LineQueue(mpsc::Receiver<QueuedLine>);

/// Holds as many bytes as one line may have, or 64 lines.
pub(super) fn queue(most: usize) -> (LineSender, LineQueue) {
    let (lines, waiting) = mpsc::channel(WAITING);
    let room = Arc::new(Semaphore::new(most.saturating_add(1).min(Semaphore::MAX_PERMITS)));
    (LineSender { lines, room, most }, LineQueue(waiting))
}

impl LineSender {
    /// Returns once there is room for the line; it is written whole or, if the child ends before,
    /// not at all. Dropped while it waits, nothing is sent.
    pub async fn send(&self, line: impl Into<Vec<u8>>) -> Result<(), LineError> {
        let mut line: Vec<u8> = line.into();
        if memchr(b'\n', &line).is_some() {
            return Err(LineError::Broken);
        }
        let too_long = LineError::TooLong { most: self.most };
        if line.len() > self.most {
            return Err(too_long);
        }
        line.push(b'\n');
        let bytes = u32::try_from(line.len()).map_err(|_| too_long)?;
        let room = Arc::clone(&self.room).acquire_many_owned(bytes);
        let room = room.await.map_err(|_| LineError::Gone)?;
        self.lines.send((line, room)).await.map_err(|_| LineError::Gone)
    }
}

impl LineQueue {
    /// Until the child does not listen any more, or nobody is left to speak.
    pub async fn write_to(mut self, mut pipe: pipe::Sender) {
        while let Some((line, _room)) = self.0.recv().await {
            if pipe.write_all(&line).await.is_err() {
                return;
            }
        }
    }
}
