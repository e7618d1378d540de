//! Forecasts: a shard's future load, when it is full, how many shards are needed, and the
//! load of scheduled polls.
//!
//! ```text
//!   series ─► seasons removed (MSTL) ─► trend (Theil–Sen) ─► points with an interval
//!                                                         └► outlook: days until full
//!   calendar ─► lanes to add before a poll opens, migrations frozen around it
//! ```
//! `augurs-mstl` finds the seasons; the trend is the median of slopes, which is robust against
//! a flash crowd or a purge.

mod calendar;
mod outlook;
mod trend;

pub use calendar::{
    PollPreparation, PollReadiness, ScheduledPoll, format_preparation, freezes, preparations,
};
pub use outlook::{DaysUntilFull, Outlook, ShardsNeeded, outlook, shards_needed};

use augurs_core::{Fit, Predict};
use augurs_mstl::MSTLModel;

use ballast_domain::clock::Timestamp;

const DAY_SECONDS: i64 = 86_400;
const WEEK_SECONDS: i64 = 7 * DAY_SECONDS;

/// Equidistant measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The time of the first measurement.
    pub from: Timestamp,
    /// The seconds between two measurements.
    pub step_seconds: i64,
    /// The measurements. NaN is a missing value, which is interpolated.
    pub values: Vec<f64>,
}

/// The forecast for a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// The expected value.
    pub expected: f64,
    /// The lower end of the prediction interval.
    pub low: f64,
    /// The upper end of the prediction interval.
    pub high: f64,
}

/// Why there is no forecast.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoForecast {
    /// Too few measurements.
    #[error("a forecast needs {needed} measurements; there are {have}")]
    TooShort {
        /// How many there are.
        have: usize,
        /// How many it needs.
        needed: usize,
    },
    /// Invalid step.
    #[error("the measurements are {0} seconds apart; the minimum is one second")]
    Step(i64),
    /// The decomposition failed.
    #[error("the seasons of the series cannot be determined: {0}")]
    Seasons(String),
}

/// The fewest measurements for a trend.
pub const MEASUREMENTS_MIN: usize = 8;
/// The most measurements used: a year of hours.
const MEASUREMENTS_MAX: usize = 8_760;

/// One part in this many is held back to measure the coverage of the forecast,
const HELD_BACK: usize = 4;
/// but no more than this many.
const HELD_BACK_MAX: usize = 336;
/// A negligible half-width of an interval, as a share of the largest value.
const SLIGHT: f64 = 1e-9;

/// Forecasts a series for some steps. `sureness`, from 0 to 1, is the coverage of the
/// prediction interval.
///
/// # Errors
///
/// If there are too few measurements.
pub fn forecast(series: &Series, steps: usize, sureness: f64) -> Result<Vec<Point>, NoForecast> {
    if series.step_seconds < 1 {
        return Err(NoForecast::Step(series.step_seconds));
    }
    let skipped = series.values.len().saturating_sub(MEASUREMENTS_MAX);
    let values = interpolate(&series.values[skipped..]);
    if values.len() < MEASUREMENTS_MIN {
        return Err(NoForecast::TooShort {
            have: values.len(),
            needed: MEASUREMENTS_MIN,
        });
    }
    // The decomposition uses single precision, which is enough for values scaled to about 1.
    let scale = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    let scale = if scale > 0.0 { scale } else { 1.0 };
    let scaled: Vec<f64> = values.iter().map(|value| value / scale).collect();
    let wider = widening_factor(series, &scaled, sureness)?;
    let found = extrapolate(&scaled, seasons(series, values.len()), steps, sureness)?;
    let last = series.values.len() as i64 - 1;
    Ok(found
        .into_iter()
        .map(|(expected, low, high)| {
            let half = (high - low) / 2.0;
            let half = wider.map_or(half, |wider| half.max(SLIGHT) * wider);
            (expected, expected - half, expected + half)
        })
        .zip(last + 1..)
        .map(|((expected, low, high), step)| Point {
            at: series.from.plus_seconds(step * series.step_seconds),
            expected: (expected * scale).max(0.0),
            low: (low * scale).max(0.0),
            high: (high * scale).max(0.0),
        })
        .collect())
}

