//! Forecast of how full shards will be, from recorded load.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::{RegionId, Result, ShardId, Timestamp};
use ballast_hotspot_detector::forecast::{self, Outlook, Series, outlook, shards_needed};
use ballast_hotspot_detector::load::LoadSample;
use ballast_hotspot_detector::load::record::downsample;
use ballast_hotspot_detector::resources::{Dimension, Resources};
use serde::Serialize;

use super::{load_monitor, read_failed, read_interrupted};
use crate::plane::ControlPlane;

/// Number of past days to use.
const BACK_DAYS: i64 = 60;
/// Confidence level of the interval.
const SURENESS: f64 = 0.9;

/// Forecast of how full shards will be.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForecastBody {
    /// Number of days ahead.
    pub days: u32,
    /// Each shard in each dimension in which it has a limit: `shardID`,
    /// `dimension`, `share` now, `fullIn` days (earliest, expected, latest), and
    /// the `peaks` of each day.
    #[schema(value_type = Vec<Object>)]
    pub outlooks: Vec<Outlook>,
    /// How many shards each region needs on the last of these days, in the
    /// dimension in which it needs most.
    pub needed: Vec<RegionNeeds>,
    /// Shards and dimensions without a forecast, and why.
    pub unknown: Vec<MissingForecast>,
    /// Set if too little load was recorded for any forecast; says how much is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_little: Option<String>,
}

/// Number of shards that a region needs.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegionNeeds {
    /// The region.
    #[serde(rename = "regionID")]
    pub region_id: RegionId,
    /// The dimension that needs the most shards.
    pub dimension: String,
    /// Shards that it has.
    pub have: usize,
    /// Shards that it is expected to need.
    pub expected: usize,
    /// Shards that it needs at most.
    pub at_most: usize,
}

/// A shard and dimension without a forecast.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Unknown)]
pub struct MissingForecast {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The dimension.
    pub dimension: String,
    /// Why there is no forecast.
    pub because: String,
}

/// Forecasts this many days ahead.
pub async fn show(plane: &ControlPlane, days: u32) -> Result<ForecastBody> {
    let load = load_monitor(plane)?;
    let to = plane.now();
    let from = to.plus_seconds(-BACK_DAYS * 86_400);
    let settings = plane.settings();
    let (limit, goal) = (settings.hotspots.limit, settings.hotspots.goal);
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut steps = LoadSteps::default();
        files.read(from, to, |sample| steps.add_sample(sample))?;
        Ok(steps.finish(days, limit, goal))
    });
    read.await
        .map_err(|_| read_interrupted())?
        .map_err(read_failed)
}

/// The load of every shard in steps of ten minutes.
#[derive(Default)]
struct LoadSteps {
    step: Vec<LoadSample>,
    shards: BTreeMap<ShardId, (Resources, Vec<(Timestamp, Resources)>)>,
    regions: BTreeMap<ShardId, RegionId>,
    /// How long load was recorded.
    recorded_ms: u64,
}

const STEP_MS: u64 = 600_000;

impl LoadSteps {
    fn add_sample(&mut self, sample: LoadSample) {
        let step = |it: &LoadSample| it.interval.start.unix_ms().div_euclid(STEP_MS as i64);
        if self
            .step
            .last()
            .is_some_and(|last| step(last) != step(&sample))
        {
            self.flush_step();
        }
        self.recorded_ms = self.recorded_ms.saturating_add(sample.interval.ms);
        self.step.push(sample);
    }

    fn flush_step(&mut self) {
        for sample in downsample(std::mem::take(&mut self.step), STEP_MS) {
            for shard in &sample.shards {
                let ms = shard.measured_ms.unwrap_or(sample.interval.ms).max(1);
                let flow = shard.flow.times(1_000.0 / ms as f64);
                let used = Resources {
                    votes: flow.votes,
                    queries: flow.queries,
                    bytes: flow.bytes,
                    storage: shard.storage.unwrap_or(f64::NAN),
                    concurrency: shard.concurrency.unwrap_or(f64::NAN),
                };
                let (capacity, points) = self.shards.entry(shard.shard.clone()).or_default();
                *capacity = shard.capacity;
                self.regions
                    .insert(shard.shard.clone(), shard.region.clone());
                points.push((sample.interval.start, used));
            }
        }
    }

    /// Why there is too little load for any forecast, if so.
    fn describe_shortage(&self) -> Option<String> {
        let most = self.shards.values().map(|(_, points)| points.len()).max();
        let most = most.unwrap_or(0);
        if most >= forecast::MEASUREMENTS_MIN {
            return None;
        }
        let needed = forecast::MEASUREMENTS_MIN as u64 * STEP_MS / 60_000;
        Some(format!(
            "Too little load was recorded for a forecast: it needs {needed} minutes, and there are {}.",
            self.recorded_ms / 60_000
        ))
    }

