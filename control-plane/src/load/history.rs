//! Load history: series for charts in any step length, and the raw record for
//! replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::{Error, Result, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::load::LoadSample;
use ballast_hotspot_detector::load::record::{downsample, header, lines};
use serde::Serialize;

use super::current::LoadFilter;
use super::{LatencyBody, Rates, load_monitor, read_failed, read_interrupted};
use crate::plane::ControlPlane;

/// Maximum number of points per series.
pub const POINTS_MAX: u64 = 2_000;
/// Default number of points.
const POINTS: u64 = 240;
/// Default number of tenants.
const TENANTS: usize = 20;
/// Maximum size of an exported record, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 20;
const HOUR_MS: i64 = 3_600_000;

/// Load over time.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoadHistory)]
pub struct LoadHistoryBody {
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
    /// Length of a step, in milliseconds.
    pub step_ms: u64,
    /// Each measured shard.
    pub shards: Vec<ShardSeries>,
    /// The requested tenant, or the hottest ones.
    pub tenants: Vec<TenantSeries>,
}

/// A shard over time. A step without measurements has no point.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardSeries {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// One point per step.
    pub points: Vec<ShardPoint>,
}

/// A shard in one step.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardPoint {
    /// Start of the step.
    pub at: Timestamp,
    /// Its load.
    #[serde(flatten)]
    pub rates: Rates,
    /// Share of the time that writes waited, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_wait: Option<f64>,
    /// Vote latency, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote_latency: Option<LatencyBody>,
    /// Query latency, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_latency: Option<LatencyBody>,
}

/// A tenant over time. A step without activity has no point.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantSeries {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// One point per step.
    pub points: Vec<TenantPoint>,
}

/// A tenant in one step.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantPoint {
    /// Start of the step.
    pub at: Timestamp,
    /// Its load.
    #[serde(flatten)]
    pub rates: Rates,
}

/// A past time range.
#[derive(Debug, Clone, Copy)]
pub struct TimeRange {
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
}

impl TimeRange {
    /// Creates a range; the last hour by default.
    pub fn new(
        plane: &ControlPlane,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Result<Self> {
        let to = to.unwrap_or_else(|| plane.now());
        let from =
            from.unwrap_or_else(|| Timestamp::from_unix_ms(to.unix_ms().saturating_sub(HOUR_MS)));
        if from >= to {
            let message = format!("it must be before the end, {to}");
            return Err(Error::invalid_field("?from", message));
        }
        Ok(Self { from, to })
    }

    fn ms(self) -> u64 {
        self.to.unix_ms().abs_diff(self.from.unix_ms())
    }

    /// The step length: as requested, or one that suits a chart.
    fn step(self, finest: u64, wanted: Option<u64>) -> Result<u64> {
        const ROUND: [u64; 10] = [
            10_000,
            30_000,
            60_000,
            300_000,
            600_000,
            1_800_000,
            3_600_000,
            21_600_000,
            86_400_000,
            604_800_000,
        ];
        let Some(wanted) = wanted else {
            let least = (self.ms() / POINTS).max(finest);
            let round = ROUND.into_iter().find(|step| *step >= least);
            return Ok(if least == finest {
                finest
            } else {
                round.unwrap_or(least)
            });
        };
        let most = self.ms() / POINTS_MAX;
        if wanted < finest.max(most) {
            let message = format!(
                "it must be at least {} ms, which gives {POINTS_MAX} points",
                finest.max(most)
            );
            return Err(Error::invalid_field("?step", message));
        }
        Ok(wanted)
    }
}

/// Load over time.
pub async fn show(
    plane: &ControlPlane,
    range: TimeRange,
    step_ms: Option<u64>,
    filter: LoadFilter,
) -> Result<LoadHistoryBody> {
    let load = load_monitor(plane)?;
    let step_ms = range.step(load.spans().step_ms.max(1), step_ms)?;
    // Each request reads many files: run one at a time.
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut series = SeriesBuilder::new(step_ms, filter);
        files.read(range.from, range.to, |sample| series.add_sample(sample))?;
        Ok(series.finish(range))
    });
    read.await
        .map_err(|_| read_interrupted())?
        .map_err(read_failed)
}

/// Builds series from samples.
struct SeriesBuilder {
    step_ms: u64,
    filter: LoadFilter,
    /// The samples of the current step.
    step: Vec<LoadSample>,
    shards: BTreeMap<ShardId, Vec<ShardPoint>>,
    tenants: BTreeMap<TenantId, (f64, Vec<TenantPoint>)>,
}

impl SeriesBuilder {
    fn new(step_ms: u64, filter: LoadFilter) -> Self {
        Self {
            step_ms,
            filter,
            step: Vec::new(),
            shards: BTreeMap::new(),
            tenants: BTreeMap::new(),
        }
    }

