//! A fleet from recorded load: shards as measured, slices on their last shards. Each shard is
//! planned for its busiest window, because a day's average hides an overloaded hour.

use std::collections::BTreeMap;

use ballast_domain::bounds::SLICES_PER_SHARD_DEFAULT;
use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;
use ballast_domain::residency::Residency;
use ballast_domain::shard::{self, Pressure, ShardState};
use ballast_domain::tenant::SliceId;

use crate::load::ring::Merge;
use crate::load::{Flow, LoadSample, ShardSample, Spans, Window};
use crate::plan::{Dial, FleetSnapshot, PlanShard, PlanSlice, TimeSpan};
use crate::resources::Resources;

/// A fleet reconstructed from a record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedFleet {
    /// The fleet, each shard with the load of its busiest window.
    pub fleet: FleetSnapshot,
    /// Each shard's busiest window.
    pub busiest: BTreeMap<ShardId, TimeSpan>,
}

#[derive(Default)]
struct UsageTotals {
    flow: Flow,
    concurrency_ms: f64,
}

impl UsageTotals {
    fn add(&mut self, flow: &Flow, concurrency: f64, ms: u64) {
        self.flow.merge(flow);
        self.concurrency_ms += concurrency * ms as f64;
    }

    fn over(&self, ms: u64, storage: f64) -> Resources {
        let ms = ms.max(1) as f64;
        let flow = self.flow.times(1_000.0 / ms);
        Resources {
            votes: flow.votes,
            queries: flow.queries,
            bytes: flow.bytes,
            storage,
            concurrency: self.concurrency_ms / ms,
        }
    }
}

/// The state at the end of a record: each slice's shard and storage.
#[derive(Default)]
struct RecordEnd {
    shards: BTreeMap<ShardId, ShardSample>,
    slices: BTreeMap<SliceId, (ShardId, f64)>,
    here: BTreeMap<ShardId, Vec<SliceId>>,
}

impl RecordEnd {
    fn from_samples(samples: &[LoadSample]) -> Self {
        let mut end = Self::default();
        for shard in samples.iter().flat_map(|sample| &sample.shards) {
            for slice in &shard.slices {
                let stored = slice.storage;
                let is_gone = stored == Some(0.0) && slice.flow.is_idle();
                let (on, bytes) = end
                    .slices
                    .entry(slice.slice.clone())
                    .or_insert_with(|| (shard.shard.clone(), 0.0));
                if !is_gone {
                    on.clone_from(&shard.shard);
                    *bytes = stored.unwrap_or(*bytes);
                }
            }
            let known = end.shards.get(&shard.shard).and_then(|last| last.storage);
            let mut last = shard.clone();
            last.storage = last.storage.or(known);
            end.shards.insert(shard.shard.clone(), last);
        }
        for (slice, (on, _)) in &end.slices {
            end.here.entry(on.clone()).or_default().push(slice.clone());
        }
        end
    }

    fn stored(&self, slice: &SliceId) -> f64 {
        self.slices.get(slice).map_or(0.0, |(_, bytes)| *bytes)
    }
}

/// The loads in one window.
#[derive(Default)]
struct WindowUsage {
    slices: BTreeMap<SliceId, UsageTotals>,
    /// Per shard: total load, load of slices, and measured milliseconds.
    shards: BTreeMap<ShardId, (UsageTotals, UsageTotals, u64)>,
}

impl WindowUsage {
    fn add(&mut self, sample: &LoadSample) {
        for shard in &sample.shards {
            let ms = shard.measured_ms.unwrap_or(sample.interval.ms);
            let (all, of_slices, measured) = self.shards.entry(shard.shard.clone()).or_default();
            *measured += ms;
            all.add(&shard.flow, shard.concurrency.unwrap_or(0.0), ms);
            for slice in &shard.slices {
                of_slices.add(&slice.flow, slice.concurrency, ms);
                // A slice's load counts wherever it was at that time.
                let used = self.slices.entry(slice.slice.clone()).or_default();
                used.add(&slice.flow, slice.concurrency, ms);
            }
        }
    }
}

/// A shard's load in a window, with the slices that it has at the end.
struct BusiestWindow {
    fill: f64,
    span: TimeSpan,
    overhead: Resources,
    slices: BTreeMap<SliceId, Resources>,
}

