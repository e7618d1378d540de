//! How full shards will be: from what was recorded, by the hour.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::{Result, ShardId, Timestamp};
use ballast_hotspot_detector::forecast::{self, Outlook, Series, outlook};
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
    /// Why there is none for the others.
    pub unknown: Vec<Unknown>,
    /// That there is too little to say anything yet, and how much it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_little: Option<String>,
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
    let limit = plane.settings().hotspots.limit;
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut steps = Steps::default();
        files.read(from, to, |sample| steps.take(sample))?;
        Ok(steps.finish(days, limit))
    });
    read.await.map_err(|_| cut_short())?.map_err(unreadable)
}

/// The load of every shard in steps of an hour, or of ten minutes where there
/// is less than that.
#[derive(Default)]
struct Steps {
    step: Vec<Sample>,
    shards: BTreeMap<ShardId, (Resources, Vec<(Timestamp, Resources)>)>,
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

    fn finish(mut self, days: u32, limit: f64) -> ForecastBody {
        self.close();
        let mut body = ForecastBody {
            days,
            outlooks: Vec::new(),
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
        body
    }
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
