//! Chosen sets of slices: sufficient, within the room of the targets, and not more expensive
//! than a single sufficient slice.

use proptest::prelude::*;

use super::*;
use crate::load::{Flow, Interval, LoadHistory, LoadSample, ShardSample, SliceSample};
use ballast_domain::Timestamp;

const CAPACITY: Resources = Resources {
    votes: 1_000.0,
    queries: 0.0,
    bytes: 0.0,
    storage: 1e12,
    concurrency: 0.0,
};

/// A history of shards, each with its slices: votes per second and bytes stored.
fn history(shards: &[Vec<(f64, f64)>]) -> LoadHistory {
    let mut history = LoadHistory::default();
    for step in 0..12 {
        let shard = |(number, slices): (usize, &Vec<(f64, f64)>)| {
            let name = format!("shard-{number}").parse().unwrap();
            let mut shard = ShardSample::new(name, "eu".parse().unwrap(), CAPACITY);
            shard.flow.votes = slices.iter().map(|(votes, _)| votes * 10.0).sum();
            shard.storage = Some(slices.iter().map(|(_, bytes)| bytes).sum());
            let slices = slices
                .iter()
                .enumerate()
                .map(|(at, (votes, bytes))| SliceSample {
                    slice: SliceId {
                        tenant_id: format!("t-{number}-{at}").parse().unwrap(),
                        slice: 0,
                    },
                    flow: Flow {
                        votes: votes * 10.0,
                        ..Flow::default()
                    },
                    storage: Some(*bytes),
                    concurrency: 0.0,
                });
            shard.slices = slices.collect();
            shard
        };
        let start = Timestamp::from_unix_ms(1_800_000_000_000 + step * 10_000);
        let shards = shards.iter().enumerate().map(shard).collect();
        history
            .add_sample(LoadSample {
                interval: Interval { start, ms: 10_000 },
                shards,
            })
            .unwrap();
    }
    history
}

fn slices(most: f64) -> impl Strategy<Value = Vec<(f64, f64)>> {
    proptest::collection::vec((0.0..most, 1e6..1e11), 1..30)
}

proptest! {
    #[test]
    fn the_chosen_set_is_sufficient_and_fits(
        hot in slices(200.0),
        others in proptest::collection::vec(slices(60.0), 1..5),
    ) {
        let mut shards = vec![hot];
        shards.extend(others);
        let history = history(&shards);
        let fleet = MeasuredFleet::new(&history);
        let name: ShardId = "shard-0".parse().unwrap();
        let facts = &fleet.shards[&name];
        let load = facts.short.used;
        let settings = DiagnosisSettings::default();
        let candidates = fleet.slices(facts, Dimension::Votes);
        let chosen = best(&fleet, (&name, facts), &load, &candidates, &settings);
        let Some(chosen) = chosen else { return Ok(()) };
        prop_assert!(chosen.placed.len() <= settings.moves_max);
        let used = |slice: &SliceId| candidates.iter().find(|(have, _)| have == slice).unwrap().1;
        let gone = chosen.placed.iter().fold(Resources::default(), |sum, placed| sum + used(&placed.slice));
        prop_assert!(fits(&(load - gone), &CAPACITY, settings.aim), "it is enough");
        for (target, facts) in &fleet.shards {
            let here = chosen.placed.iter().filter(|placed| placed.to == **target);
            let more = here.fold(Resources::default(), |sum, placed| sum + used(&placed.slice));
            if more != Resources::default() {
                prop_assert!(**target != name);
                prop_assert!(fits(&(facts.load + more), &CAPACITY, settings.level), "it fits");
            }
        }
        // No single slice that would do is cheaper.
        for one in &candidates {
            let would_do = fits(&(load - one.1), &CAPACITY, settings.aim)
                && place(&fleet, (&name, facts), &[one], settings.level).is_some();
            let largest = candidates.iter().filter(|other| other.1.votes > one.1.votes).count() < 6;
            if would_do && largest {
                let price = chosen.used.storage + MOVE_BYTES * chosen.placed.len() as f64;
                prop_assert!(price <= one.1.storage + MOVE_BYTES + 1.0);
            }
        }
    }
}
