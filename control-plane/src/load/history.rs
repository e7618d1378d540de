//! What shards and tenants used over time, in steps of any length, and the
//! record itself for those who replay it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::{Error, Result, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::load::Sample;
use ballast_hotspot_detector::load::record::{downsample, header, lines};
use serde::Serialize;

use super::now::LoadFilter;
use super::{LatencyBody, Rates, cut_short, load, unreadable};
use crate::plane::ControlPlane;

/// Points of one series, at the most.
pub const POINTS_MAX: u64 = 2_000;
/// Points when nobody says how long the steps are to be.
const POINTS: u64 = 240;
/// Tenants that are told when none is named.
const TENANTS: usize = 20;
/// Bytes of a record that is handed out, at the most.
const RECORD_BYTES_MAX: usize = 64 << 20;
const HOUR_MS: i64 = 3_600_000;

/// What was used over time.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadHistory {
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
    /// How long a step is, in milliseconds.
    pub step_ms: u64,
    /// Each shard that was measured.
    pub shards: Vec<ShardSeries>,
    /// The tenant that was asked for, or the hottest ones.
    pub tenants: Vec<TenantSeries>,
}

/// A shard over time. A step in which it was not measured has no point.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardSeries {
    /// Which.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Step by step.
    pub points: Vec<ShardPoint>,
}

/// A shard in a step.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardPoint {
    /// When the step began.
    pub at: Timestamp,
    /// What was used.
    #[serde(flatten)]
    pub rates: Rates,
    /// How much of the time writes waited, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_wait: Option<f64>,
    /// How long votes took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote_latency: Option<LatencyBody>,
    /// How long queries took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_latency: Option<LatencyBody>,
}

/// A tenant over time. A step in which it did nothing has no point.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantSeries {
    /// Which.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Step by step.
    pub points: Vec<TenantPoint>,
}

/// A tenant in a step.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantPoint {
    /// When the step began.
    pub at: Timestamp,
    /// What was used.
    #[serde(flatten)]
    pub rates: Rates,
}

/// An interval of the past.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
}

impl Stretch {
    /// The last hour when nothing is said.
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

    /// How long a step is: what is asked for, or what makes a good chart.
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
                "it must be at least {} ms: that makes {POINTS_MAX} points",
                finest.max(most)
            );
            return Err(Error::invalid_field("?step", message));
        }
        Ok(wanted)
    }
}

/// What was used over time.
pub async fn show(
    plane: &ControlPlane,
    stretch: Stretch,
    step_ms: Option<u64>,
    filter: LoadFilter,
) -> Result<LoadHistory> {
    let load = load(plane)?;
    let step_ms = stretch.step(load.spans().step_ms.max(1), step_ms)?;
    // Each reads much: one after the other.
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut series = Series::new(step_ms, filter);
        files.read(stretch.from, stretch.to, |sample| series.take(sample))?;
        Ok(series.finish(stretch))
    });
    read.await.map_err(|_| cut_short())?.map_err(unreadable)
}

/// Series that are being made.
struct Series {
    step_ms: u64,
    filter: LoadFilter,
    /// The samples of the step at hand.
    step: Vec<Sample>,
    shards: BTreeMap<ShardId, Vec<ShardPoint>>,
    tenants: BTreeMap<TenantId, (f64, Vec<TenantPoint>)>,
}

impl Series {
    fn new(step_ms: u64, filter: LoadFilter) -> Self {
        Self {
            step_ms,
            filter,
            step: Vec::new(),
            shards: BTreeMap::new(),
            tenants: BTreeMap::new(),
        }
    }

    fn take(&mut self, sample: Sample) {
        let step = |sample: &Sample| {
            let step_ms = i64::try_from(self.step_ms).unwrap_or(i64::MAX);
            sample.interval.start.unix_ms().div_euclid(step_ms)
        };
        if self
            .step
            .last()
            .is_some_and(|last| step(last) != step(&sample))
        {
            self.close();
        }
        self.step.push(sample);
    }

    /// Tells the step at hand.
    fn close(&mut self) {
        for sample in downsample(std::mem::take(&mut self.step), self.step_ms) {
            self.tell(&sample);
        }
    }

    fn tell(&mut self, sample: &Sample) {
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
                let rates = Rates::of_slice_flow(used, measured, &shard.capacity);
                tenants.entry(tenant).or_default().add(&rates);
            }
            if any {
                let points = self.shards.entry(shard.shard.clone()).or_default();
                points.push(ShardPoint {
                    at,
                    rates: Rates::of_sample(shard, sample.interval.ms),
                    io_wait: shard.io_wait.map(|wait| wait.share()),
                    vote_latency: LatencyBody::of(&shard.vote_latency),
                    query_latency: LatencyBody::of(&shard.query_latency),
                });
            }
        }
        for (tenant, rates) in tenants {
            let (heat, points) = self.tenants.entry(tenant.clone()).or_default();
            *heat += rates.heat;
            points.push(TenantPoint { at, rates });
        }
    }

    fn finish(mut self, stretch: Stretch) -> LoadHistory {
        self.close();
        let shards = self.shards.into_iter();
        let mut tenants: Vec<_> = self.tenants.into_iter().collect();
        tenants.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
        tenants.truncate(self.filter.tenants_max.unwrap_or(TENANTS));
        LoadHistory {
            from: stretch.from,
            to: stretch.to,
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

/// The record itself, in the format of `docs/load-format.md`.
pub async fn record(
    plane: &ControlPlane,
    stretch: Stretch,
    step_ms: Option<u64>,
) -> Result<String> {
    let load = load(plane)?;
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut writer = Writer {
            text: header("ballast"),
            step_ms,
            step: Vec::new(),
        };
        files.read(stretch.from, stretch.to, |sample| writer.take(sample))?;
        writer.close();
        Ok(writer.text)
    });
    let text = read.await.map_err(|_| cut_short())?.map_err(unreadable)?;
    if text.len() > RECORD_BYTES_MAX {
        let message = format!("that is more than {} MiB of load", RECORD_BYTES_MAX >> 20);
        let error = Error::invalid_field("?from", message);
        return Err(error.next("Ask for less time (from, to), or for longer steps (step)."));
    }
    Ok(text)
}

/// Writes samples, in longer steps if that is asked for.
struct Writer {
    text: String,
    step_ms: Option<u64>,
    step: Vec<Sample>,
}

impl Writer {
    fn take(&mut self, sample: Sample) {
        if self.text.len() > RECORD_BYTES_MAX {
            return;
        }
        let Some(step_ms) = self.step_ms else {
            return self.text.push_str(&lines(&sample));
        };
        let step_ms = i64::try_from(step_ms.max(1)).unwrap_or(i64::MAX);
        let step = |sample: &Sample| sample.interval.start.unix_ms().div_euclid(step_ms);
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
        let samples = std::mem::take(&mut self.step);
        for sample in downsample(samples, self.step_ms.unwrap_or(1)) {
            self.text.push_str(&lines(&sample));
        }
    }
}
