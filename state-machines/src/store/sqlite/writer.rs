//! Executes groups of writes: decides each job, writes one transaction, and
//! answers when it is durable.
//!
//! A failed transaction fails every job of its group and changes nothing.

use std::collections::VecDeque;

use async_trait::async_trait;
use ballast_sqlite_store::{GroupHandler, WriterConnection};
use tokio::sync::watch;

use super::group::{GroupKeys, GroupWrites, JobGroup};
use super::job::WriteJob;
use super::separate_write::SeparateWrite;
use super::{group_view, rows};

/// About how many bytes a group has. A job that is larger is a group by itself.
const GROUP_BYTES: usize = 16 << 20;

/// A write in the queue.
#[derive(Debug)]
pub(super) enum WriteRequest {
    Job(WriteJob),
    Separate(SeparateWrite),
}

/// The execution store's side of the writer task.
pub(super) struct JobHandler {
    changes: watch::Sender<u64>,
}

impl JobHandler {
    /// A handler that counts up `changes` when an execution may be due earlier.
    pub(super) fn new(changes: watch::Sender<u64>) -> Self {
        Self { changes }
    }

    /// Executes a group. A refused job is answered with the others, when what it
    /// lost against is durable.
    async fn execute_group(&mut self, connection: &mut WriterConnection, mut jobs: Vec<WriteJob>) {
        let failure = match transact(connection, &mut jobs).await {
            Ok(makes_due) => {
                // Announced first: who reads after an answer sees the change.
                if makes_due {
                    self.changes.send_modify(|count| *count += 1);
                }
                connection.record_success();
                None
            }
            Err(error) => {
                connection.record_failure().await;
                tracing::error!(%error, jobs = jobs.len(), "writing executions failed");
                Some(error.to_string())
            }
        };
        for job in jobs {
            job.send_reply(failure.as_deref());
        }
    }
}

/// Writes a group; returns whether anything may be due earlier than before.
async fn transact(
    connection: &mut WriterConnection,
    jobs: &mut [WriteJob],
) -> rows::SqlResult<bool> {
    let connection = connection.get().await?;
    let view = group_view::read_group(connection, &GroupKeys::from_jobs(jobs)).await?;
    let batch = GroupWrites::default();
    let mut group = JobGroup { view, batch };
    for job in jobs {
        group.decide(job);
    }
    rows::commit(connection, &group.view, &group.batch).await?;
    Ok(group.batch.makes_due)
}

async fn execute_alone(connection: &mut WriterConnection, mut separate: SeparateWrite) {
    let result = match connection.get().await {
        Ok(opened) => separate.run(opened).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &result {
        connection.record_failure().await;
        tracing::error!(%error, "maintaining the execution store failed");
    } else {
        connection.record_success();
    }
    let failure = result.err().map(|error| error.to_string());
    separate.send_reply(failure.as_deref());
}

#[async_trait]
impl GroupHandler for JobHandler {
    type Request = WriteRequest;
    const GROUP_MAX: usize = 1_024;

    async fn handle(&mut self, connection: &mut WriterConnection, requests: Vec<WriteRequest>) {
        let mut jobs = VecDeque::with_capacity(requests.len());
        let mut separate_writes = Vec::new();
        for request in requests {
            match request {
                WriteRequest::Job(job) => jobs.push_back(job),
                WriteRequest::Separate(separate) => separate_writes.push(separate),
            }
        }
        while !jobs.is_empty() {
            self.execute_group(connection, next_group(&mut jobs)).await;
        }
        for separate in separate_writes {
            execute_alone(connection, separate).await;
        }
    }
}

/// Takes the jobs of one transaction off the queue.
fn next_group(jobs: &mut VecDeque<WriteJob>) -> Vec<WriteJob> {
    let mut bytes = 0;
    let fit = jobs.iter().take_while(|job| {
        let first = bytes == 0;
        bytes += job.bytes().max(1);
        first || bytes <= GROUP_BYTES
    });
    let fit = fit.count();
    jobs.drain(..fit).collect()
}
