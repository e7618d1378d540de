//! What was counted: of a shard, its slices, its busiest keys and items.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use ballast_domain::poll::Verdict;
use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, KeyId, PollId, TenantId};
use quick_cache::DefaultHashBuilder;

use super::busiest::{Busiest, Weight};
use super::{Batch, Call, End, Noted};

/// Slices of one shard that are told apart in a stripe.
const SLICES_MAX: usize = 50_000;
/// Of these, those whose latencies are kept.
const LATENCIES_MAX: usize = 2_000;

/// Calls and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Votes that were counted, or were before.
    pub votes: u64,
    /// Queries that were answered.
    pub queries: u64,
    /// Bytes of bodies, in and out.
    pub bytes: u64,
    /// Calls that failed or were refused.
    pub errors: u64,
    /// Calls turned away because there were too many.
    pub throttles: u64,
    /// How long all calls took together, in microseconds.
    pub busy_micros: u64,
}

impl Counts {
    fn add(&mut self, more: &Self) {
        self.votes += more.votes;
        self.queries += more.queries;
        self.bytes += more.bytes;
        self.errors += more.errors;
        self.throttles += more.throttles;
        self.busy_micros += more.busy_micros;
    }

    fn of(noted: &Noted<'_>) -> Self {
        let mut counts = Self {
            bytes: noted.bytes,
            busy_micros: noted.micros,
            ..Self::default()
        };
        let count = match (noted.end, noted.call) {
            (End::Throttled, _) => &mut counts.throttles,
            (End::Failed, _) => &mut counts.errors,
            (End::Fine, Call::Vote(_)) => &mut counts.votes,
            (End::Fine, Call::Query | Call::Other) => &mut counts.queries,
        };
        *count = 1;
        counts
    }
}

/// What a key called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyCalls {
    /// All calls.
    pub calls: u64,
    /// Those that were refused, or turned away.
    pub refused: u64,
}

impl Weight for KeyCalls {
    fn weight(&self) -> u64 {
        self.calls
    }
    fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.refused += more.refused;
    }
    fn floor(weight: u64) -> Self {
        Self {
            calls: weight,
            refused: 0,
        }
    }
}

/// A key, and whose it is. The key says which it is.
#[derive(Debug, Clone)]
pub struct KeyName {
    /// The key.
    pub key: KeyId,
    /// The tenant.
    pub tenant: TenantId,
}

/// An item, and the slice that it is in. The item says which it is: an item is in
/// one slice at a time.
#[derive(Debug, Clone)]
pub struct ItemName {
    /// The poll, and the item of it.
    pub item: (PollId, ItemId),
    /// The slice.
    pub slice: SliceId,
}

/// Names that are told apart by one part of them.
macro_rules! known_by {
    ($name:ident, $part:ident: $kind:ty) => {
        impl Borrow<$kind> for $name {
            fn borrow(&self) -> &$kind {
                &self.$part
            }
        }
        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.$part.hash(state);
            }
        }
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.$part == other.$part
            }
        }
        impl Eq for $name {}
        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.$part.cmp(&other.$part)
            }
        }
    };
}

known_by!(KeyName, key: KeyId);
known_by!(ItemName, item: (PollId, ItemId));

/// What a slice used.
#[derive(Debug, Clone, Default)]
pub struct SliceLoad {
    /// Calls and bytes.
    pub counts: Counts,
    /// How long its calls took; nothing where that was not kept.
    pub latency: Sketch,
}

/// What passed through a shard.
#[derive(Debug, Clone, Default)]
pub struct ShardLoad {
    /// Calls and bytes.
    pub counts: Counts,
    /// How long votes took.
    pub vote_latency: Sketch,
    /// How long queries took.
    pub query_latency: Sketch,
    slices: HashMap<SliceId, SliceLoad, DefaultHashBuilder>,
    /// The busiest keys.
    pub keys: Busiest<KeyName, KeyCalls>,
    /// The items with the most votes.
    pub items: Busiest<ItemName>,
}

impl ShardLoad {
    /// Its slices that did something.
    pub fn slices(&self) -> impl Iterator<Item = (&SliceId, &SliceLoad)> {
        self.slices.iter()
    }

    pub(super) fn note(&mut self, noted: &Noted<'_>) {
        let counts = Counts::of(noted);
        let ms = noted.micros as f64 / 1_000.0;
        self.counts.add(&counts);
        let is_fine = noted.end == End::Fine;
        if is_fine {
            match noted.call {
                Call::Vote(_) => self.vote_latency.add(ms),
                Call::Query | Call::Other => self.query_latency.add(ms),
            }
        }
        self.note_slice(noted.slice, &counts, is_fine.then_some((ms, 1)));
        let calls = KeyCalls {
            calls: 1,
            refused: u64::from(!is_fine),
        };
        self.note_key(noted.key, noted.slice, &calls);
        if let (Call::Vote(Some(item)), true) = (noted.call, is_fine) {
            self.note_item(item, noted.slice);
        }
    }

    fn note_key(&mut self, key: &KeyId, slice: &SliceId, calls: &KeyCalls) {
        let whole = || KeyName {
            key: key.clone(),
            tenant: slice.tenant_id.clone(),
        };
        self.keys.add_known(key, calls, whole);
    }

    fn note_item(&mut self, item: (PollId, ItemId), slice: &SliceId) {
        let whole = || ItemName {
            item,
            slice: slice.clone(),
        };
        self.items.add_known(&item, &1, whole);
    }

    fn note_slice(&mut self, slice: &SliceId, counts: &Counts, took: Option<(f64, u64)>) {
        let (is_room, is_latency) = (
            self.slices.len() < SLICES_MAX,
            self.slices.len() < LATENCIES_MAX,
        );
        let load = match self.slices.get_mut(slice) {
            Some(load) => load,
            None if is_room => self.slices.entry(slice.clone()).or_default(),
            None => return,
        };
        load.counts.add(counts);
        // What was kept once is kept on: a sketch of half the calls would lie.
        if let Some((ms, calls)) = took
            && (is_latency || load.latency.count() > 0)
        {
            load.latency.add_many(ms, calls);
        }
    }

    pub(super) fn note_batch(&mut self, slice: &SliceId, key: &KeyId, batch: &mut Batch<'_>) {
        let mut counts = Counts {
            bytes: batch.bytes,
            busy_micros: batch.micros,
            ..Counts::default()
        };
        for (poll, item, verdict) in &mut *batch.votes {
            match verdict {
                Some(Verdict::Counted { .. } | Verdict::Already { .. }) => {
                    counts.votes += 1;
                    self.note_item((poll, item), slice);
                }
                Some(Verdict::Refused(_)) | None => counts.errors += 1,
            }
        }
        let ms = batch.micros as f64 / 1_000.0;
        self.counts.add(&counts);
        self.vote_latency.add_many(ms, counts.votes);
        self.note_slice(slice, &counts, Some((ms, counts.votes)));
        let calls = KeyCalls {
            calls: counts.votes + counts.errors,
            refused: counts.errors,
        };
        self.note_key(key, slice, &calls);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.counts.add(&other.counts);
        self.vote_latency.merge(&other.vote_latency);
        self.query_latency.merge(&other.query_latency);
        for (slice, load) in other.slices {
            match self.slices.get_mut(&slice) {
                Some(sum) => {
                    sum.counts.add(&load.counts);
                    sum.latency.merge(&load.latency);
                }
                None => drop(self.slices.insert(slice, load)),
            }
        }
        self.keys.merge(other.keys);
        self.items.merge(other.items);
    }
}
