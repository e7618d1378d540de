//! The counts of a shard, its slices, and its heaviest keys and items.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use ballast_domain::poll::BallotOutcome;
use ballast_domain::sketch::Sketch;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, KeyId, PollId, TenantId};
use quick_cache::DefaultHashBuilder;

use super::heavy_hitters::{HitWeight, SpaceSavingCounts};
use super::{CallKind, CallOutcome, CallRecord, VoteBatch};

/// The most slices of one shard that a stripe counts separately.
const SLICES_MAX: usize = 50_000;
/// The most of these that also have a latency sketch.
const LATENCIES_MAX: usize = 2_000;

/// Calls and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Votes that were counted now or earlier.
    pub votes: u64,
    /// Queries that were answered.
    pub queries: u64,
    /// Bytes of bodies, in and out.
    pub bytes: u64,
    /// Calls that failed or were refused.
    pub errors: u64,
    /// Calls that exceeded a rate limit.
    pub throttles: u64,
    /// The total duration of all calls, in microseconds.
    pub busy_micros: u64,
}

impl LoadCounts {
    fn add(&mut self, more: &Self) {
        self.votes += more.votes;
        self.queries += more.queries;
        self.bytes += more.bytes;
        self.errors += more.errors;
        self.throttles += more.throttles;
        self.busy_micros += more.busy_micros;
    }

    fn from_call(call: &CallRecord<'_>) -> Self {
        let mut counts = Self {
            bytes: call.bytes,
            busy_micros: call.micros,
            ..Self::default()
        };
        let count = match (call.outcome, call.kind) {
            (CallOutcome::Throttled, _) => &mut counts.throttles,
            (CallOutcome::Failed, _) => &mut counts.errors,
            (CallOutcome::Fine, CallKind::Vote(_)) => &mut counts.votes,
            (CallOutcome::Fine, CallKind::Query | CallKind::Other) => &mut counts.queries,
        };
        *count = 1;
        counts
    }
}

/// The calls of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyCalls {
    /// All calls.
    pub calls: u64,
    /// Calls that failed, were refused or were throttled.
    pub refused: u64,
}

impl HitWeight for KeyCalls {
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

/// A key and its tenant. It is identified by the key alone.
#[derive(Debug, Clone)]
pub struct KeyLabel {
    /// The key.
    pub key: KeyId,
    /// The tenant.
    pub tenant: TenantId,
}

/// An item and its slice. It is identified by the item alone, because an item is in
/// one slice at a time.
#[derive(Debug, Clone)]
pub struct ItemLabel {
    /// The poll, and the item of it.
    pub item: (PollId, ItemId),
    /// The slice.
    pub slice: SliceId,
}

/// Implements identity by one field.
macro_rules! identified_by {
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

identified_by!(KeyLabel, key: KeyId);
identified_by!(ItemLabel, item: (PollId, ItemId));

/// The load of a slice.
#[derive(Debug, Clone, Default)]
pub struct RoutedSliceLoad {
    /// Calls and bytes.
    pub counts: LoadCounts,
    /// The latency of its calls; empty if it is not tracked.
    pub latency: Sketch,
}

/// The load that went to a shard.
#[derive(Debug, Clone, Default)]
pub struct RoutedLoad {
    /// Calls and bytes.
    pub counts: LoadCounts,
    /// The latency of votes.
    pub vote_latency: Sketch,
    /// The latency of queries.
    pub query_latency: Sketch,
    slices: HashMap<SliceId, RoutedSliceLoad, DefaultHashBuilder>,
    /// The heaviest keys.
    pub keys: SpaceSavingCounts<KeyLabel, KeyCalls>,
    /// The items with the most votes.
    pub items: SpaceSavingCounts<ItemLabel>,
}

impl RoutedLoad {
    /// Its slices that had any load.
    pub fn slices(&self) -> impl Iterator<Item = (&SliceId, &RoutedSliceLoad)> {
        self.slices.iter()
    }

    pub(super) fn record_call(&mut self, call: &CallRecord<'_>) {
        let counts = LoadCounts::from_call(call);
        let ms = call.micros as f64 / 1_000.0;
        self.counts.add(&counts);
        let is_fine = call.outcome == CallOutcome::Fine;
        if is_fine {
            match call.kind {
                CallKind::Vote(_) => self.vote_latency.add(ms),
                CallKind::Query | CallKind::Other => self.query_latency.add(ms),
            }
        }
        self.record_slice(call.slice, &counts, is_fine.then_some((ms, 1)));
        let calls = KeyCalls {
            calls: 1,
            refused: u64::from(!is_fine),
        };
        self.record_key(call.key, call.slice, &calls);
        if let (CallKind::Vote(Some(item)), true) = (call.kind, is_fine) {
            self.record_item(item, call.slice);
        }
    }

    fn record_key(&mut self, key: &KeyId, slice: &SliceId, calls: &KeyCalls) {
        let whole = || KeyLabel {
            key: key.clone(),
            tenant: slice.tenant_id.clone(),
        };
        self.keys.add_or_insert(key, calls, whole);
    }

    fn record_item(&mut self, item: (PollId, ItemId), slice: &SliceId) {
        let whole = || ItemLabel {
            item,
            slice: slice.clone(),
        };
        self.items.add_or_insert(&item, &1, whole);
    }

    fn record_slice(&mut self, slice: &SliceId, counts: &LoadCounts, took: Option<(f64, u64)>) {
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
        // A slice that has a sketch keeps it: a sketch of some of its calls would be
        // wrong.
        if let Some((ms, calls)) = took
            && (is_latency || load.latency.count() > 0)
        {
            load.latency.add_many(ms, calls);
        }
    }

    pub(super) fn record_votes(&mut self, slice: &SliceId, key: &KeyId, batch: &mut VoteBatch<'_>) {
        let mut counts = LoadCounts {
            bytes: batch.bytes,
            busy_micros: batch.micros,
            ..LoadCounts::default()
        };
        for (poll, item, verdict) in &mut *batch.votes {
            match verdict {
                Some(BallotOutcome::Counted { .. } | BallotOutcome::Already { .. }) => {
                    counts.votes += 1;
                    self.record_item((poll, item), slice);
                }
                Some(BallotOutcome::Refused(_)) | None => counts.errors += 1,
            }
        }
        let ms = batch.micros as f64 / 1_000.0;
        self.counts.add(&counts);
        self.vote_latency.add_many(ms, counts.votes);
        self.record_slice(slice, &counts, Some((ms, counts.votes)));
        let calls = KeyCalls {
            calls: counts.votes + counts.errors,
            refused: counts.errors,
        };
        self.record_key(key, slice, &calls);
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
