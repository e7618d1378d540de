//! Passes over a small fleet: gaps, removed subjects, changed rules.

use serde_json::json;

use super::*;
use crate::load::{Flow, Interval, LoadSample, ShardSample, SliceSample};
use crate::resources::Resources;
use crate::rules::read;

const STEPS: u64 = 6;

struct PassRun {
    rules: Ruleset,
    history: LoadHistory,
    detector: Detector,
    step: i64,
}

impl PassRun {
    fn new() -> Self {
        let rules = read(&json!({"rule": [
            {"name": "busy", "when": "shard.votes > 50", "for": "1m", "clear_for": "30s", "cooldown": "5m"},
            {"name": "greedy", "subject": "tenant", "when": "tenant.share > 0.3", "for": "1m"},
        ]}));
        let rules = rules.unwrap();
        Self {
            history: LoadHistory::new(rules.spans),
            rules,
            detector: Detector::default(),
            step: 0,
        }
    }

    /// A step with each shard's votes per second, half of them from one tenant; `None` for a
    /// shard that is not measured.
    fn step(&mut self, votes: &[Option<f64>]) -> Vec<(String, String, HotspotTransition)> {
        let start = Timestamp::from_unix_ms(1_800_000_000_000 + self.step * 10_000);
        self.step += 1;
        let shards = votes.iter().enumerate().filter_map(|(number, votes)| {
            let votes = (*votes)? * 10.0;
            let capacity = Resources {
                votes: 100.0,
                ..Resources::default()
            };
            let name = format!("shard-{number}").parse().unwrap();
            let mut shard = ShardSample::new(name, "eu".parse().unwrap(), capacity);
            shard.flow.votes = votes;
            shard.slices.push(SliceSample {
                slice: SliceId {
                    tenant_id: format!("t-{number}").parse().unwrap(),
                    slice: 0,
                },
                flow: Flow {
                    votes: votes / 2.0,
                    ..Flow::default()
                },
                storage: Some(0.0),
                concurrency: 0.0,
            });
            Some(shard)
        });
        let sample = LoadSample {
            interval: Interval { start, ms: 10_000 },
            shards: shards.collect(),
        };
        self.history.add_sample(sample).unwrap();
        let events = self.detector.pass(&self.rules, &self.history);
        let short = |event: HotspotEvent| {
            (
                event.rule.to_string(),
                event.subject.to_string(),
                event.change,
            )
        };
        events.into_iter().map(short).collect()
    }

    fn steps(
        &mut self,
        many: u64,
        votes: &[Option<f64>],
    ) -> Vec<(String, String, HotspotTransition)> {
        (0..many).flat_map(|_| self.step(votes)).collect()
    }

    fn hot(&self) -> Vec<String> {
        let hotspots = self.detector.hotspots(&self.rules).into_iter();
        hotspots
            .map(|hotspot| format!("{} {}", hotspot.rule, hotspot.subject))
            .collect()
    }
}

#[test]
fn shards_and_their_tenants_are_found_and_others_are_not() {
    let mut play = PassRun::new();
    play.steps(3 * STEPS, &[Some(90.0), Some(40.0)]);
    assert_eq!(play.hot(), ["busy shard-0", "greedy t-0/0 on shard-0"]);
    let spot = &play.detector.hotspots(&play.rules)[0];
    assert_eq!(spot.evidence[0].shown, "90/s");
    assert_eq!(spot.evidence[0].window_ms, 60_000);
    assert_eq!(spot.fired.unix_ms() - spot.since.unix_ms(), 60_000);
}

#[test]
fn a_shard_that_falls_silent_stays_as_it_was() {
    let mut play = PassRun::new();
    play.steps(3 * STEPS, &[Some(90.0), Some(40.0)]);
    let before = play.hot();
    let events = play.steps(30 * STEPS, &[None, Some(40.0)]);
    assert_eq!(events, []);
    assert_eq!(play.hot(), before);
    // One that was not yet a hotspot does not become one in the dark.
    let mut play = PassRun::new();
    play.steps(STEPS, &[Some(90.0), Some(40.0)]);
    let events = play.steps(30 * STEPS, &[None, Some(40.0)]);
    assert_eq!(events, []);
    assert_eq!(play.hot(), [""; 0]);
}

#[test]
fn it_clears_cools_down_and_comes_back() {
    let mut play = PassRun::new();
    play.steps(3 * STEPS, &[Some(90.0)]);
    let events = play.steps(3 * STEPS, &[Some(10.0)]);
    assert!(events.contains(&("busy".into(), "shard-0".into(), HotspotTransition::Cleared)));
    let events = play.steps(2 * STEPS, &[Some(90.0)]);
    assert!(
        !events.iter().any(|(rule, _, _)| rule == "busy"),
        "it cools down"
    );
    assert!(
        events
            .iter()
            .any(|(rule, _, change)| rule == "greedy" && *change == HotspotTransition::Fired)
    );
    let events = play.steps(6 * STEPS, &[Some(90.0)]);
    assert!(events.contains(&("busy".into(), "shard-0".into(), HotspotTransition::Fired)));
}

#[test]
fn entries_of_removed_subjects_are_dropped() {
    let mut play = PassRun::new();
    play.steps(3 * STEPS, &[Some(90.0), Some(90.0)]);
    assert_eq!(play.hot().len(), 4);
    // A rule is taken out.
    play.rules.rules.retain(|rule| &*rule.name != "greedy");
    let events = play.step(&[Some(90.0), Some(90.0)]);
    assert_eq!(
        events
            .iter()
            .filter(|(_, _, change)| *change == HotspotTransition::Gone)
            .count(),
        2
    );
    assert_eq!(play.hot(), ["busy shard-0", "busy shard-1"]);
    // A shard is removed.
    play.history.remove(&"shard-1".parse().unwrap());
    let events = play.step(&[Some(90.0)]);
    assert_eq!(
        events,
        [("busy".into(), "shard-1".into(), HotspotTransition::Gone)]
    );
    assert_eq!(play.hot(), ["busy shard-0"]);
}
