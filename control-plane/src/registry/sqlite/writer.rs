//! The one writer: drains the queue, decides, writes, syncs once, answers.
//!
//! Nothing is answered before the transaction of its group is durable. A
//! failed transaction fails every commit of its group and changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ballast_domain::registry::{Commit, CommitError, Expect, Kind, StoreError};
use ballast_domain::{Clock, Timestamp};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use super::file_id::FileId;
use super::group::{Batch, Counters, View};
use super::rows;

/// Commits that may wait; beyond that, callers do.
const QUEUE: usize = 1_024;
/// Commits that share one sync.
const GROUP: usize = 512;

type Answer<T, E> = oneshot::Sender<Result<T, E>>;

pub(super) enum Job {
    Commit(Box<Commit>, Answer<u64, CommitError>),
    Aside(Aside, Answer<(), StoreError>),
    Close(oneshot::Sender<()>),
}

/// A write that is no change of a record.
pub(super) enum Aside {
    ForgetReplies(Timestamp),
    MarkUsed(Kind, Vec<(String, Timestamp)>),
}

pub(super) struct Writer {
    pub(super) queue: mpsc::Sender<Job>,
    pub(super) durable: watch::Receiver<u64>,
}

struct State {
    /// `None` after a failure: the next write opens it anew. Whatever a failed
    /// transaction left behind, in SQLite or in the driver, goes with the old
    /// one.
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    clock: Arc<dyn Clock>,
    counters: Counters,
    last_at: Timestamp,
    durable: watch::Sender<u64>,
    file: FileId,
    failing: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the writer's task on its own connection.
    pub(super) async fn start(
        mut connection: SqliteConnection,
        options: SqliteConnectOptions,
        clock: Arc<dyn Clock>,
        file: FileId,
        failing: Arc<AtomicBool>,
    ) -> Result<Self, sqlx::Error> {
        let (counters, last_at) = rows::counters(&mut connection).await?;
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (announce, durable) = watch::channel(counters.revision);
        let state = State {
            connection: Some(connection),
            options: options.create_if_missing(false),
            clock,
            counters,
            last_at,
            durable: announce,
            file,
            failing,
        };
        tokio::spawn(state.run(jobs));
        Ok(Self { queue, durable })
    }
}

impl State {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut drained = Vec::with_capacity(GROUP);
        let mut closing = None;
        while closing.is_none() && jobs.recv_many(&mut drained, GROUP).await > 0 {
            let mut commits = Vec::with_capacity(drained.len());
            for job in drained.drain(..) {
                match job {
                    Job::Commit(commit, answer) => commits.push((*commit, answer)),
                    Job::Aside(aside, answer) => {
                        let done = self.aside(&aside).await;
                        match &done {
                            Ok(()) => self.failing.store(false, Ordering::Relaxed),
                            Err(_) => self.disconnect().await,
                        }
                        let _ =
                            answer.send(done.map_err(|source| {
                                StoreError::new("write beside the records", source)
                            }));
                    }
                    Job::Close(done) => closing = Some(done),
                }
            }
            if !commits.is_empty() {
                self.group(commits).await;
            }
        }
        if let Some(mut connection) = self.connection {
            // A reader may be a moment behind with its leaving: then closing
            // would not take the log in, as the last one's does. Nothing may be
            // written after it, so what is learned of the tables is kept before.
            for last in [
                "PRAGMA analysis_limit = 400",
                "PRAGMA optimize",
                "PRAGMA wal_checkpoint(TRUNCATE)",
            ] {
                let _ = sqlx::query(last).execute(&mut connection).await;
            }
            let _ = connection.close().await;
        }
        if let Some(done) = closing {
            let _ = done.send(());
        }
    }

    /// Commits a group. A commit refused by its expectations is answered at
    /// once with the others: what it was refused for is durable by then.
    async fn group(&mut self, group: Vec<(Commit, Answer<u64, CommitError>)>) {
        let (commits, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        match self.transact(commits).await {
            Ok(outcomes) => {
                self.failing.store(false, Ordering::Relaxed);
                // Announced first: whoever reads after an answer sees it.
                self.durable.send_replace(self.counters.revision);
                for (answer, outcome) in answers.into_iter().zip(outcomes) {
                    let _ = answer.send(outcome);
                }
            }
            Err(error) => {
                self.disconnect().await;
                tracing::error!(%error, commits = answers.len(), "registry commit failed");
                let message = error.to_string();
                for answer in answers {
                    let error = StoreError::new("commit to the registry", message.clone());
                    let _ = answer.send(Err(error.into()));
                }
            }
        }
    }

    async fn transact(
        &mut self,
        commits: Vec<Commit>,
    ) -> Result<Vec<Result<u64, CommitError>>, sqlx::Error> {
        // A commit into a file that nobody will find again is no commit.
        self.file.check()?;
        // First: opening it anew reads the counters again.
        self.connection().await?;
        let at = self.clock.now().max(self.last_at);
        let mut counters = self.counters;
        let connection = self.connection().await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
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

    async fn aside(&mut self, aside: &Aside) -> Result<(), sqlx::Error> {
        let connection = self.connection().await?;
        match aside {
            Aside::ForgetReplies(now) => rows::forget_replies(connection, *now).await,
            Aside::MarkUsed(kind, uses) => rows::mark_used(connection, *kind, uses).await,
        }
    }

    /// The connection, opened anew if the last write failed. What that write
    /// did is not known, so the counters are read again: it may have happened.
    async fn connection(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = SqliteConnection::connect_with(&self.options).await?;
                let (counters, last_at) = rows::counters(&mut connection).await?;
                self.counters = counters;
                self.last_at = last_at.max(self.last_at);
                self.durable.send_replace(counters.revision);
                connection
            }
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

/// Reads all that the group mentions: records, their tallies and the tallies
/// they are to have, replies.
async fn read_view(
    connection: &mut SqliteConnection,
    commits: &[Commit],
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
                Expect::Version(key, _) => keys.push(key),
                Expect::TallyBelow(kind, tally, _) => tallies.push((*kind, tally.as_str())),
            }
        }
        replies.extend(commit.reply.as_ref().map(|reply| reply.id.as_str()));
    }
    let records = rows::known(connection, &keys).await?;
    let held: Vec<(Kind, String)> = records
        .iter()
        .flat_map(|(key, known)| known.tallies.iter().map(|tally| (key.kind, tally.clone())))
        .collect();
    tallies.extend(held.iter().map(|(kind, tally)| (*kind, tally.as_str())));
    Ok(View {
        tallies: rows::tallies_of(connection, &tallies).await?,
        replies: rows::replies_of(connection, &replies, at).await?,
        records,
    })
}
