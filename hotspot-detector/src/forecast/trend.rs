//! The trend: a line with the median of slopes (Theil–Sen), and a prediction interval that
//! widens with distance.

use std::borrow::Cow;
use std::error::Error;

use augurs_core::{Forecast, ForecastIntervals};
use augurs_mstl::{FittedTrendModel, TrendModel};

/// Up to this many measurements, the slopes of all pairs are used; beyond, those of pairs half
/// the series apart.
const EVERY_PAIR: usize = 300;

/// A line through measurements; the last one is at step 0.
#[derive(Debug, Clone)]
pub(super) struct TrendLine {
    level: f64,
    slope: f64,
    /// The standard deviation of the measurements from the line.
    spread: f64,
    count: f64,
}

impl TrendLine {
    pub(super) fn fit(values: &[f64]) -> Self {
        let slope = median(slopes(values)).unwrap_or(0.0);
        let last = values.len().saturating_sub(1) as f64;
        let flat = |(at, value): (usize, &f64)| value - slope * (at as f64 - last);
        let level = median(values.iter().enumerate().map(flat).collect()).unwrap_or(0.0);
        let off = |at: (usize, &f64)| (flat(at) - level).abs();
        // The median absolute deviation, scaled to a normal standard deviation.
        let robust = 1.4826 * median(values.iter().enumerate().map(off).collect()).unwrap_or(0.0);
        Self {
            level,
            slope,
            spread: robust,
            count: values.len() as f64,
        }
    }

    /// The expected value and the prediction interval some steps after the last measurement.
    pub(super) fn interval_at(&self, steps: usize, sureness: f64) -> (f64, f64, f64) {
        let expected = self.level + self.slope * steps as f64;
        // As for least squares: the residual spread, the error of the level, and the error
        // of the slope, which grows with the distance from the middle. The factor 1.1
        // accounts for the lower efficiency of the median of slopes.
        let count = self.count.max(2.0);
        let distance = steps as f64 + (count - 1.0) / 2.0;
        let squares = count * (count * count - 1.0) / 12.0;
        let variance = 1.0 + 1.1 * (1.0 / count + distance * distance / squares);
        let half = quantile(sureness) * self.spread * variance.sqrt();
        (expected, expected - half, expected + half)
    }

    fn fitted(&self, back: usize) -> f64 {
        self.level - self.slope * back as f64
    }
}

fn slopes(values: &[f64]) -> Vec<f64> {
    let count = values.len();
    if count <= EVERY_PAIR {
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |two| (one, two)));
        return pairs
            .map(|(one, two)| (values[two] - values[one]) / (two - one) as f64)
            .collect();
    }
    let half = count / 2;
    (0..count - half)
        .map(|one| (values[one + half] - values[one]) / half as f64)
        .collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let (_, found, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*found)
}

/// The two-sided quantile of the normal distribution (Abramowitz and Stegun 26.2.23, accurate
/// to 5e-4).
fn quantile(sureness: f64) -> f64 {
    let p = 0.5 + sureness.clamp(0.0, 0.9999) / 2.0;
    let tail = (-2.0 * (1.0 - p).ln()).sqrt();
    let above = 2.515_517 + tail * (0.802_853 + tail * 0.010_328);
    let below = 1.0 + tail * (1.432_788 + tail * (0.189_269 + tail * 0.001_308));
    (tail - above / below).max(0.0)
}

/// The line as a trend model for MSTL.
#[derive(Debug, Clone, Copy)]
pub(super) struct TheilSen;

type Failure = Box<dyn Error + Send + Sync + 'static>;

impl TrendModel for TheilSen {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("Theil–Sen")
    }

    fn fit(&self, values: &[f64]) -> Result<Box<dyn FittedTrendModel + Sync + Send>, Failure> {
        Ok(Box::new(TrendLine::fit(values)))
    }
}

impl FittedTrendModel for TrendLine {
    fn predict_inplace(
        &self,
        horizon: usize,
        level: Option<f64>,
        forecast: &mut Forecast,
    ) -> Result<(), Failure> {
        let sureness = level.unwrap_or(0.0);
        let points: Vec<_> = (1..=horizon)
            .map(|step| self.interval_at(step, sureness))
            .collect();
        fill(forecast, &points, level);
        Ok(())
    }

    fn predict_in_sample_inplace(
        &self,
        level: Option<f64>,
        forecast: &mut Forecast,
    ) -> Result<(), Failure> {
        let half = quantile(level.unwrap_or(0.0)) * self.spread;
        let points: Vec<_> = (0..self.count as usize)
            .rev()
            .map(|back| self.fitted(back))
            .map(|point| (point, point - half, point + half))
            .collect();
        fill(forecast, &points, level);
        Ok(())
    }

    fn training_data_size(&self) -> Option<usize> {
        Some(self.count as usize)
    }
}

fn fill(forecast: &mut Forecast, points: &[(f64, f64, f64)], level: Option<f64>) {
    forecast.point = points.iter().map(|point| point.0).collect();
    forecast.intervals = level.map(|level| ForecastIntervals {
        level,
        lower: points.iter().map(|point| point.1).collect(),
        upper: points.iter().map(|point| point.2).collect(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_normal_distribution() {
        for (sureness, known) in [(0.5, 0.6745), (0.8, 1.2816), (0.95, 1.9600), (0.99, 2.5758)] {
            assert!((quantile(sureness) - known).abs() < 1e-3, "{sureness}");
        }
    }

    #[test]
    fn a_flash_crowd_does_not_change_the_slope() {
        let mut values: Vec<f64> = (0..100).map(|at| 10.0 + 2.0 * f64::from(at)).collect();
        for value in &mut values[60..80] {
            *value += 1_000.0;
        }
        let (expected, ..) = TrendLine::fit(&values).interval_at(10, 0.8);
        assert!((expected - (10.0 + 2.0 * 109.0)).abs() < 3.0, "{expected}");
    }
}
