//! The load of a generated fleet as a record, to test rules and plans.

use std::collections::BTreeMap;

use ballast_domain::Timestamp;
use ballast_domain::id::ShardId;
use ballast_domain::tenant::SliceId;

use super::Generator;
use crate::load::{Flow, Interval, LoadSample, ShardSample, SliceSample};
use crate::resources::Resources;

impl Generator {
    /// A number of samples of `step_ms` each, from a moment on. Tenants stay on their shards.
    pub fn recorded(
        &self,
        from: Timestamp,
        step_ms: u64,
        steps: u32,
    ) -> impl Iterator<Item = LoadSample> + '_ {
        let slices: Vec<_> = (0..self.shape().tenants)
            .filter_map(|n| Some((n, self.slice(n, from)?)))
            .map(|(n, slice)| (n, slice.id, slice.shard_id))
            .collect();
        (0..steps).map(move |step| {
            let passed = step_ms.saturating_mul(u64::from(step));
            let passed = i64::try_from(passed).unwrap_or(i64::MAX);
            let start = Timestamp::from_unix_ms(from.unix_ms().saturating_add(passed));
            self.sample(Interval { start, ms: step_ms }, &slices)
        })
    }

    fn sample(&self, interval: Interval, slices: &[(u64, SliceId, ShardId)]) -> LoadSample {
        let mut shards: BTreeMap<ShardId, ShardSample> = self
            .shards()
            .map(|shard| {
                let record = shard.record;
                let sample =
                    ShardSample::new(record.shard_id.clone(), record.region, shard.capacity);
                (record.shard_id, sample)
            })
            .collect();
        let seconds = interval.ms as f64 / 1_000.0;
        for (n, slice, on) in slices {
            let Some(shard) = shards.get_mut(on) else {
                continue;
            };
            let used = self.load(*n, interval.start);
            let slice = part(slice, &used, seconds);
            shard.flow.votes += slice.flow.votes;
            shard.flow.queries += slice.flow.queries;
            shard.flow.bytes += slice.flow.bytes;
            shard.storage = Some(shard.storage.unwrap_or(0.0) + used.storage);
            shard.concurrency = Some(shard.concurrency.unwrap_or(0.0) + used.concurrency);
            shard.slices.push(slice);
        }
        LoadSample {
            interval,
            shards: shards.into_values().collect(),
        }
    }
}

fn part(slice: &SliceId, used: &Resources, seconds: f64) -> SliceSample {
    SliceSample {
        slice: slice.clone(),
        flow: Flow {
            votes: used.votes * seconds,
            queries: used.queries * seconds,
            bytes: used.bytes * seconds,
            ..Flow::default()
        },
        storage: Some(used.storage),
        concurrency: used.concurrency,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::FleetShape;
    use crate::load::record::{header, lines, read};

    #[test]
    fn a_generated_record_reads_back_the_same() {
        let shape = FleetShape {
            tenants: 200,
            shards: 4,
            ..FleetShape::default()
        };
        let from = shape.start.plus_seconds(86_400);
        let generator = Generator::new(shape).unwrap();
        let samples: Vec<_> = generator.recorded(from, 60_000, 5).collect();
        let mut text = header("made up");
        samples.iter().for_each(|it| text.push_str(&lines(it)));
        let again = read(&text).unwrap();
        assert_eq!(again.len(), 5);
        let slices = |sample: &LoadSample| -> usize {
            sample.shards.iter().map(|shard| shard.slices.len()).sum()
        };
        assert!(
            again
                .iter()
                .all(|it| slices(it) == 200 && it.shards.len() == 4)
        );
    }
}
