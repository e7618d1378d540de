//! Measures and prints how long one pass takes. Checks nothing.
//!
//! ```sh
//! cargo test --release -p ballast-hotspot-detector --test speed -- --ignored --nocapture
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeMap;
use std::time::Instant;

use ballast_domain::Timestamp;
use ballast_domain::tenant::SliceId;
use ballast_hotspot_detector::detect::Detector;
use ballast_hotspot_detector::diagnose::{
    CureHistory, DiagnosisInputs, DiagnosisSettings, diagnose,
};
use ballast_hotspot_detector::load::{
    Flow, Interval, LoadHistory, LoadSample, ShardSample, SliceSample,
};
use ballast_hotspot_detector::resources::Resources;
use ballast_hotspot_detector::rules::defaults;

const SHARDS: usize = 1_000;
const TENANTS: usize = 1_000;

fn sample(step: i64) -> LoadSample {
    let capacity = Resources {
        votes: 10_000.0,
        storage: 1e12,
        ..Resources::default()
    };
    let shard = |number: usize| {
        let name = format!("shard-{number}").parse().unwrap();
        let mut shard = ShardSample::new(name, "eu".parse().unwrap(), capacity);
        // One shard in a hundred is hot.
        let votes = if number.is_multiple_of(100) {
            98_000.0
        } else {
            40_000.0
        };
        shard.flow.votes = votes;
        shard.storage = Some(4e11);
        shard.query_latency.add_many(12.0, 900);
        shard.query_latency.add_many(90.0, 100);
        let slices = (0..TENANTS).map(|tenant| SliceSample {
            slice: SliceId {
                tenant_id: format!("t{number}-{tenant}").parse().unwrap(),
                slice: 0,
            },
            flow: Flow {
                votes: votes / TENANTS as f64,
                ..Flow::default()
            },
            storage: Some(4e8),
            concurrency: 0.1,
        });
        shard.slices = slices.collect();
        shard
    };
    let start = Timestamp::from_unix_ms(1_800_000_000_000 + step * 10_000);
    LoadSample {
        interval: Interval { start, ms: 10_000 },
        shards: (0..SHARDS).map(shard).collect(),
    }
}

#[test]
#[ignore = "prints how long a pass takes; run it on its own, in release"]
#[expect(clippy::disallowed_methods, reason = "it measures the machine")]
fn one_pass_over_a_million_slices() {
    let rules = defaults().unwrap();
    let (mut history, mut detector) = (LoadHistory::new(rules.spans), Detector::default());
    let (memory, settings, limits) = (
        CureHistory::default(),
        DiagnosisSettings::default(),
        BTreeMap::new(),
    );
    for step in 0..66 {
        let sample = sample(step);
        let begun = Instant::now();
        history.add_sample(sample).unwrap();
        let taken = begun.elapsed();
        let begun = Instant::now();
        detector.pass(&rules, &history);
        let passed = begun.elapsed();
        let hotspots = detector.hotspots(&rules);
        let begun = Instant::now();
        let findings = diagnose(DiagnosisInputs {
            history: &history,
            hotspots: &hotspots,
            limits: &limits,
            memory: &memory,
            settings: &settings,
        });
        let diagnosed = begun.elapsed();
        if step % 13 == 0 {
            println!(
                "step {step}: take {taken:.1?}, detect {passed:.1?}, diagnose {diagnosed:.1?} ({} hotspots, {} findings)",
                hotspots.len(),
                findings.len()
            );
        }
    }
}
