//! Compaction of recorded load: older load in coarser steps, the oldest dropped. Pure. Sums
//! stay exact, percentiles keep their error bound.

use std::collections::BTreeMap;

use ballast_domain::Timestamp;

use crate::load::ring::Merge;
use crate::load::sample::{Interval, IoWait, LoadSample, ShardSample};
use crate::load::shard_history::TOP_MAX;

/// A retention tier: the step length and how long load is kept in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// The length of a step, in milliseconds.
    pub step_ms: u64,
    /// How long it is kept in this tier, in milliseconds.
    pub keep_ms: u64,
}

impl Tier {
    /// 10 seconds for 2 hours, 1 minute for 2 days, 10 minutes for 2 weeks, 1 hour for a year.
    pub const NORMAL: [Self; 4] = [
        Self {
            step_ms: 10_000,
            keep_ms: 2 * 3_600_000,
        },
        Self {
            step_ms: 60_000,
            keep_ms: 48 * 3_600_000,
        },
        Self {
            step_ms: 600_000,
            keep_ms: 14 * 24 * 3_600_000,
        },
        Self {
            step_ms: 3_600_000,
            keep_ms: 365 * 24 * 3_600_000,
        },
    ];
}

/// Merges samples into steps of this length. Longer samples are unchanged.
#[must_use]
pub fn downsample(samples: Vec<LoadSample>, step_ms: u64) -> Vec<LoadSample> {
    let mut out: Vec<LoadSample> = Vec::new();
    for sample in samples {
        let step = step_containing(&sample, step_ms);
        match out.last_mut() {
            Some(last) if step.is_some() && step_containing(last, step_ms) == step => {
                merge(last, sample)
            }
            _ => out.push(widened(sample, step_ms)),
        }
    }
    out
}

/// Compacts samples: steps older than a tier's retention are merged into the next tier, and
/// dropped after the last. Only whole steps are merged, so that compaction is idempotent.
#[must_use]
pub fn compact(samples: Vec<LoadSample>, now: Timestamp, tiers: &[Tier]) -> Vec<LoadSample> {
    let mut compacted = samples;
    for (tier, next) in tiers.iter().zip(tiers.iter().skip(1)) {
        let (old, new): (Vec<_>, Vec<_>) = compacted.into_iter().partition(|sample| {
            let end = step_end(sample, next.step_ms);
            now.unix_ms() - end >= tier.keep_ms as i64
        });
        compacted = downsample(old, next.step_ms);
        compacted.extend(new);
    }
    if let Some(last) = tiers.last() {
        compacted
            .retain(|sample| now.unix_ms() - sample.interval.end().unix_ms() < last.keep_ms as i64);
    }
    compacted
}

/// The end of the step that a sample begins in.
fn step_end(sample: &LoadSample, step_ms: u64) -> i64 {
    let step = step_ms.max(1) as i64;
    (sample.interval.start.unix_ms().div_euclid(step) + 1) * step
}

/// The step that contains a sample; `None` if it is longer than a step.
fn step_containing(sample: &LoadSample, step_ms: u64) -> Option<i64> {
    let step = step_ms.max(1) as i64;
    let first = sample.interval.start.unix_ms().div_euclid(step);
    let last = (sample.interval.end().unix_ms() - 1).div_euclid(step);
    (first == last).then_some(first)
}

/// Widens a sample to its whole step, of which it measured a part.
fn widened(mut sample: LoadSample, step_ms: u64) -> LoadSample {
    let Some(step) = step_containing(&sample, step_ms) else {
        return sample;
    };
    let ms = sample.interval.ms;
    sample.interval = Interval {
        start: Timestamp::from_unix_ms(step * step_ms as i64),
        ms: step_ms,
    };
    for shard in &mut sample.shards {
        let measured = shard.measured_ms.unwrap_or(ms);
        shard.measured_ms = (measured < step_ms).then_some(measured);
    }
    sample
}

