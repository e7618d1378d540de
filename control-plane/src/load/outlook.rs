//! How full shards will be: from what was recorded, by the hour.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::{RegionId, Result, ShardId, Timestamp};
use ballast_hotspot_detector::forecast::{self, Outlook, Series, outlook, shards_needed};
use ballast_hotspot_detector::load::Sample;
use ballast_hotspot_detector::load::record::downsample;
use ballast_hotspot_detector::resources::{Dimension, Resources};
use serde::Serialize;

use super::{cut_short, load, unreadable};
use crate::plane::ControlPlane;

/// How far it is looked back.
const BACK_DAYS: i64 = 60;
/// How sure the interval is.
const SURENESS: f64 = 0.9;

/// How full shards will be.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForecastBody {
    /// So many days ahead.
    pub days: u32,
    /// Each shard in each dimension in which it has a limit: `shardID`,
    /// `dimension`, `share` now, `fullIn` days (earliest, expected, latest), and
    /// the `peaks` of each day.
    #[schema(value_type = Vec<Object>)]
    pub outlooks: Vec<Outlook>,
    /// How many shards each region needs on the last of these days, in the
    /// dimension in which it needs most.
    pub needed: Vec<RegionNeeds>,
    /// Why there is none for the others.
    pub unknown: Vec<Unknown>,
    /// That there is too little to say anything yet, and how much it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_little: Option<String>,
}

/// How many shards a region needs.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegionNeeds {
    /// Which.
    #[serde(rename = "regionID")]
    pub region_id: RegionId,
    /// For what.
    pub dimension: String,
    /// Shards that it has.
    pub have: usize,
    /// Shards that it needs, as expected.
    pub expected: usize,
    /// Shards that it needs at the most.
    pub at_most: usize,
}

/// A shard of which nothing can be said.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unknown {
    /// Which.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// In which dimension.
    pub dimension: String,
    /// Why.
    pub because: String,
}

/// Looks so many days ahead.
pub async fn show(plane: &ControlPlane, days: u32) -> Result<ForecastBody> {
    let load = load(plane)?;
    let to = plane.now();
    let from = to.plus_seconds(-BACK_DAYS * 86_400);
    let settings = plane.settings();
    let (limit, goal) = (settings.hotspots.limit, settings.hotspots.goal);
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut steps = Steps::default();
        files.read(from, to, |sample| steps.take(sample))?;
        Ok(steps.finish(days, limit, goal))
    });
    read.await.map_err(|_| cut_short())?.map_err(unreadable)
}

/// The load of every shard in steps of an hour, or of ten minutes where there
/// is less than that.
#[derive(Default)]
struct Steps {
    step: Vec<Sample>,
    shards: BTreeMap<ShardId, (Resources, Vec<(Timestamp, Resources)>)>,
    regions: BTreeMap<ShardId, RegionId>,
}

const STEP_MS: u64 = 600_000;

impl Steps {
    fn take(&mut self, sample: Sample) {
        let step = |it: &Sample| it.interval.start.unix_ms().div_euclid(STEP_MS as i64);
        if self
            .step
            .last()
            .is_some_and(|last| step(last) != step(&sample))
        {
            self.close();
        }
        self.step.push(sample);
    }

    fn close(&mut self) {
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

    /// Whether no shard was measured for long enough.
    fn too_little(&self) -> Option<String> {
        let most = self.shards.values().map(|(_, points)| points.len()).max();
        let most = most.unwrap_or(0);
        if most >= forecast::FEWEST {
            return None;
        }
        let minutes = |steps: usize| steps as u64 * STEP_MS / 60_000;
        Some(format!(
            "Too little load was recorded to look ahead: it takes {} minutes, and there are {}.",
            minutes(forecast::FEWEST),
            minutes(most)
        ))
    }

    fn finish(mut self, days: u32, limit: f64, goal: f64) -> ForecastBody {
        self.close();
        let mut body = ForecastBody {
            days,
            outlooks: Vec::new(),
            needed: Vec::new(),
            unknown: Vec::new(),
            too_little: self.too_little(),
        };
        for (shard, (capacity, points)) in &self.shards {
            for dimension in Dimension::ALL.into_iter().filter(|it| capacity[*it] > 0.0) {
                let most = (capacity[dimension], limit);
                let series = series(points, dimension);
                match outlook(shard, dimension, most, &series, days, SURENESS) {
                    Ok(outlook) => body.outlooks.push(outlook),
                    Err(why) => body.unknown.push(unknown(shard, dimension, &why)),
                }
            }
        }
        body.needed = needed(&body.outlooks, &self.regions, days, goal);
        body
    }
}

/// What each region needs, where it needs most.
fn needed(
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

/// At equal distances; what was not measured is no number.
fn series(points: &[(Timestamp, Resources)], dimension: Dimension) -> Series {
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

fn unknown(shard: &ShardId, dimension: Dimension, why: &forecast::NoForecast) -> Unknown {
    Unknown {
        shard_id: shard.clone(),
        dimension: dimension.name().to_owned(),
        because: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use ballast_hotspot_detector::load::{Interval, ShardSample};

    use super::*;

    /// Four shards that fill up by a percent a day.
    #[test]
    fn the_shards_that_a_region_needs_are_told() {
        let mut steps = Steps::default();
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
            steps.take(Sample { interval, shards });
        }
        let body = steps.finish(30, 0.8, 0.7);
        assert_eq!(body.needed.len(), 1, "{body:?}");
        let needs = &body.needed[0];
        // 95 of 100 each, and a shard is filled to 70.
        assert_eq!((needs.have, needs.expected), (4, 6), "{needs:?}");
        assert!(
            needs.at_most >= 6 && needs.dimension == "storage",
            "{needs:?}"
        );
    }
}
