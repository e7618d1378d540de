//! Forecasts: what a shard will use, when it is full, how many shards are
//! needed by then, and what polls on the calendar will ask for.
//!
//! ```text
//!   series ─► days and weeks taken out (MSTL) ─► trend (Theil–Sen) ─► points with an interval
//!                                                                  └► outlook: days until full
//!   calendar ─► lanes to widen before a poll opens, moves frozen around it
//! ```
//! Seasons are found by `augurs-mstl`; the trend is the median of slopes, which a
//! flash crowd or a purge does not turn.

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

/// Measurements at equal distances.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// When the first was made.
    pub from: Timestamp,
    /// The seconds between two of them.
    pub step_seconds: i64,
    /// The measurements. What is no number is missing, and made up from its
    /// neighbours.
    pub values: Vec<f64>,
}

/// What is expected at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// What is expected.
    pub expected: f64,
    /// It will not be less than this, as surely as was asked for.
    pub low: f64,
    /// Nor more than this.
    pub high: f64,
}

/// Why there is no forecast.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoForecast {
    /// There is too little to go by.
    #[error("a forecast needs {needed} measurements; there are {have}")]
    TooShort {
        /// How many there are.
        have: usize,
        /// How many it needs.
        needed: usize,
    },
    /// The series cannot be.
    #[error("the measurements are {0} seconds apart; they must be at least one")]
    Step(i64),
    /// The numbers cannot be worked with.
    #[error("the seasons of the series cannot be told apart: {0}")]
    Seasons(String),
}

/// The fewest measurements that a trend is seen in.
pub const FEWEST: usize = 8;
/// The most that are looked at: a year of hours. What is older says little.
const MOST: usize = 8_760;

/// One part in so many is held back to see how sure a forecast is,
const HELD_BACK: usize = 4;
/// and no more than this.
const BACK_MOST: usize = 336;
/// Half of an interval that is as good as none, as a share of the largest value.
const SLIGHT: f64 = 1e-9;

/// Continues a series for some steps. `sureness`, between 0 and 1, is how often
/// the truth is to be within the interval.
///
/// # Errors
///
/// When there is too little to go by.
pub fn forecast(series: &Series, steps: usize, sureness: f64) -> Result<Vec<Point>, NoForecast> {
    if series.step_seconds < 1 {
        return Err(NoForecast::Step(series.step_seconds));
    }
    let skipped = series.values.len().saturating_sub(MOST);
    let values = filled(&series.values[skipped..]);
    if values.len() < FEWEST {
        return Err(NoForecast::TooShort {
            have: values.len(),
            needed: FEWEST,
        });
    }
    // Seasons are worked out in single precision: near 1 that is enough.
    let scale = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    let scale = if scale > 0.0 { scale } else { 1.0 };
    let scaled: Vec<f64> = values.iter().map(|value| value / scale).collect();
    let wider = wider(series, &scaled, sureness)?;
    let found = continued(&scaled, seasons(series, values.len()), steps, sureness)?;
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

/// How many times wider the interval must be for the truth to have been within
/// it as often as was asked, had the last part of the series been foreseen from
/// the part before. What is found in a series also fits the chance in it, so it
/// always seems surer than it is. `None` when it was wide enough.
fn wider(series: &Series, scaled: &[f64], sureness: f64) -> Result<Option<f64>, NoForecast> {
    let last = (scaled.len() / HELD_BACK).min(BACK_MOST);
    let (known, real) = scaled.split_at(scaled.len() - last);
    if known.len() < FEWEST || real.is_empty() {
        return Ok(None);
    }
    let foreseen = continued(known, seasons(series, known.len()), last, sureness)?;
    let mut off: Vec<f64> = foreseen
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

/// The seasons that the series is long enough to show, in steps: each must have
/// been seen twice.
fn seasons(series: &Series, have: usize) -> Vec<usize> {
    [DAY_SECONDS, WEEK_SECONDS]
        .into_iter()
        .filter(|season| season % series.step_seconds == 0)
        .filter_map(|season| usize::try_from(season / series.step_seconds).ok())
        .filter(|steps| *steps >= 2 && steps * 2 <= have)
        .collect()
}

type Expected = (f64, f64, f64);

fn continued(
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

/// The values with what is missing made up from its neighbours.
fn filled(values: &[f64]) -> Vec<f64> {
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
