//! Voters that vote at a steady rate, whether they are answered or not, and record when
//! they were answered.
//!
//! A vote is due at a time that does not depend on earlier answers, and its latency
//! counts from that time. So a write pause counts for every vote that was due in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinHandle;

use crate::http::client::NUMBER;
use crate::http::server::{Poll, Tenant};
use crate::stopwatch::Stopwatch;

/// Connections that share the votes of a tenant.
const CONNECTIONS: u64 = 50;

/// A vote that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// When it was due, by the clock of the run.
    pub(super) due: Duration,
    /// When its answer came.
    pub(super) at: Duration,
}

impl Answered {
    pub(super) fn took(&self) -> Duration {
        self.at.saturating_sub(self.due)
    }
}

/// Running voters.
pub(super) struct Voters {
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<anyhow::Result<Vec<Answered>>>>,
}

/// The answered and failed votes.
pub(super) struct RecordedVotes {
    /// In the order of their answers.
    pub(super) answered: Vec<Answered>,
    pub(super) failed: u64,
}

impl Voters {
    /// Starts the voters of a poll, which have voted before: together they change their
    /// votes this many times a second.
    pub(super) async fn start(
        tenant: &Tenant,
        poll: &Poll,
        voters: u64,
        per_second: u64,
        clock: &Arc<Stopwatch>,
    ) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        let requests = [0, 1].map(|item| poll.vote_for(item, &format!("voter-{NUMBER}")));
        for n in 0..CONNECTIONS {
            let one = One {
                requests: requests.clone(),
                number: n,
                voters,
                every: Duration::from_secs_f64(CONNECTIONS as f64 / per_second as f64),
                clock: clock.clone(),
                stop: stop.clone(),
                failed: failed.clone(),
            };
            let connection = tenant.connect().await?;
            tasks.push(tokio::spawn(one.run(tenant.clone(), connection)));
        }
        Ok(Self {
            stop,
            failed,
            tasks,
        })
    }

    /// Stops the voters, and returns their votes.
    pub(super) async fn stop(self) -> anyhow::Result<RecordedVotes> {
        self.stop.store(true, Ordering::Relaxed);
        let mut answered = Vec::new();
        for task in self.tasks {
            answered.append(&mut task.await.context("a voter failed")??);
        }
        answered.sort_unstable_by_key(|one| one.at);
        Ok(RecordedVotes {
            answered,
            failed: self.failed.load(Ordering::Relaxed),
        })
    }
}

/// One connection's voters.
struct One {
    requests: [Vec<u8>; 2],
    number: u64,
    voters: u64,
    every: Duration,
    clock: Arc<Stopwatch>,
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
}

impl One {
    async fn run(
        self,
        tenant: Tenant,
        mut connection: crate::http::client::Connection,
    ) -> anyhow::Result<Vec<Answered>> {
        let mut answered = Vec::new();
        // Do not start all connections at the same moment.
        let mut due =
            self.clock.elapsed() + self.every.mul_f64(self.number as f64 / CONNECTIONS as f64);
        // Each connection has its own voters: every fiftieth. First all of them change to
        // the second item, then all to the first.
        let own = (self.voters / CONNECTIONS).max(1);
        let mut place = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(early) = due.checked_sub(self.clock.elapsed()) {
                tokio::time::sleep(early).await;
            }
            let item = 1 - (place / own % 2) as usize;
            let voter = place % own * CONNECTIONS + self.number;
            let request = numbered(&self.requests[item], voter);
            match connection.ask(&request).await {
                Ok(_) => answered.push(Answered {
                    due,
                    at: self.clock.elapsed(),
                }),
                Err(_) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    connection = tenant.connect().await?;
                }
            }
            place += 1;
            due += self.every;
        }
        Ok(answered)
    }
}

fn numbered(request: &[u8], number: u64) -> Vec<u8> {
    let mut request = request.to_vec();
    let mut places = request.windows(NUMBER.len());
    if let Some(place) = places.position(|some| some == NUMBER.as_bytes()) {
        let digits = format!("{number:09}");
        request[place..place + NUMBER.len()].copy_from_slice(digits.as_bytes());
    }
    request
}

/// The votes that were due within a span.
pub(super) fn due_within(
    votes: &[Answered],
    from: Duration,
    to: Duration,
) -> impl Iterator<Item = &Answered> {
    let within = move |one: &&Answered| one.due >= from && one.due < to;
    votes.iter().filter(within)
}

/// The longest time between two answers that started within a span: its start and its
/// length.
pub(super) fn longest_silence(
    votes: &[Answered],
    from: Duration,
    to: Duration,
) -> (Duration, Duration) {
    let mut longest = (from, Duration::ZERO);
    let first = votes.partition_point(|one| one.at < from);
    let last = votes.partition_point(|one| one.at < to);
    let end = votes.len().min(last + 1);
    for two in votes[first.min(end)..end].windows(2) {
        let silence = two[1].at - two[0].at;
        if silence > longest.1 {
            longest = (two[0].at, silence);
        }
    }
    longest
}
