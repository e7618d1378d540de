//! Latency percentiles from a mergeable sketch (`DDSketch`; Masson, Rim and Lee, 2019).
//!
//! The bounds of the buckets are a fixed factor apart, so every percentile has a relative
//! error of at most [`ERROR`], however sketches were merged. Times are between a
//! microsecond and an hour, which bounds the memory: shorter times count as 0, longer ones
//! as an hour.
//!
//! The router fills sketches, the hotspot detector reads them, and records store them. All
//! use the same buckets, so no precision is lost.

use serde::{Deserialize, Serialize};

/// The highest relative error of a percentile.
pub const ERROR: f64 = 0.02;
/// The shortest time that is distinguished from 0, in milliseconds.
pub const MS_MIN: f64 = 0.001;
/// The longest time, in milliseconds.
pub const MS_MAX: f64 = 3_600_000.0;

const GAMMA: f64 = (1.0 + ERROR) / (1.0 - ERROR);

/// A sketch of latencies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "SketchRecord", into = "SketchRecord")]
pub struct Sketch {
    /// Times below [`MS_MIN`].
    zero: u64,
    /// The bucket of the first count.
    first: i32,
    counts: Vec<u64>,
}

/// The stored form: only the buckets that are not empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SketchRecord {
    #[serde(skip_serializing_if = "is_zero")]
    zero: u64,
    buckets: Vec<(i32, u64)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why a sketch cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bucket {0} is outside of {1} to {2}: times are from a microsecond to an hour")]
pub struct BadBucket(i32, i32, i32);

fn bucket_index(ms: f64) -> i32 {
    (ms.clamp(MS_MIN, MS_MAX).ln() / GAMMA.ln()).ceil() as i32
}

/// The value with the lowest relative error for a bucket.
fn bucket_midpoint(bucket: i32) -> f64 {
    2.0 * GAMMA.powi(bucket) / (GAMMA + 1.0)
}

impl Sketch {
    /// A sketch with these percentiles, for sources that know only those. Merged with others
    /// it is an approximation without a bound on the error.
    #[must_use]
    pub fn from_percentiles(count: u64, p50: f64, p95: f64, p99: f64) -> Self {
        let upto = |share: f64| (count as f64 * share).ceil() as u64;
        let mut sketch = Self::default();
        sketch.add_many(p50, upto(0.50));
        sketch.add_many(p95, upto(0.95).saturating_sub(upto(0.50)));
        sketch.add_many(p99, count.saturating_sub(upto(0.95)));
        sketch
    }

    /// Adds a call that took this many milliseconds.
    pub fn add(&mut self, ms: f64) {
        self.add_many(ms, 1);
    }

    /// Adds `count` calls. Invalid times (NaN, below 0) count as 0.
    pub fn add_many(&mut self, ms: f64, count: u64) {
        if count == 0 {
        } else if ms >= MS_MIN {
            *self.bucket_mut(bucket_index(ms)) += count;
        } else {
            self.zero += count;
        }
    }

    fn bucket_mut(&mut self, bucket: i32) -> &mut u64 {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let more = (self.first - bucket) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let at = (bucket - self.first) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        &mut self.counts[at]
    }

    /// The number of calls.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.zero + self.counts.iter().sum::<u64>()
    }

    /// The quantile for `share` (0 to 1), in milliseconds; `None` if there were no calls.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut counted = self.zero;
        if counted >= rank {
            return Some(0.0);
        }
        for (bucket, many) in (self.first..).zip(&self.counts) {
            counted += many;
            if counted >= rank {
                return Some(bucket_midpoint(bucket));
            }
        }
        None
    }

    /// The stored form: the count of zeros, and the buckets that are not empty.
    #[must_use]
    pub fn parts(&self) -> (u64, Vec<(i32, u64)>) {
        let written = SketchRecord::from(self.clone());
        (written.zero, written.buckets)
    }

    /// The sketch with this stored form.
    pub fn from_parts(zero: u64, buckets: Vec<(i32, u64)>) -> Result<Self, BadBucket> {
        Self::try_from(SketchRecord { zero, buckets })
    }

    /// The number of buckets in memory.
    #[must_use]
    pub fn buckets_kept(&self) -> usize {
        self.counts.len()
    }
}

