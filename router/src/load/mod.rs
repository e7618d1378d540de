//! What passes through this router, counted for those who look for hotspots.
//!
//! ```text
//!   a request is answered ──► a stripe of counts (the thread's own)
//!                                │ drained now and then
//!                                ▼
//!                             [`ShardLoad`] for each shard
//! ```
//! A request costs one lock that only the drain ever contends for, a few
//! look-ups and additions; nothing is shared between threads. Memory is bounded
//! in every direction: what is beyond is counted for the shard alone.

mod busiest;
mod drained;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ballast_domain::poll::Verdict;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, KeyId, PollId, ShardId};

pub use busiest::{Busiest, Weight};
pub use drained::{Counts, ItemName, KeyCalls, KeyName, ShardLoad, SliceLoad};

use crate::State;
use crate::admit::Access;

/// Stripes: more than there are threads on most machines.
const STRIPES: usize = 16;

/// What a request was, as far as load is concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Call {
    /// Nothing that a shard has to do with.
    #[default]
    Other,
    /// One vote, and for what, once that is known.
    Vote(Option<(PollId, ItemId)>),
    /// Reads, and what is rare.
    Query,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Counted, or answered.
    Fine,
    /// Failed or refused.
    Failed,
    /// Turned away because there were too many.
    Throttled,
}

/// All that is counted of one request.
pub(crate) struct Noted<'a> {
    pub(crate) shard: &'a ShardId,
    pub(crate) slice: &'a SliceId,
    pub(crate) key: &'a KeyId,
    pub(crate) call: Call,
    pub(crate) end: End,
    pub(crate) bytes: u64,
    pub(crate) micros: u64,
}

type Stripe = BTreeMap<ShardId, ShardLoad>;

/// Counts what passes.
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
    pub(crate) fn note(&self, noted: &Noted<'_>) {
        let mut stripe = self.stripe();
        match stripe.get_mut(noted.shard) {
            Some(load) => load.note(noted),
            None => stripe.entry(noted.shard.clone()).or_default().note(noted),
        }
    }

    /// Counts the votes of a batch that one slice's shard has judged.
    fn note_batch(&self, at: (&ShardId, &SliceId), key: &KeyId, batch: &mut Batch<'_>) {
        let mut stripe = self.stripe();
        let load = stripe.entry(at.0.clone()).or_default();
        load.note_batch(at.1, key, batch);
    }

    /// All that was counted since the last time.
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

    /// The calling thread's stripe. A panic under its lock leaves counts that
    /// are a little wrong, and nothing else.
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

/// Votes that came in one request and went to one slice.
pub(crate) struct Batch<'a> {
    /// What each vote is for, and what became of it.
    pub(crate) votes: &'a mut dyn Iterator<Item = (PollId, ItemId, Option<&'a Verdict>)>,
    pub(crate) bytes: u64,
    pub(crate) micros: u64,
}

impl State {
    /// Everything that passed since the last call, by shard. For one caller.
    pub fn drain_load(&self) -> BTreeMap<ShardId, ShardLoad> {
        self.parts.load.drain()
    }

    /// Whether load is counted from now on.
    pub fn count_load(&self, is_on: bool) {
        self.parts.load.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Counts a batch of votes.
    pub(crate) fn note_batch(
        &self,
        access: &Access,
        at: (&ShardId, &SliceId),
        mut batch: Batch<'_>,
    ) {
        if self.parts.load.is_on() {
            self.parts
                .load
                .note_batch(at, &access.key.key_id, &mut batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::House;

    const ADA: &str = r#"{"voterID":"ada"}"#;
    const BOB: &str = r#"{"voterID":"bob"}"#;

    #[tokio::test]
    async fn what_passes_is_counted_for_shard_slice_key_and_item() {
        let house = House::new(|_| {});
        let (poll, vote) = house.poll().await;
        house.state.drain_load();
        house.ask("PATCH", &vote, ADA).await;
        house.ask_directly("PATCH", &vote, BOB).await;
        house
            .ask("PATCH", &vote.replace("item-", "item-0"), BOB)
            .await;
        house.ask("GET", &format!("{poll}/votes"), "").await;
        house.ask("GET", "/resolve", "").await;
        let load = house.state.drain_load();
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
        assert!(house.state.drain_load().is_empty(), "nothing is told twice");
    }

    #[tokio::test]
    async fn a_stream_counts_its_votes_and_not_itself() {
        let house = House::new(|_| {});
        let (_, vote) = house.poll().await;
        let mut names = vote.split('/').skip(2).step_by(2);
        let (poll, item) = (names.next().unwrap(), names.next().unwrap());
        let line =
            |voter: &str| format!(r#"{{"pollID":"{poll}","itemID":"{item}","voterID":"{voter}"}}"#);
        house.state.drain_load();
        let body = [line("a"), line("b"), line("a")].join("\n");
        house.ask("POST", "/votes", &body).await;
        let load = house.state.drain_load();
        let counts = load["shard-1"].counts;
        assert_eq!((counts.votes, counts.queries, counts.errors), (3, 0, 0));
    }

    #[tokio::test]
    async fn nothing_is_counted_when_nobody_looks() {
        let house = House::new(|settings| settings.count_load = false);
        let (_, vote) = house.poll().await;
        house.ask("PATCH", &vote, ADA).await;
        assert!(house.state.drain_load().is_empty());
    }
}
