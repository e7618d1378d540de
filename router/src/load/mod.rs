//! The load that passes through this router, counted for hotspot detection.
//!
//! ```text
//!   request answered ──► counts of the thread's stripe
//!                                │ drained from time to time
//!                                ▼
//!                        [`RoutedLoad`] per shard
//! ```
//! A request costs one lock, which only the drain contends for, and a few
//! look-ups and additions. Threads share nothing. Memory is bounded per slice, key
//! and item: beyond the bounds, load is counted for the shard only.

mod counts;
mod heavy_hitters;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ballast_domain::poll::BallotOutcome;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, KeyId, PollId, ShardId};

pub use counts::{ItemLabel, KeyCalls, KeyLabel, LoadCounts, RoutedLoad, RoutedSliceLoad};
pub use heavy_hitters::{HitWeight, SpaceSavingCounts};

use crate::RouterState;
use crate::admit::Access;

/// The number of stripes: more than most machines have threads.
const STRIPES: usize = 16;

/// How load counts a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Not counted: it did not use a shard.
    #[default]
    Other,
    /// One vote, and its item once that is known.
    Vote(Option<(PollId, ItemId)>),
    /// A read, or a rare request such as creating a poll.
    Query,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// It succeeded.
    Fine,
    /// It failed or was refused.
    Failed,
    /// It exceeded a rate limit.
    Throttled,
}

/// What is counted for one request.
pub(crate) struct CallRecord<'a> {
    pub(crate) shard: &'a ShardId,
    pub(crate) slice: &'a SliceId,
    pub(crate) key: &'a KeyId,
    pub(crate) kind: CallKind,
    pub(crate) outcome: CallOutcome,
    pub(crate) bytes: u64,
    pub(crate) micros: u64,
}

type Stripe = BTreeMap<ShardId, RoutedLoad>;

/// Counts requests in stripes.
pub(crate) struct LoadMeter {
    stripes: [Mutex<Stripe>; STRIPES],
    is_on: AtomicBool,
}

impl LoadMeter {
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            stripes: std::array::from_fn(|_| Mutex::default()),
            is_on: AtomicBool::new(is_on),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counts a request.
    pub(crate) fn record_call(&self, call: &CallRecord<'_>) {
        let mut stripe = self.stripe();
        match stripe.get_mut(call.shard) {
            Some(load) => load.record_call(call),
            None => stripe
                .entry(call.shard.clone())
                .or_default()
                .record_call(call),
        }
    }

    /// Counts the votes of a batch for one slice.
    fn record_votes(&self, at: (&ShardId, &SliceId), key: &KeyId, batch: &mut VoteBatch<'_>) {
        let mut stripe = self.stripe();
        let load = stripe.entry(at.0.clone()).or_default();
        load.record_votes(at.1, key, batch);
    }

    /// Takes everything that was counted since the last drain.
    fn drain(&self) -> Stripe {
        let mut all = Stripe::new();
        for stripe in &self.stripes {
            let counted = {
                let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *stripe)
            };
            for (shard, load) in counted {
                match all.get_mut(&shard) {
                    Some(sum) => sum.merge(load),
                    None => drop(all.insert(shard, load)),
                }
            }
        }
        all
    }

    /// The calling thread's stripe. A panic while its lock is held can only leave
    /// slightly wrong counts.
    fn stripe(&self) -> MutexGuard<'_, Stripe> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        let own = OWN.with(Cell::get) % STRIPES;
        self.stripes[own]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Votes of one request that went to one slice.
pub(crate) struct VoteBatch<'a> {
    /// The poll, item and outcome of each vote.
    pub(crate) votes: &'a mut dyn Iterator<Item = (PollId, ItemId, Option<&'a BallotOutcome>)>,
    pub(crate) bytes: u64,
    pub(crate) micros: u64,
}

impl RouterState {
    /// Takes the load since the last call, by shard. There must be one caller only.
    pub fn drain_load(&self) -> BTreeMap<ShardId, RoutedLoad> {
        self.parts.load.drain()
    }

    /// Turns counting on or off.
    pub fn count_load(&self, is_on: bool) {
        self.parts.load.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Counts a batch of votes.
    pub(crate) fn record_votes(
        &self,
        access: &Access,
        at: (&ShardId, &SliceId),
        mut batch: VoteBatch<'_>,
    ) {
        if self.parts.load.is_on() {
            self.parts
                .load
                .record_votes(at, &access.key.key_id, &mut batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestRouter;

    const ADA: &str = r#"{"voterID":"ada"}"#;
    const BOB: &str = r#"{"voterID":"bob"}"#;

    #[tokio::test]
    async fn requests_are_counted_per_shard_slice_key_and_item() {
        let server = TestRouter::new(|_| {});
        let (poll, vote) = server.poll().await;
        server.state.drain_load();
        server.ask("PATCH", &vote, ADA).await;
        server.ask_directly("PATCH", &vote, BOB).await;
        server
            .ask("PATCH", &vote.replace("item-", "item-0"), BOB)
            .await;
        server.ask("GET", &format!("{poll}/votes"), "").await;
        server.ask("GET", "/resolve", "").await;
        let load = server.state.drain_load();
        let shard = &load["shard-1"];
        let counts = shard.counts;
        assert_eq!((counts.votes, counts.queries, counts.errors), (2, 1, 1));
        assert!(counts.bytes > 0);
        assert_eq!(shard.vote_latency.count(), 2);
        let slices: Vec<_> = shard.slices().collect();
        assert_eq!(slices.len(), 1);
        assert_eq!(slices[0].1.counts.votes, 2);
        let keys = shard.keys.top(10);
        assert_eq!(keys.len(), 1);
        assert_eq!((keys[0].1.calls, keys[0].1.refused), (4, 1));
        let items = shard.items.top(10);
        assert_eq!(items.iter().map(|(_, votes)| *votes).sum::<u64>(), 2);
        assert!(
            server.state.drain_load().is_empty(),
            "a drain leaves nothing behind"
        );
    }

    #[tokio::test]
    async fn a_stream_counts_its_votes_and_not_itself() {
        let server = TestRouter::new(|_| {});
        let (_, vote) = server.poll().await;
        let mut names = vote.split('/').skip(2).step_by(2);
        let (poll, item) = (names.next().unwrap(), names.next().unwrap());
        let line =
            |voter: &str| format!(r#"{{"pollID":"{poll}","itemID":"{item}","voterID":"{voter}"}}"#);
        server.state.drain_load();
        let body = [line("a"), line("b"), line("a")].join("\n");
        server.ask("POST", "/votes", &body).await;
        let load = server.state.drain_load();
        let counts = load["shard-1"].counts;
        assert_eq!((counts.votes, counts.queries, counts.errors), (3, 0, 0));
    }

    #[tokio::test]
    async fn nothing_is_counted_when_counting_is_off() {
        let server = TestRouter::new(|settings| settings.count_load = false);
        let (_, vote) = server.poll().await;
        server.ask("PATCH", &vote, ADA).await;
        assert!(server.state.drain_load().is_empty());
    }
}