impl Sketch {
    /// Adds the counts of another sketch.
    pub fn merge(&mut self, other: &Self) {
        self.zero += other.zero;
        for (bucket, count) in (other.first..).zip(&other.counts) {
            if *count > 0 {
                *self.bucket_mut(bucket) += count;
            }
        }
    }
}

impl From<Sketch> for SketchRecord {
    fn from(sketch: Sketch) -> Self {
        let buckets = (sketch.first..).zip(sketch.counts);
        Self {
            zero: sketch.zero,
            buckets: buckets.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl TryFrom<SketchRecord> for Sketch {
    type Error = BadBucket;
    fn try_from(written: SketchRecord) -> Result<Self, BadBucket> {
        let (low, high) = (bucket_index(MS_MIN), bucket_index(MS_MAX));
        let mut sketch = Self {
            zero: written.zero,
            ..Self::default()
        };
        for (bucket, count) in written.buckets {
            if !(low..=high).contains(&bucket) {
                return Err(BadBucket(bucket, low, high));
            }
            *sketch.bucket_mut(bucket) += count;
        }
        Ok(sketch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sketch_of(times: &[f64]) -> Sketch {
        let mut sketch = Sketch::default();
        for ms in times {
            sketch.add(*ms);
        }
        sketch
    }

    fn exact(times: &[f64], share: f64) -> f64 {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = ((share * times.len() as f64).ceil() as usize).max(1);
        sorted[rank - 1]
    }

    fn times() -> impl Strategy<Value = Vec<f64>> {
        // From a microsecond to an hour, as many short ones as long ones.
        let one = (MS_MIN.ln()..MS_MAX.ln()).prop_map(f64::exp);
        proptest::collection::vec(one, 1..300)
    }

    proptest! {
        #[test]
        fn every_percentile_is_within_the_stated_error(times in times(), share in 0.0..=1.0) {
            let quantile = sketch_of(&times).quantile(share).unwrap();
            let exact = exact(&times, share);
            prop_assert!((quantile - exact).abs() <= exact * ERROR * 1.000_001, "{quantile} for {exact}");
        }

        #[test]
        fn merging_in_any_order_is_counting_once(a in times(), b in times(), c in times()) {
            let all = sketch_of(&[a.clone(), b.clone(), c.clone()].concat());
            let (a, b, c) = (sketch_of(&a), sketch_of(&b), sketch_of(&c));
            for [first, second, third] in [[&a, &b, &c], [&c, &a, &b], [&b, &c, &a]] {
                let mut merged = first.clone();
                merged.merge(second);
                merged.merge(third);
                prop_assert_eq!(&merged, &all);
            }
        }

        #[test]
        fn memory_is_bounded_and_text_keeps_it(times in times()) {
            let mut sketch = sketch_of(&times);
            for ms in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
                sketch.add(ms);
            }
            prop_assert!(sketch.buckets_kept() < 600, "{}", sketch.buckets_kept());
            let text = serde_json::to_string(&sketch).unwrap();
            let read: Sketch = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.count(), sketch.count());
            prop_assert_eq!(read.quantile(0.95), sketch.quantile(0.95));
        }
    }

    #[test]
    fn given_percentiles_are_reproduced() {
        for count in [1, 2, 7, 100, 12_345] {
            let sketch = Sketch::from_percentiles(count, 3.0, 40.0, 200.0);
            assert_eq!(sketch.count(), count);
            if count >= 100 {
                for (share, ms) in [(0.5, 3.0), (0.95, 40.0), (0.99, 200.0)] {
                    let quantile = sketch.quantile(share).unwrap();
                    assert!((quantile - ms).abs() <= ms * ERROR, "{quantile} for {ms}");
                }
            }
        }
    }

    #[test]
    fn no_calls_have_no_latency_and_a_bucket_out_of_range_is_refused() {
        assert_eq!(Sketch::default().quantile(0.5), None);
        let read = serde_json::from_str::<Sketch>(r#"{"buckets":[[99999,1]]}"#);
        assert!(read.unwrap_err().to_string().contains("bucket 99999"));
    }
}
