//! The one writer: drains the queue, decides, writes, syncs once, answers.
//!
//! Nothing is answered before the transaction of its group is durable. A
//! failed transaction fails every job of its group and changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use super::aside::Aside;
use super::file_id::FileId;
use super::group::{Batch, Group, Mentioned};
use super::job::Job;
use super::{rows, view};

/// Jobs that may wait; beyond that, callers do.
const QUEUE: usize = 1_024;
/// Jobs that share one sync.
const GROUP: usize = 1_024;
/// About how many bytes a group has. A job that is larger is a group by itself.
const GROUP_BYTES: usize = 16 << 20;

/// What comes through the queue.
#[derive(Debug)]
pub(super) enum Order {
    Job(Job),
    Aside(Aside),
    Close(oneshot::Sender<()>),
}

pub(super) struct Writer {
    /// `None` after a failure: the next write opens it anew. Whatever a failed
    /// transaction left behind, in SQLite or in the driver, goes with the old
    /// one.
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    file: FileId,
    changes: watch::Sender<u64>,
    /// Whether the last write failed.
    failing: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the writer's task on its own connection.
    pub(super) fn start(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        file: FileId,
        changes: watch::Sender<u64>,
        failing: Arc<AtomicBool>,
    ) -> mpsc::Sender<Order> {
        let (queue, orders) = mpsc::channel(QUEUE);
        let writer = Self {
            connection: Some(connection),
            options: options.create_if_missing(false),
            file,
            changes,
            failing,
        };
        tokio::spawn(writer.run(orders));
        queue
    }

    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut drained = Vec::with_capacity(GROUP);
        let mut closing = None;
        while closing.is_none() && orders.recv_many(&mut drained, GROUP).await > 0 {
            let mut jobs = VecDeque::with_capacity(drained.len());
            let mut asides = Vec::new();
            for order in drained.drain(..) {
                match order {
                    Order::Job(job) => jobs.push_back(job),
                    Order::Aside(aside) => asides.push(aside),
                    Order::Close(done) => closing = Some(done),
                }
            }
            while !jobs.is_empty() {
                self.group(next_group(&mut jobs)).await;
            }
            for aside in asides {
                self.aside(aside).await;
            }
        }
        if let Some(connection) = self.connection {
            let _ = connection.close().await;
        }
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }

    /// Does a group. A job that is refused is answered with the others: what
    /// it was refused for is durable by then.
    async fn group(&mut self, mut jobs: Vec<Job>) {
        let failed = match self.transact(&mut jobs).await {
            Ok(wakes) => {
                // Announced first: whoever looks after an answer has been told.
                if wakes {
                    self.changes.send_modify(|count| *count += 1);
                }
                self.failing.store(false, Ordering::Relaxed);
                None
            }
            Err(error) => {
                self.disconnect().await;
                tracing::error!(%error, jobs = jobs.len(), "writing executions failed");
                Some(error.to_string())
            }
        };
        for job in jobs {
            job.answer(failed.as_deref());
        }
    }

    /// Whether anything may be due earlier than before.
    async fn transact(&mut self, jobs: &mut [Job]) -> rows::Rows<bool> {
        let connection = self.connection().await?;
        let view = view::begin(connection, &Mentioned::by(jobs)).await?;
        let batch = Batch::default();
        let mut group = Group { view, batch };
        for job in jobs {
            group.take(job);
        }
        rows::commit(connection, &group.view, &group.batch).await?;
        Ok(group.batch.wakes)
    }

    async fn aside(&mut self, mut aside: Aside) {
        let done = match self.connection().await {
            Ok(connection) => aside.run(connection).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &done {
            self.disconnect().await;
            tracing::error!(%error, "writing beside executions failed");
        } else {
            self.failing.store(false, Ordering::Relaxed);
        }
        let failed = done.err().map(|error| error.to_string());
        aside.answer(failed.as_deref());
    }

    /// The connection, opened anew if the last write failed.
    async fn connection(&mut self) -> rows::Rows<&mut SqliteConnection> {
        // A write into a file that nobody will find again is no write.
        self.file.check()?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => SqliteConnection::connect_with(&self.options).await?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Lets go of a connection after a failure.
    async fn disconnect(&mut self) {
        self.failing.store(true, Ordering::Relaxed);
        if let Some(connection) = self.connection.take() {
            let _ = connection.close().await;
        }
    }
}

/// As many jobs as go into one transaction.
fn next_group(jobs: &mut VecDeque<Job>) -> Vec<Job> {
    let mut bytes = 0;
    let fit = jobs.iter().take_while(|job| {
        let first = bytes == 0;
        bytes += job.bytes().max(1);
        first || bytes <= GROUP_BYTES
    });
    let fit = fit.count();
    jobs.drain(..fit).collect()
}