    fn finish(mut self, days: u32, limit: f64, goal: f64) -> ForecastBody {
        self.flush_step();
        let mut body = ForecastBody {
            days,
            outlooks: Vec::new(),
            needed: Vec::new(),
            unknown: Vec::new(),
            too_little: self.describe_shortage(),
        };
        for (shard, (capacity, points)) in &self.shards {
            for dimension in Dimension::ALL.into_iter().filter(|it| capacity[*it] > 0.0) {
                let most = (capacity[dimension], limit);
                let series = to_series(points, dimension);
                match outlook(shard, dimension, most, &series, days, SURENESS) {
                    Ok(outlook) => body.outlooks.push(outlook),
                    Err(why) => body.unknown.push(missing_forecast(shard, dimension, &why)),
                }
            }
        }
        body.needed = region_needs(&body.outlooks, &self.regions, days, goal);
        body
    }
}

/// What each region needs, in the dimension in which it needs most.
fn region_needs(
    outlooks: &[Outlook],
    regions: &BTreeMap<ShardId, RegionId>,
    days: u32,
    goal: f64,
) -> Vec<RegionNeeds> {
    let mut by_region: BTreeMap<(&RegionId, Dimension), Vec<Outlook>> = BTreeMap::new();
    for outlook in outlooks {
        if let Some(region) = regions.get(&outlook.shard_id) {
            let of = by_region.entry((region, outlook.dimension)).or_default();
            of.push(outlook.clone());
        }
    }
    let mut most: BTreeMap<&RegionId, RegionNeeds> = BTreeMap::new();
    for ((region, dimension), outlooks) in by_region {
        let Some(needed) = shards_needed(&outlooks, days as usize, goal) else {
            continue;
        };
        let needs = RegionNeeds {
            region_id: region.clone(),
            dimension: dimension.name().to_owned(),
            have: needed.have,
            expected: needed.expected,
            at_most: needed.at_most,
        };
        let is_more = |have: &RegionNeeds| needs.at_most > have.at_most;
        if most.get(region).is_none_or(is_more) {
            most.insert(region, needs);
        }
    }
    most.into_values().collect()
}

/// A series with equal steps; steps without measurements are NaN.
fn to_series(points: &[(Timestamp, Resources)], dimension: Dimension) -> Series {
    let first = points.first().map_or(0, |(at, _)| at.unix_ms());
    let mut values: Vec<f64> = Vec::new();
    for (at, used) in points {
        let place = usize::try_from((at.unix_ms() - first) / STEP_MS as i64).unwrap_or(0);
        values.resize(place.max(values.len()), f64::NAN);
        values.push(used[dimension]);
    }
    Series {
        from: Timestamp::from_unix_ms(first),
        step_seconds: STEP_MS as i64 / 1_000,
        values,
    }
}

fn missing_forecast(
    shard: &ShardId,
    dimension: Dimension,
    why: &forecast::NoForecast,
) -> MissingForecast {
    MissingForecast {
        shard_id: shard.clone(),
        dimension: dimension.name().to_owned(),
        because: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use ballast_hotspot_detector::load::{Interval, ShardSample};

    use super::*;

    /// Fifteen minutes span three steps of ten, and are fifteen minutes.
    #[test]
    fn the_recorded_minutes_are_those_that_were_recorded() {
        let mut steps = LoadSteps::default();
        for minute in 0..15_i64 {
            let start = Timestamp::from_unix_ms(1_800_000_000_000 + (9 + minute) * 60_000);
            let name = "shard-0".parse().unwrap();
            let shard = ShardSample::new(name, "eu".parse().unwrap(), Resources::default());
            let interval = Interval { start, ms: 60_000 };
            let shards = vec![shard];
            steps.add_sample(LoadSample { interval, shards });
        }
        let why = steps.finish(30, 0.8, 0.7).too_little.unwrap();
        assert!(why.contains("there are 15."), "{why}");
    }

    /// Four shards that fill up by one percent a day.
    #[test]
    fn a_forecast_includes_the_shards_that_a_region_needs() {
        let mut steps = LoadSteps::default();
        let capacity = Resources {
            storage: 100.0,
            ..Resources::default()
        };
        for step in 0..20 * 24 * 6 {
            let start = Timestamp::from_unix_ms(1_800_000_000_000 + step * STEP_MS as i64);
            let shards = (0..4).map(|number| {
                let name = format!("shard-{number}").parse().unwrap();
                let mut shard = ShardSample::new(name, "eu".parse().unwrap(), capacity);
                shard.storage = Some(45.0 + step as f64 / 144.0);
                shard
            });
            let shards = shards.collect();
            let interval = Interval { start, ms: STEP_MS };
            steps.add_sample(LoadSample { interval, shards });
        }
        let body = steps.finish(30, 0.8, 0.7);
        assert_eq!(body.needed.len(), 1, "{body:?}");
        let needs = &body.needed[0];
        // Each reaches 95 of 100, and shards are filled up to 70.
        assert_eq!((needs.have, needs.expected), (4, 6), "{needs:?}");
        assert!(
            needs.at_most >= 6 && needs.dimension == "storage",
            "{needs:?}"
        );
    }
}
