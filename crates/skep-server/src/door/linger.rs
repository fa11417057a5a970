//! The end of a connection whose client still sends. Closed at once, the kernel would answer what
//! comes with a reset, and a client that writes before it reads would lose the refusal that was
//! sent: our side is closed first, and what still comes is thrown away for a moment.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// For all that still comes, and for the next piece of it.
const LONGEST: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(1);
/// What is thrown away at most: more than the largest message that is taken.
const MOST: usize = 32 << 20;
const PIECE: usize = 16 * 1024;

/// Whether the newest request was refused and may not have been read to its end.
#[derive(Clone, Default)]
pub(crate) struct UnreadRequest(Arc<AtomicBool>);

impl UnreadRequest {
    pub(crate) fn note(&self, is_refused: bool) {
        self.0.store(is_refused, Ordering::Release);
    }
}

/// How far the end of one connection has come.
pub(crate) struct Linger {
    refused: UnreadRequest,
    /// Our side is closed; until when the other one is waited for.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    left: usize,
}

impl Linger {
    pub(crate) fn new(refused: UnreadRequest) -> Self {
        Self { refused, waiting: None, left: MOST }
    }

    /// Closes our side, then reads what comes until the other closes, is silent or says too much.
    pub(crate) fn poll_end<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.waiting.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(context))?;
            let silence = Box::pin(tokio::time::sleep(SILENCE));
            self.waiting = Some((Instant::now() + LONGEST, silence));
        }
        let mut piece = [0; PIECE];
        loop {
            let Some((end, silence)) = &mut self.waiting else { return Poll::Ready(Ok(())) };
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                // Whoever sends nothing and was refused nothing is not waited for.
                Poll::Pending if !self.refused.0.load(Ordering::Acquire) => break,
                Poll::Pending => {
                    ready!(silence.as_mut().poll(context));
                    break;
                }
                Poll::Ready(Err(_)) => break,
                Poll::Ready(Ok(())) => {
                    let count = buffer.filled().len();
                    self.refused.note(true);
                    self.left = self.left.saturating_sub(count);
                    let now = Instant::now();
                    if count == 0 || self.left == 0 || now >= *end {
                        break;
                    }
                    silence.as_mut().reset((now + SILENCE).min(*end));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
