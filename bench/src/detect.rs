//! One detection pass over a large fleet: takes a sample, evaluates every rule, and
//! diagnoses the hotspots.

use std::collections::BTreeMap;
use std::time::Duration;

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

use crate::stopwatch::Stopwatch;
use crate::table::Table;

const SHARDS: usize = 1_000;
const TENANTS: usize = 1_000;
/// Steps: more than a long window has.
const STEPS: i64 = 66;

/// Prints the table.
pub(crate) fn run() -> anyhow::Result<()> {
    let rules = defaults().map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let (mut book, mut detector) = (LoadHistory::new(rules.spans), Detector::default());
    let (memory, settings, limits) = (
        CureHistory::default(),
        DiagnosisSettings::default(),
        BTreeMap::new(),
    );
    let mut took: [Vec<Duration>; 3] = Default::default();
    let mut found = (0, 0);
    for step in 0..STEPS {
        let sample = sample(step)?;
        let watch = Stopwatch::start();
        book.add_sample(sample)?;
        took[0].push(watch.elapsed());
        let watch = Stopwatch::start();
        detector.pass(&rules, &book);
        took[1].push(watch.elapsed());
        let hotspots = detector.hotspots(&rules);
        let watch = Stopwatch::start();
        let findings = diagnose(DiagnosisInputs {
            history: &book,
            hotspots: &hotspots,
            limits: &limits,
            memory: &memory,
            settings: &settings,
        });
        took[2].push(watch.elapsed());
        found = (hotspots.len(), findings.len());
    }
    let mut table = Table::new(&["of a pass", "median", "longest"]);
    for (name, mut times) in [
        "a sample is taken in",
        "rules are judged",
        "hotspots diagnosed",
    ]
    .into_iter()
    .zip(took)
    {
        times.sort_unstable();
        let last = times.last().copied().unwrap_or_default();
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1_000.0);
        table.row([name.to_owned(), ms(times[times.len() / 2]), ms(last)]);
    }
    table.print(&format!(
        "{SHARDS} shards with {TENANTS} tenants each; {} hotspots, {} findings",
        found.0, found.1
    ));
    Ok(())
}

fn sample(step: i64) -> anyhow::Result<LoadSample> {
    let start = Timestamp::from_unix_ms(1_800_000_000_000 + step * 10_000);
    let shards = (0..SHARDS).map(shard).collect::<anyhow::Result<_>>()?;
    Ok(LoadSample {
        interval: Interval { start, ms: 10_000 },
        shards,
    })
}

/// One shard in a hundred is hot.
fn shard(number: usize) -> anyhow::Result<ShardSample> {
    let capacity = Resources {
        votes: 10_000.0,
        storage: 1e12,
        ..Resources::default()
    };
    let name = format!("shard-{number}").parse()?;
    let mut shard = ShardSample::new(name, "eu".parse()?, capacity);
    let is_hot = number.is_multiple_of(100);
    let votes = if is_hot { 98_000.0 } else { 40_000.0 };
    shard.flow.votes = votes;
    shard.storage = Some(4e11);
    shard.query_latency.add_many(12.0, 900);
    shard.query_latency.add_many(90.0, 100);
    for tenant in 0..TENANTS {
        shard.slices.push(SliceSample {
            slice: SliceId {
                tenant_id: format!("t{number}-{tenant}").parse()?,
                slice: 0,
            },
            flow: Flow {
                votes: votes / TENANTS as f64,
                ..Flow::default()
            },
            storage: Some(4e8),
            concurrency: 0.1,
        });
    }
    Ok(shard)
}
