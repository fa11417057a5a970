//! Keeps an answer that is made piece by piece in step with its connection: the next piece is made
//! when the kernel has taken the ones before. Otherwise the library would keep many of them for a
//! reader that does not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::door::linger::Linger;
use crate::request::Intake;

/// Bytes on their way to the kernel; small pieces go together.
const AHEAD: usize = 16 * 1024;

/// What one connection has been given and its kernel has not taken.
#[derive(Clone, Default)]
pub(crate) struct Pace(Arc<Unsent>);

#[derive(Default)]
struct Unsent {
    bytes: AtomicUsize,
    waiting: AtomicWaker,
}

impl Pace {
    fn is_behind(&self) -> bool {
        self.0.bytes.load(Ordering::Acquire) >= AHEAD
    }

    fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_behind() {
            return Poll::Ready(());
        }
        self.0.waiting.register(context.waker());
        // Taken meanwhile.
        if self.is_behind() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn given(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    fn all_taken(&self) {
        if self.0.bytes.swap(0, Ordering::AcqRel) >= AHEAD {
            self.0.waiting.wake();
        }
    }
}

/// A connection that counts what it reads, and notes when everything was taken.
pub(crate) struct PacedStream<S> {
    pub(crate) stream: S,
    pub(crate) pace: Pace,
    pub(crate) intake: Intake,
    pub(crate) linger: Linger,
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.intake.poll_ready(context))?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.intake.took(buffer.filled().len() - before))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    /// The library calls this when it has written all it holds.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.pace.all_taken();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, linger, .. } = &mut *self;
        linger.poll_end(stream, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The body of an answer that waits for its connection.
pub(crate) struct PacedBody<B> {
    pub(crate) body: B,
    pub(crate) pace: Pace,
}

impl<B: Body + Unpin> Body for PacedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        ready!(self.pace.poll_room(context));
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.pace.given(data.remaining());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use axum::body::Body as Streamed;
    use bytes::Bytes;
    use futures_util::{StreamExt, stream};
    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::door::linger::UnreadRequest;
    use crate::request::Sender;

    const PIECE: usize = 4096;
    /// What the pipe between the two takes.
    const PIPE: usize = 32 * 1024;

    #[tokio::test]
    async fn pieces_are_made_as_they_are_taken() {
        let (mut client, server) = tokio::io::duplex(PIPE);
        let (made, pace) = (Arc::new(AtomicUsize::new(0)), Pace::default());
        let service = {
            let (made, pace) = (Arc::clone(&made), pace.clone());
            service_fn(move |_| {
                let made = Arc::clone(&made);
                let pieces = stream::iter(0..256).map(move |_| {
                    made.fetch_add(PIECE, Ordering::SeqCst);
                    Ok::<_, io::Error>(Bytes::from_static(&[b'x'; PIECE]))
                });
                let body = PacedBody { body: Streamed::from_stream(pieces), pace: pace.clone() };
                async move { Ok::<_, io::Error>(Response::new(body)) }
            })
        };
        let intake = Intake::new(Arc::default(), Sender::Owner);
        let linger = Linger::new(UnreadRequest::default());
        let stream = TokioIo::new(PacedStream { stream: server, pace, intake, linger });
        tokio::spawn(http1::Builder::new().serve_connection(stream, service));
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut read = 0;
        let mut buffer = vec![0; 1000];
        loop {
            let count = client.read(&mut buffer).await.unwrap();
            read += count;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let ahead = made.load(Ordering::SeqCst).saturating_sub(read);
            assert!(ahead <= PIPE + AHEAD + 2 * PIECE, "{ahead} bytes ahead after {read}");
            if count == 0 {
                break;
            }
        }
        assert!(read > 256 * PIECE, "{read}");
    }
}
