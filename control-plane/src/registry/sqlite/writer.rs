//! Executes groups of registry commits: decides which of them happen, writes
//! them in one transaction, and answers when it is durable.
//!
//! A failed transaction fails every commit of its group and changes nothing.

use std::sync::Arc;

use async_trait::async_trait;
use ballast_domain::registry::{
    CommitError, Precondition, RecordKind, RegistryCommit, RegistryError,
};
use ballast_domain::{Clock, Timestamp};
use ballast_sqlite_store::{GroupHandler, WriterConnection};
use sqlx::SqliteConnection;
use tokio::sync::{oneshot, watch};

use super::group::{Batch, Counters, View};
use super::rows;

type Reply<T, E> = oneshot::Sender<Result<T, E>>;

/// A write in the queue, and where its answer goes.
pub(super) enum WriteRequest {
    Commit(Box<RegistryCommit>, Reply<u64, CommitError>),
    Maintain(Maintenance, Reply<(), RegistryError>),
}

/// A write outside of the records.
pub(super) enum Maintenance {
    ForgetReplies(Timestamp),
    MarkUsed(RecordKind, Vec<(String, Timestamp)>),
}

/// The registry's side of the writer task.
pub(super) struct CommitHandler {
    clock: Arc<dyn Clock>,
    /// Read from the file when a connection is opened, and kept up to date by
    /// the one writer.
    counters: Counters,
    last_at: Timestamp,
    generation: u64,
    durable: watch::Sender<u64>,
}

impl CommitHandler {
    /// A handler, and the newest durable revision as it changes.
    pub(super) async fn new(
        connection: &mut WriterConnection,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, watch::Receiver<u64>), sqlx::Error> {
        let (counters, last_at) = rows::read_counters(connection.get().await?).await?;
        let (durable, newest) = watch::channel(counters.revision);
        let handler = Self {
            clock,
            counters,
            last_at,
            generation: connection.generation(),
            durable,
        };
        Ok((handler, newest))
    }

    /// Commits a group. A commit that fails its preconditions is answered with
    /// the others, when what it lost against is durable.
    async fn commit_group(
        &mut self,
        connection: &mut WriterConnection,
        group: Vec<(RegistryCommit, Reply<u64, CommitError>)>,
    ) {
        let (commits, replies): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        match self.transact(connection, commits).await {
            Ok(outcomes) => {
                connection.record_success();
                // Announce first: a caller that reads after its reply must see the commit.
                self.durable.send_replace(self.counters.revision);
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    let _ = reply.send(outcome);
                }
            }
            Err(error) => {
                connection.record_failure().await;
                tracing::error!(%error, commits = replies.len(), "registry commit failed");
                let message = error.to_string();
                for reply in replies {
                    let error = RegistryError::new("commit to the registry", message.clone());
                    let _ = reply.send(Err(error.into()));
                }
            }
        }
    }

    async fn transact(
        &mut self,
        connection: &mut WriterConnection,
        commits: Vec<RegistryCommit>,
    ) -> Result<Vec<Result<u64, CommitError>>, sqlx::Error> {
        self.refresh_counters(connection).await?;
        let at = self.clock.now().max(self.last_at);
        let mut counters = self.counters;
        let connection = connection.get().await?;
        let mut transaction = sqlx::Connection::begin_with(connection, "BEGIN IMMEDIATE").await?;
        let mut view = read_view(&mut transaction, &commits, at).await?;
        let mut batch = Batch::default();
        let outcomes = commits
            .into_iter()
            .map(|commit| batch.take(&mut view, &mut counters, at, commit))
            .collect();
        rows::insert(&mut transaction, &batch).await?;
        transaction.commit().await?;
        self.counters = counters;
        self.last_at = at;
        Ok(outcomes)
    }

    async fn maintain(
        &mut self,
        connection: &mut WriterConnection,
        maintenance: &Maintenance,
    ) -> Result<(), sqlx::Error> {
        self.refresh_counters(connection).await?;
        let connection = connection.get().await?;
        match maintenance {
            Maintenance::ForgetReplies(now) => rows::forget_replies(connection, *now).await,
            Maintenance::MarkUsed(kind, uses) => rows::mark_used(connection, *kind, uses).await,
        }
    }

    /// Reads the counters again when the connection is a new one: the write that
    /// failed on the old one may have happened.
    async fn refresh_counters(
        &mut self,
        connection: &mut WriterConnection,
    ) -> Result<(), sqlx::Error> {
        connection.get().await?;
        let generation = connection.generation();
        if generation != self.generation {
            let (counters, last_at) = rows::read_counters(connection.get().await?).await?;
            self.counters = counters;
            self.last_at = last_at.max(self.last_at);
            self.generation = generation;
            self.durable.send_replace(counters.revision);
        }
        Ok(())
    }
}

#[async_trait]
impl GroupHandler for CommitHandler {
    type Request = WriteRequest;
    const GROUP_MAX: usize = 512;

    async fn handle(&mut self, connection: &mut WriterConnection, requests: Vec<WriteRequest>) {
        let mut commits = Vec::with_capacity(requests.len());
        for request in requests {
            match request {
                WriteRequest::Commit(commit, reply) => commits.push((*commit, reply)),
                WriteRequest::Maintain(maintenance, reply) => {
                    let result = self.maintain(connection, &maintenance).await;
                    match &result {
                        Ok(()) => connection.record_success(),
                        Err(_) => connection.record_failure().await,
                    }
                    let _ = reply.send(
                        result
                            .map_err(|source| RegistryError::new("maintain the registry", source)),
                    );
                }
            }
        }
        if !commits.is_empty() {
            self.commit_group(connection, commits).await;
        }
    }
}

/// Reads everything the group refers to: records, their current and future tallies,
/// and replies.
async fn read_view(
    connection: &mut SqliteConnection,
    commits: &[RegistryCommit],
    at: Timestamp,
) -> Result<View, sqlx::Error> {
    let mut keys = Vec::new();
    let mut tallies = Vec::new();
    let mut replies = Vec::new();
    for commit in commits {
        for write in &commit.writes {
            keys.push(&write.key);
            tallies.extend(
                write
                    .tallies
                    .iter()
                    .map(|tally| (write.key.kind, tally.as_str())),
            );
        }
        for expect in &commit.expects {
            match expect {
                Precondition::Version(key, _) => keys.push(key),
                Precondition::TallyBelow(kind, tally, _) => tallies.push((*kind, tally.as_str())),
            }
        }
        replies.extend(commit.reply.as_ref().map(|reply| reply.id.as_str()));
    }
    let records = rows::read_records(connection, &keys).await?;
    let held: Vec<(RecordKind, String)> = records
        .iter()
        .flat_map(|(key, known)| known.tallies.iter().map(|tally| (key.kind, tally.clone())))
        .collect();
    tallies.extend(held.iter().map(|(kind, tally)| (*kind, tally.as_str())));
    Ok(View {
        tallies: rows::read_tallies(connection, &tallies).await?,
        replies: rows::read_replies(connection, &replies, at).await?,
        records,
    })
}