/// The factor by which the interval must be widened to reach the coverage on the held-back
/// last part of the series. A fitted model is overconfident, because it also fits noise.
/// `None` if the interval is wide enough.
fn widening_factor(
    series: &Series,
    scaled: &[f64],
    sureness: f64,
) -> Result<Option<f64>, NoForecast> {
    let last = (scaled.len() / HELD_BACK).min(HELD_BACK_MAX);
    let (known, real) = scaled.split_at(scaled.len() - last);
    if known.len() < MEASUREMENTS_MIN || real.is_empty() {
        return Ok(None);
    }
    let predicted = extrapolate(known, seasons(series, known.len()), last, sureness)?;
    let mut off: Vec<f64> = predicted
        .iter()
        .zip(real)
        .map(|((expected, low, high), real)| {
            (real - expected).abs() / ((high - low) / 2.0).max(SLIGHT)
        })
        .collect();
    off.sort_by(f64::total_cmp);
    let rank = (off.len() as f64 * sureness.clamp(0.0, 1.0)).ceil() as usize;
    let factor = off.get(rank.saturating_sub(1)).copied();
    Ok(factor.filter(|factor| *factor > 1.0))
}

/// The seasons that the series covers at least twice, in steps.
fn seasons(series: &Series, have: usize) -> Vec<usize> {
    [DAY_SECONDS, WEEK_SECONDS]
        .into_iter()
        .filter(|season| season % series.step_seconds == 0)
        .filter_map(|season| usize::try_from(season / series.step_seconds).ok())
        .filter(|steps| *steps >= 2 && steps * 2 <= have)
        .collect()
}

type Expected = (f64, f64, f64);

fn extrapolate(
    values: &[f64],
    seasons: Vec<usize>,
    steps: usize,
    sureness: f64,
) -> Result<Vec<Expected>, NoForecast> {
    if seasons.is_empty() {
        let line = trend::TrendLine::fit(values);
        return Ok((1..=steps)
            .map(|step| line.interval_at(step, sureness))
            .collect());
    }
    let failed = |error: augurs_mstl::Error| NoForecast::Seasons(error.to_string());
    let model = MSTLModel::new(seasons, trend::TheilSen).fit(values);
    let forecast = model
        .map_err(failed)?
        .predict(steps, sureness)
        .map_err(failed)?;
    let (low, high) = forecast
        .intervals
        .map_or_else(Default::default, |found| (found.lower, found.upper));
    let sides = low.into_iter().zip(high);
    let points = forecast.point.into_iter().zip(sides);
    Ok(points
        .map(|(point, (low, high))| (point, low, high))
        .collect())
}

/// The values with missing ones interpolated.
fn interpolate(values: &[f64]) -> Vec<f64> {
    let known: Vec<(usize, f64)> = values
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, value)| value.is_finite())
        .collect();
    let mut filled = Vec::with_capacity(values.len());
    let mut next = 0;
    if known.is_empty() {
        return filled;
    }
    for (at, value) in values.iter().enumerate() {
        if value.is_finite() {
            filled.push(*value);
            next += 1;
            continue;
        }
        let after = known.get(next).copied();
        let before = next
            .checked_sub(1)
            .and_then(|last| known.get(last))
            .copied();
        filled.push(match (before, after) {
            (Some((from, low)), Some((until, high))) => {
                low + (high - low) * (at - from) as f64 / (until - from) as f64
            }
            (Some((_, same)), None) | (None, Some((_, same))) => same,
            (None, None) => 0.0,
        });
    }
    filled
}

#[cfg(test)]
mod tests;