fn merge(into: &mut LoadSample, sample: LoadSample) {
    let (long, short) = (into.interval.ms, sample.interval.ms);
    for shard in sample.shards {
        let measured = shard.measured_ms.unwrap_or(short);
        let have = into
            .shards
            .iter_mut()
            .find(|have| have.shard == shard.shard);
        match have {
            Some(have) => merge_shard(have, long, shard, measured),
            None => {
                let measured_ms = (measured < long).then_some(measured);
                into.shards.push(ShardSample {
                    measured_ms,
                    ..shard
                });
            }
        }
    }
}

/// The time-weighted mean of two levels; if only one is known, that one.
fn mean(a: Option<f64>, a_ms: u64, b: Option<f64>, b_ms: u64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let (a_ms, b_ms) = (a_ms as f64, b_ms as f64);
            Some((a * a_ms + b * b_ms) / (a_ms + b_ms))
        }
        (known, None) | (None, known) => known,
    }
}

fn merge_shard(have: &mut ShardSample, step_ms: u64, more: ShardSample, more_ms: u64) {
    let have_ms = have.measured_ms.unwrap_or(step_ms);
    let level = |a, b| mean(a, have_ms, b, more_ms);
    have.region = more.region.clone();
    have.capacity = more.capacity;
    have.takes_slices = more.takes_slices;
    have.flow.merge(&more.flow);
    have.storage = more.storage.or(have.storage);
    have.concurrency = level(have.concurrency, more.concurrency);
    let queue = level(
        have.io_wait.map(|wait| wait.queue),
        more.io_wait.map(|wait| wait.queue),
    );
    let fsync = level(
        have.io_wait.map(|wait| wait.fsync),
        more.io_wait.map(|wait| wait.fsync),
    );
    have.io_wait = queue
        .zip(fsync)
        .map(|(queue, fsync)| IoWait { queue, fsync });
    have.vote_latency.merge(&more.vote_latency);
    have.query_latency.merge(&more.query_latency);
    let measured = have_ms + more_ms;
    have.measured_ms = (measured < step_ms).then_some(measured);
    merge_parts(have, have_ms, more, more_ms);
}

fn merge_parts(have: &mut ShardSample, have_ms: u64, more: ShardSample, more_ms: u64) {
    let mut slices: BTreeMap<_, _> = have
        .slices
        .drain(..)
        .map(|slice| (slice.slice.clone(), slice))
        .collect();
    // A slice missing from one of the two had no load there.
    let part = |ms: u64| ms as f64 / (have_ms + more_ms).max(1) as f64;
    slices
        .values_mut()
        .for_each(|slice| slice.concurrency *= part(have_ms));
    for mut slice in more.slices {
        slice.concurrency *= part(more_ms);
        match slices.get_mut(&slice.slice) {
            Some(have) => {
                have.flow.merge(&slice.flow);
                have.storage = slice.storage.or(have.storage);
                have.concurrency += slice.concurrency;
            }
            None => drop(slices.insert(slice.slice.clone(), slice)),
        }
    }
    have.slices = slices.into_values().collect();

    let mut keys: BTreeMap<_, _> = have
        .keys
        .drain(..)
        .map(|key| (key.key.clone(), key))
        .collect();
    for key in more.keys {
        match keys.get_mut(&key.key) {
            Some(have) => {
                have.calls += key.calls;
                have.refused += key.refused;
            }
            None => drop(keys.insert(key.key.clone(), key)),
        }
    }
    have.keys = keys.into_values().collect();
    have.keys
        .sort_by(|a, b| b.calls.total_cmp(&a.calls).then_with(|| a.key.cmp(&b.key)));
    have.keys.truncate(TOP_MAX);

    let mut items: BTreeMap<_, _> = have
        .items
        .drain(..)
        .map(|item| (item.name.clone(), item))
        .collect();
    for item in more.items {
        match items.get_mut(&item.name) {
            Some(have) => {
                have.votes += item.votes;
                have.lanes = item.lanes;
            }
            None => drop(items.insert(item.name.clone(), item)),
        }
    }
    have.items = items.into_values().collect();
    have.items.sort_by(|a, b| {
        b.votes
            .total_cmp(&a.votes)
            .then_with(|| a.name.cmp(&b.name))
    });
    have.items.truncate(TOP_MAX);
}
