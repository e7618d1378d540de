//! Capacity outlook: a shard's fill, when it will be full, and how many shards are needed.

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;

use super::{DAY_SECONDS, NoForecast, Point, Series, forecast};
use crate::resources::Dimension;

/// The outlook of a shard in one dimension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Which shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The dimension.
    pub dimension: Dimension,
    /// The capacity.
    pub capacity: f64,
    /// The limit, as a share of the capacity.
    pub limit: f64,
    /// The share used now.
    pub share: f64,
    /// The coverage of the prediction interval.
    pub sureness: f64,
    /// In how many days it will be over its limit; `null` if beyond the horizon.
    pub full_in: Option<DaysUntilFull>,
    /// The expected peak of each day, from today on.
    pub peaks: Vec<DailyPeak>,
}

/// Days until full, with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaysUntilFull {
    /// The earliest.
    pub earliest: f64,
    /// The expected value; `null` if beyond the horizon.
    pub expected: Option<f64>,
    /// The latest; `null` if beyond the horizon.
    pub latest: Option<f64>,
}

/// The peak of one day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DailyPeak {
    /// The expected value.
    pub expected: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// Forecasts `days` days for one shard and one dimension.
///
/// # Errors
///
/// If there are too few measurements.
pub fn outlook(
    shard_id: &ShardId,
    dimension: Dimension,
    (capacity, limit): (f64, f64),
    series: &Series,
    days: u32,
    sureness: f64,
) -> Result<Outlook, NoForecast> {
    let step = series.step_seconds.max(1);
    let steps = i64::from(days) * DAY_SECONDS / step;
    let points = forecast(series, usize::try_from(steps).unwrap_or(0), sureness)?;
    let now = points
        .first()
        .map_or(series.from, |point| point.at.plus_seconds(-step));
    let last = series.values.iter().rev().find(|value| value.is_finite());
    Ok(Outlook {
        shard_id: shard_id.clone(),
        dimension,
        capacity,
        limit,
        share: last.copied().unwrap_or(0.0) / capacity,
        sureness,
        full_in: full_in(&points, now, capacity * limit),
        peaks: peaks(&points, now),
    })
}

fn full_in(points: &[Point], now: Timestamp, most: f64) -> Option<DaysUntilFull> {
    let first = |of: fn(&Point) -> f64| {
        let over = points.iter().find(|point| of(point) > most)?;
        Some((over.at.unix_ms() - now.unix_ms()) as f64 / (DAY_SECONDS * 1_000) as f64)
    };
    Some(DaysUntilFull {
        earliest: first(|point| point.high)?,
        expected: first(|point| point.expected),
        latest: first(|point| point.low),
    })
}

fn peaks(points: &[Point], now: Timestamp) -> Vec<DailyPeak> {
    let mut peaks: Vec<DailyPeak> = Vec::new();
    for point in points {
        let since = point.at.unix_ms() - now.unix_ms();
        // The first step after now is part of today.
        let day = usize::try_from((since - 1) / (DAY_SECONDS * 1_000)).unwrap_or(0);
        if peaks.len() <= day {
            let (expected, high) = (point.expected, point.high);
            peaks.push(DailyPeak { expected, high });
        }
        if let Some(peak) = peaks.get_mut(day) {
            peak.expected = peak.expected.max(point.expected);
            peak.high = peak.high.max(point.high);
        }
    }
    peaks
}

/// The number of shards needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardsNeeded {
    /// The current number.
    pub have: usize,
    /// The expected number.
    pub expected: usize,
    /// The upper end of the interval.
    pub at_most: usize,
}

/// The number of shards of the mean capacity that hold the load expected on the `days`-th day
/// at a fill of `goal`. For shards of one region and one dimension; the maximum over
/// dimensions is what a region needs. `None` if the day is beyond the horizon.
#[must_use]
pub fn shards_needed(outlooks: &[Outlook], days: usize, goal: f64) -> Option<ShardsNeeded> {
    let have = outlooks.len();
    let capacity = outlooks.iter().map(|shard| shard.capacity).sum::<f64>() / have as f64;
    let mut sum = DailyPeak {
        expected: 0.0,
        high: 0.0,
    };
    for shard in outlooks {
        let peak = shard.peaks.get(days.checked_sub(1)?)?;
        sum.expected += peak.expected;
        sum.high += peak.high;
    }
    let shards = |load: f64| (load / (capacity * goal)).ceil().max(1.0) as usize;
    (have > 0 && capacity > 0.0 && goal > 0.0).then(|| ShardsNeeded {
        have,
        expected: shards(sum.expected),
        at_most: shards(sum.high),
    })
}
