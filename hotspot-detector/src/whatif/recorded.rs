//! A fleet out of recorded load: its shards as they were measured, its slices
//! with what they used on average, each where it was last.

use std::collections::BTreeMap;

use ballast_domain::bounds::SLICES_PER_SHARD_DEFAULT;
use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;
use ballast_domain::residency::Residency;
use ballast_domain::shard::{self, Pressure, ShardState};
use ballast_domain::tenant::SliceId;

use crate::load::ring::Merge;
use crate::load::{Flow, Sample, ShardSample};
use crate::plan::{Dial, Fleet, Shard, Slice};
use crate::resources::Resources;

#[derive(Default)]
struct Used {
    flow: Flow,
    concurrency_ms: f64,
    storage: Option<f64>,
}

impl Used {
    fn add(&mut self, flow: &Flow, concurrency: f64, storage: Option<f64>, ms: u64) {
        self.flow.merge(flow);
        self.concurrency_ms += concurrency * ms as f64;
        self.storage = storage.or(self.storage);
    }

    fn over(&self, ms: u64) -> Resources {
        let ms = ms.max(1) as f64;
        let flow = self.flow.times(1_000.0 / ms);
        Resources {
            votes: flow.votes,
            queries: flow.queries,
            bytes: flow.bytes,
            storage: self.storage.unwrap_or(0.0),
            concurrency: self.concurrency_ms / ms,
        }
    }
}

struct Seen {
    last: ShardSample,
    used: Used,
    ms: u64,
}

/// The fleet of a record; nothing if nothing was measured. A record knows
/// nothing of residency, zones, pins and dials: [`register`](super::register)
/// adds what the registry knows of them.
#[must_use]
pub fn fleet(samples: impl IntoIterator<Item = Sample>) -> Option<Fleet> {
    let mut shards: BTreeMap<ShardId, Seen> = BTreeMap::new();
    let mut slices: BTreeMap<SliceId, (ShardId, Used)> = BTreeMap::new();
    let mut at = None;
    for sample in samples {
        at = Some(sample.interval.end());
        for shard in sample.shards {
            let ms = shard.measured_ms.unwrap_or(sample.interval.ms);
            for slice in &shard.slices {
                let is_gone = slice.storage == Some(0.0) && slice.flow.is_idle();
                let (on, used) = slices
                    .entry(slice.slice.clone())
                    .or_insert_with(|| (shard.shard.clone(), Used::default()));
                if !is_gone {
                    on.clone_from(&shard.shard);
                    used.add(&slice.flow, slice.concurrency, slice.storage, ms);
                }
            }
            let seen = shards.entry(shard.shard.clone()).or_insert_with(|| Seen {
                last: shard.clone(),
                used: Used::default(),
                ms: 0,
            });
            let concurrency = shard.concurrency.unwrap_or(0.0);
            seen.used.add(&shard.flow, concurrency, shard.storage, ms);
            seen.ms += ms;
            seen.last = shard;
        }
    }
    let at = at?;
    let slices = placed(slices, &shards);
    let shards = shards.values().map(|seen| planned(seen, at, &slices));
    Some(Fleet {
        revision: 0,
        at,
        shards: shards.collect(),
        slices,
    })
}

fn placed(
    slices: BTreeMap<SliceId, (ShardId, Used)>,
    shards: &BTreeMap<ShardId, Seen>,
) -> Vec<Slice> {
    let slices = slices.into_iter().filter_map(|(id, (shard_id, used))| {
        let seen = shards.get(&shard_id)?;
        let demand = used.over(seen.ms);
        Some(Slice {
            id,
            bytes: demand.storage as u64,
            demand,
            home_region: seen.last.region.clone(),
            residency: Residency::default(),
            zones: Vec::new(),
            pin: None,
            dial: Dial::Active,
            placed_at: Timestamp::from_unix_ms(0),
            passed_over: Vec::new(),
            moving_to: None,
            closed: false,
            shard_id,
        })
    });
    slices.collect()
}

fn planned(seen: &Seen, at: Timestamp, slices: &[Slice]) -> Shard {
    let last = &seen.last;
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
    let mut rest = seen.used.over(seen.ms);
    for slice in slices.iter().filter(|slice| slice.shard_id == last.shard) {
        rest -= slice.demand;
    }
    let mut shard = Shard::new(record, last.capacity);
    shard.overhead = Resources {
        votes: rest.votes.max(0.0),
        queries: rest.queries.max(0.0),
        bytes: rest.bytes.max(0.0),
        storage: rest.storage.max(0.0),
        concurrency: rest.concurrency.max(0.0),
    };
    shard
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Interval, SliceSample};
    use crate::plan::{Terms, plan};

    fn sample(step: i64, hot: f64, moved: bool) -> Sample {
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
        Sample {
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
    fn load_is_averaged_and_slices_are_where_they_were_last() {
        let samples = [sample(0, 1_200.0, false), sample(1, 600.0, true)];
        let fleet = fleet(samples).unwrap();
        let of = |name: &str| {
            let mut slices = fleet.slices.iter();
            slices.find(|it| it.id.tenant_id.as_str() == name).unwrap()
        };
        assert!((of("hot").demand.votes - 90.0).abs() < 1e-9);
        assert_eq!(of("wanders").shard_id.as_str(), "b");
        assert_eq!(fleet.shards.len(), 2);
        let made = plan(&fleet, &Terms::default());
        assert!(made.totals.over_before == 1, "{made}");
        assert!(super::fleet([]).is_none());
    }
}