/// The fleet of a record; `None` if it is empty. A record has no residency, zones, pins and
/// dials: [`apply_registry`](super::apply_registry) adds them from the registry.
#[must_use]
pub fn fleet_from_samples(samples: &[LoadSample], spans: &Spans) -> Option<RecordedFleet> {
    let at = samples.last()?.interval.end();
    let end = RecordEnd::from_samples(samples);
    let mut peaks: BTreeMap<ShardId, BusiestWindow> = BTreeMap::new();
    for window in windows(samples, spans.length_ms(Window::Long)) {
        let mut seen = WindowUsage::default();
        window.iter().for_each(|sample| seen.add(sample));
        let (Some(first), Some(last)) = (window.first(), window.last()) else {
            continue;
        };
        let span = TimeSpan {
            from: first.interval.start,
            until: last.interval.end(),
        };
        for (name, shard) in &end.shards {
            let peak = peak(name, shard, &end, &seen, span);
            let is_more = |have: &BusiestWindow| peak.fill > have.fill;
            if peaks.get(name).is_none_or(is_more) {
                peaks.insert(name.clone(), peak);
            }
        }
    }
    let slices = place_slices(&end, &peaks);
    let shards = end.shards.iter().map(|(name, last)| {
        let overhead = peaks.get(name).map(|peak| peak.overhead);
        shard_from_sample(last, at, overhead.unwrap_or_default())
    });
    let fleet = FleetSnapshot {
        revision: 0,
        at,
        shards: shards.collect(),
        slices,
    };
    let busiest = peaks.into_iter().map(|(name, peak)| (name, peak.span));
    Some(RecordedFleet {
        fleet,
        busiest: busiest.collect(),
    })
}

/// The samples in windows of this length. The last window ends with the record; a remainder at
/// the beginning is part of the first.
fn windows(samples: &[LoadSample], long_ms: u64) -> Vec<&[LoadSample]> {
    let long = i64::try_from(long_ms.max(1)).unwrap_or(i64::MAX);
    let Some(end) = samples.last().map(|last| last.interval.end().unix_ms()) else {
        return Vec::new();
    };
    let start = samples
        .first()
        .map_or(end, |it| it.interval.start.unix_ms());
    let whole = ((end - start) / long).max(1);
    let number =
        |sample: &LoadSample| ((end - sample.interval.end().unix_ms()) / long).min(whole - 1);
    samples.chunk_by(|a, b| number(a) == number(b)).collect()
}

fn peak(
    name: &ShardId,
    shard: &ShardSample,
    end: &RecordEnd,
    seen: &WindowUsage,
    span: TimeSpan,
) -> BusiestWindow {
    let measured = seen.shards.get(name);
    // A shard that did not exist yet counts as measured for the whole window.
    let length = span.until.unix_ms().saturating_sub(span.from.unix_ms());
    let ms = match measured {
        Some((_, _, ms)) => *ms,
        None => u64::try_from(length).unwrap_or(0),
    };
    let mut sum = Resources::default();
    let mut stored = 0.0;
    let mut slices = BTreeMap::new();
    for slice in end.here.get(name).into_iter().flatten() {
        let bytes = end.stored(slice);
        let used = seen.slices.get(slice);
        let used = used.map_or(UsageTotals::default().over(ms, bytes), |used| {
            used.over(ms, bytes)
        });
        stored += bytes;
        sum += used;
        slices.insert(slice.clone(), used);
    }
    let mut overhead = match measured {
        Some((all, of_slices, ms)) => all.over(*ms, 0.0) - of_slices.over(*ms, 0.0),
        None => Resources::default(),
    };
    overhead.storage = shard.storage.unwrap_or(stored) - stored;
    for dimension in crate::resources::Dimension::ALL {
        overhead[dimension] = overhead[dimension].max(0.0);
    }
    BusiestWindow {
        fill: (sum + overhead).fill(&shard.capacity).1,
        span,
        overhead,
        slices,
    }
}

fn place_slices(end: &RecordEnd, peaks: &BTreeMap<ShardId, BusiestWindow>) -> Vec<PlanSlice> {
    let slices = end.slices.iter().filter_map(|(id, (shard_id, _))| {
        let shard = end.shards.get(shard_id)?;
        let demand = peaks.get(shard_id)?.slices.get(id).copied()?;
        Some(PlanSlice {
            id: id.clone(),
            bytes: demand.storage as u64,
            demand,
            home_region: shard.region.clone(),
            residency: Residency::default(),
            zones: Vec::new(),
            pin: None,
            dial: Dial::Active,
            in_scope: true,
            placed_at: Timestamp::from_unix_ms(0),
            passed_over: Vec::new(),
            moving_to: None,
            closed: false,
            shard_id: shard_id.clone(),
        })
    });
    slices.collect()
}

