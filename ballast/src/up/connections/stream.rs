//! A connection's stream: closed when its place is needed, or when it sends too little of a first
//! request in time. Detecting the HTTP version waits for that without a limit of its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::table::{Connection, ConnectionPlace};

/// How long a client may take to send the first bytes.
pub(super) const FIRST_BYTES_PATIENCE: Duration = Duration::from_secs(8);
/// The first bytes: as many as the version is detected by. Every request that keeps its connection
/// open is longer.
const FIRST_BYTES: usize = 24;

/// A connection's stream.
pub(crate) struct GuardedStream<S> {
    inner: S,
    closed: oneshot::Receiver<()>,
    /// Until the first bytes are there.
    first_bytes: Option<FirstBytes>,
    place: ConnectionPlace,
}

struct FirstBytes {
    received: usize,
    deadline: Pin<Box<Sleep>>,
}

impl<S> GuardedStream<S> {
    pub(super) fn new(inner: S, place: ConnectionPlace, closed: oneshot::Receiver<()>) -> Self {
        Self {
            inner,
            closed,
            first_bytes: Some(FirstBytes {
                received: 0,
                deadline: Box::pin(sleep(FIRST_BYTES_PATIENCE)),
            }),
            place,
        }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.place.connection
    }

    /// Fails if the connection must close.
    fn check_open(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if Pin::new(&mut self.closed).poll(context).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if let Some(first) = &mut self.first_bytes
            && first.deadline.as_mut().poll(context).is_ready()
        {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn record_received(&mut self, bytes: usize) {
        self.place.connection.record_activity();
        if let Some(first) = &mut self.first_bytes {
            first.received += bytes;
            if first.received >= FIRST_BYTES {
                self.first_bytes = None;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_open(context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if matches!(read, Poll::Ready(Ok(()))) {
            let bytes = buffer.filled().len() - before;
            self.record_received(bytes);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_open(context)?;
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(_))) {
            self.place.connection.record_activity();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_open(context)?;
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        if matches!(written, Poll::Ready(Ok(_))) {
            self.place.connection.record_activity();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
