//! The queue of a file's one writer: requests that wait while a transaction
//! commits share the next one, and its sync.

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::WriterConnection;

/// Requests that may wait; beyond that, their senders wait.
const QUEUE_MAX: usize = 1_024;

/// Executes requests that were drained from the queue together.
#[async_trait]
pub trait GroupHandler: Send + 'static {
    /// A write, and where its answer goes.
    type Request: Send + 'static;

    /// The most requests in one group.
    const GROUP_MAX: usize;

    /// Executes the requests in their order and answers each of them once its
    /// transaction is durable or has failed.
    async fn handle(&mut self, connection: &mut WriterConnection, requests: Vec<Self::Request>);
}

enum Entry<R> {
    Request(R),
    Close(oneshot::Sender<()>),
}

/// Sends requests to a file's writer. Clones share the writer.
pub struct WriteQueue<R> {
    entries: mpsc::Sender<Entry<R>>,
}

impl<R> Clone for WriteQueue<R> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
        }
    }
}

impl<R> std::fmt::Debug for WriteQueue<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteQueue").finish_non_exhaustive()
    }
}

/// The writer was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file is closed")]
pub struct QueueClosed;

impl<R: Send + 'static> WriteQueue<R> {
    /// Starts the writer's task.
    pub fn start<H: GroupHandler<Request = R>>(connection: WriterConnection, handler: H) -> Self {
        let (entries, queued) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(run(connection, handler, queued));
        Self { entries }
    }

    /// Queues a request; waits while the queue is full.
    pub async fn send(&self, request: R) -> Result<(), QueueClosed> {
        let sent = self.entries.send(Entry::Request(request)).await;
        sent.map_err(|_| QueueClosed)
    }

    /// Waits until queued requests are executed and the connection is closed.
    pub async fn close(&self) {
        let (closed, wait) = oneshot::channel();
        if self.entries.send(Entry::Close(closed)).await.is_ok() {
            let _ = wait.await;
        }
    }
}

async fn run<H: GroupHandler>(
    mut connection: WriterConnection,
    mut handler: H,
    mut queued: mpsc::Receiver<Entry<H::Request>>,
) {
    let mut drained = Vec::with_capacity(H::GROUP_MAX);
    let mut closing = None;
    while closing.is_none() && queued.recv_many(&mut drained, H::GROUP_MAX).await > 0 {
        let mut requests = Vec::with_capacity(drained.len());
        for entry in drained.drain(..) {
            match entry {
                Entry::Request(request) => requests.push(request),
                Entry::Close(closed) => closing = Some(closed),
            }
        }
        if !requests.is_empty() {
            handler.handle(&mut connection, requests).await;
        }
    }
    connection.close().await;
    if let Some(closed) = closing {
        let _ = closed.send(());
    }
}