    fn add_sample(&mut self, sample: LoadSample) {
        let step = |sample: &LoadSample| {
            let step_ms = i64::try_from(self.step_ms).unwrap_or(i64::MAX);
            sample.interval.start.unix_ms().div_euclid(step_ms)
        };
        if self
            .step
            .last()
            .is_some_and(|last| step(last) != step(&sample))
        {
            self.flush_step();
        }
        self.step.push(sample);
    }

    /// Adds the current step's points.
    fn flush_step(&mut self) {
        for sample in downsample(std::mem::take(&mut self.step), self.step_ms) {
            self.add_points(&sample);
        }
    }

    fn add_points(&mut self, sample: &LoadSample) {
        let at = sample.interval.start;
        let mut tenants: BTreeMap<&TenantId, Rates> = BTreeMap::new();
        for shard in &sample.shards {
            if !self.filter.has_shard(&shard.shard) {
                continue;
            }
            let measured = shard.measured_ms.unwrap_or(sample.interval.ms);
            let mut any = self.filter.tenant.is_none();
            for slice in &shard.slices {
                let tenant = &slice.slice.tenant_id;
                if !self.filter.has_tenant(tenant) {
                    continue;
                }
                any = true;
                let used = (&slice.flow, slice.storage, slice.concurrency);
                let rates = Rates::from_slice_flow(used, measured, &shard.capacity);
                tenants.entry(tenant).or_default().add(&rates);
            }
            if any {
                let points = self.shards.entry(shard.shard.clone()).or_default();
                points.push(ShardPoint {
                    at,
                    rates: Rates::from_sample(shard, sample.interval.ms),
                    io_wait: shard.io_wait.map(|wait| wait.share()),
                    vote_latency: LatencyBody::from_sketch(&shard.vote_latency),
                    query_latency: LatencyBody::from_sketch(&shard.query_latency),
                });
            }
        }
        for (tenant, rates) in tenants {
            let (heat, points) = self.tenants.entry(tenant.clone()).or_default();
            *heat += rates.heat;
            points.push(TenantPoint { at, rates });
        }
    }

    fn finish(mut self, range: TimeRange) -> LoadHistoryBody {
        self.flush_step();
        let shards = self.shards.into_iter();
        let mut tenants: Vec<_> = self.tenants.into_iter().collect();
        tenants.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
        tenants.truncate(self.filter.tenants_max.unwrap_or(TENANTS));
        LoadHistoryBody {
            from: range.from,
            to: range.to,
            step_ms: self.step_ms,
            shards: shards
                .map(|(shard_id, points)| ShardSeries { shard_id, points })
                .collect(),
            tenants: tenants
                .into_iter()
                .map(|(tenant_id, (_, points))| TenantSeries { tenant_id, points })
                .collect(),
        }
    }
}

/// Exports the recorded load, in the format of `docs/load-format.md`.
pub async fn record(
    plane: &ControlPlane,
    range: TimeRange,
    step_ms: Option<u64>,
) -> Result<String> {
    let load = load_monitor(plane)?;
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut writer = RecordWriter {
            text: header("ballast"),
            step_ms,
            step: Vec::new(),
        };
        files.read(range.from, range.to, |sample| writer.add_sample(sample))?;
        writer.flush_step();
        Ok(writer.text)
    });
    let text = read
        .await
        .map_err(|_| read_interrupted())?
        .map_err(read_failed)?;
    if text.len() > RECORD_BYTES_MAX {
        let message = format!("that is more than {} MiB of load", RECORD_BYTES_MAX >> 20);
        let error = Error::invalid_field("?from", message);
        return Err(
            error.with_next_step("Ask for less time (from, to), or for longer steps (step).")
        );
    }
    Ok(text)
}

/// Writes samples, in longer steps if requested.
struct RecordWriter {
    text: String,
    step_ms: Option<u64>,
    step: Vec<LoadSample>,
}

impl RecordWriter {
    fn add_sample(&mut self, sample: LoadSample) {
        if self.text.len() > RECORD_BYTES_MAX {
            return;
        }
        let Some(step_ms) = self.step_ms else {
            return self.text.push_str(&lines(&sample));
        };
        let step_ms = i64::try_from(step_ms.max(1)).unwrap_or(i64::MAX);
        let step = |sample: &LoadSample| sample.interval.start.unix_ms().div_euclid(step_ms);
        if self
            .step
            .last()
            .is_some_and(|last| step(last) != step(&sample))
        {
            self.flush_step();
        }
        self.step.push(sample);
    }

    fn flush_step(&mut self) {
        let samples = std::mem::take(&mut self.step);
        for sample in downsample(samples, self.step_ms.unwrap_or(1)) {
            self.text.push_str(&lines(&sample));
        }
    }
}