fn shard_from_sample(last: &ShardSample, at: Timestamp, overhead: Resources) -> PlanShard {
    let record = shard::Shard {
        shard_id: last.shard.clone(),
        url: String::new(),
        region: last.region.clone(),
        zones: Vec::new(),
        weight: 1.0,
        state: match last.takes_slices {
            true => ShardState::Active,
            false => ShardState::Draining,
        },
        max_slices: SLICES_PER_SHARD_DEFAULT,
        pressure: Pressure::Calm,
        created_at: at,
    };
    let mut shard = PlanShard::new(record, last.capacity);
    shard.overhead = overhead;
    shard
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Interval, SliceSample};
    use crate::plan::{PlanTerms, plan};

    fn sample(step: i64, hot: f64, moved: bool) -> LoadSample {
        let shard = |name: &str, slices: Vec<(&str, f64, f64)>| {
            let capacity = Resources {
                votes: 100.0,
                storage: 1e6,
                ..Resources::default()
            };
            let mut shard =
                ShardSample::new(name.parse().unwrap(), "eu".parse().unwrap(), capacity);
            shard.storage = Some(0.0);
            for (tenant, votes, storage) in slices {
                let flow = Flow {
                    votes,
                    ..Flow::default()
                };
                shard.flow.merge(&flow);
                shard.slices.push(SliceSample {
                    slice: SliceId {
                        tenant_id: tenant.parse().unwrap(),
                        slice: 0,
                    },
                    flow,
                    storage: Some(storage),
                    concurrency: 0.0,
                });
            }
            shard
        };
        let start = Timestamp::from_unix_ms(1_800_000_000_000 + step * 10_000);
        let wanderer = if moved { 0.0 } else { 100.0 };
        LoadSample {
            interval: Interval { start, ms: 10_000 },
            shards: vec![
                shard("a", vec![("hot", hot, 500.0), ("wanders", 0.0, wanderer)]),
                shard(
                    "b",
                    vec![("cool", 10.0, 10.0), ("wanders", 0.0, 100.0 - wanderer)],
                ),
            ],
        }
    }

    #[test]
    fn load_is_averaged_over_a_window_and_slices_are_where_they_were_last() {
        let samples = [sample(0, 1_200.0, false), sample(1, 600.0, true)];
        let fleet = fleet_from_samples(&samples, &Spans::default())
            .unwrap()
            .fleet;
        let of = |name: &str| {
            let mut slices = fleet.slices.iter();
            slices.find(|it| it.id.tenant_id.as_str() == name).unwrap()
        };
        assert!((of("hot").demand.votes - 90.0).abs() < 1e-9);
        assert_eq!(of("wanders").shard_id.as_str(), "b");
        assert_eq!(fleet.shards.len(), 2);
        let made = plan(&fleet, &PlanTerms::default());
        assert!(made.totals.over_before == 1, "{made}");
        assert!(super::fleet_from_samples(&[], &Spans::default()).is_none());
    }

    /// Half of the record it is too much, on average it is not.
    #[test]
    fn a_peak_is_not_averaged_away() {
        let hot = |step| if step < 60 { 1_050.0 } else { 300.0 };
        let samples: Vec<_> = (0..120)
            .map(|step| sample(step, hot(step), false))
            .collect();
        let recorded = fleet_from_samples(&samples, &Spans::default()).unwrap();
        let made = plan(&recorded.fleet, &PlanTerms::default());
        assert_eq!(made.totals.over_before, 1, "{made}");
        let when = recorded.busiest["a"];
        assert_eq!(when.from, samples[0].interval.start);
        assert_eq!(when.until, samples[59].interval.end());
    }

    /// Its load is the new shard's, and no longer the old one's in any way.
    #[test]
    fn a_moved_slice_is_counted_once() {
        let wanders = |step: i64| {
            let mut sample = sample(step, 0.0, step >= 100);
            let at = usize::from(step >= 100);
            let shard = &mut sample.shards[at];
            shard.flow.votes += 700.0;
            shard.slices[1].flow.votes += 700.0;
            sample
        };
        let samples: Vec<_> = (0..150).map(wanders).collect();
        let fleet = fleet_from_samples(&samples, &Spans::default())
            .unwrap()
            .fleet;
        let shard = |name: &str| {
            let mut shards = fleet.shards.iter();
            shards.find(|it| it.id().as_str() == name).unwrap()
        };
        assert!(shard("a").overhead.votes.abs() < 1e-9, "{:?}", shard("a"));
        assert!(shard("b").overhead.votes.abs() < 1e-9, "{:?}", shard("b"));
        let slice = fleet
            .slices
            .iter()
            .find(|it| it.id.tenant_id.as_str() == "wanders");
        assert!((slice.unwrap().demand.votes - 70.0).abs() < 1e-6);
    }
}
