//! Statistics of a shard's calls for a slice: their number, failures and latency. A
//! migration is checked against them after its cutover.

/// Counts of calls by latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallStats {
    /// Calls that the shard answered, by latency band.
    pub took: [u64; CallStats::BANDS],
    /// Calls that it did not answer: it was unavailable or too slow.
    pub failed: u64,
}

impl CallStats {
    /// The number of latency bands: less than 1, 2, 4 … milliseconds. The last band is
    /// unbounded.
    pub const BANDS: usize = 16;

    /// The band of a call with this latency.
    #[must_use]
    pub fn band(took_ms: u64) -> usize {
        let band = u64::BITS - took_ms.leading_zeros();
        (band as usize).min(Self::BANDS - 1)
    }

    /// The number of calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.took.iter().sum::<u64>() + self.failed
    }

    /// The calls since an earlier reading. A lower count means that the counters were
    /// restarted.
    #[must_use]
    pub fn difference_from(&self, earlier: &Self) -> Self {
        if self.calls() < earlier.calls() {
            return *self;
        }
        let mut since = *self;
        for (now, before) in since.took.iter_mut().zip(&earlier.took) {
            *now = now.saturating_sub(*before);
        }
        since.failed = since.failed.saturating_sub(earlier.failed);
        since
    }

    /// The p99 latency of answered calls, in milliseconds, rounded up to the band; `None` if
    /// there were none.
    #[must_use]
    pub fn p99_ms(&self) -> Option<u64> {
        let answered: u64 = self.took.iter().sum();
        let wanted = answered - answered / 100;
        let mut so_far = 0;
        for (band, count) in self.took.iter().enumerate() {
            so_far += count;
            if so_far >= wanted && answered > 0 {
                return Some(1 << band);
            }
        }
        None
    }

    /// The share of calls that failed.
    #[must_use]
    pub fn failed_share(&self) -> f64 {
        match self.calls() {
            0 => 0.0,
            #[allow(clippy::cast_precision_loss, reason = "a share is an estimate")]
            calls => self.failed as f64 / calls as f64,
        }
    }
}

/// The call statistics of a slice before and after a cutover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutoverCallStats {
    /// The source's calls, while the slice was copied.
    pub before: CallStats,
    /// The target's calls, since the cutover.
    pub after: CallStats,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(times_ms: &[u64], failed: u64) -> CallStats {
        let mut answers = CallStats {
            failed,
            ..CallStats::default()
        };
        for ms in times_ms {
            answers.took[CallStats::band(*ms)] += 1;
        }
        answers
    }

    #[test]
    fn p99_leaves_out_the_slowest_of_a_hundred() {
        assert_eq!(CallStats::default().p99_ms(), None);
        assert_eq!(answers(&[0], 0).p99_ms(), Some(1));
        assert_eq!(answers(&[3; 50], 0).p99_ms(), Some(4));
        let mut times = vec![3; 99];
        times.push(9_000);
        assert_eq!(answers(&times, 0).p99_ms(), Some(4));
        times.push(9_000);
        assert_eq!(answers(&times, 0).p99_ms(), Some(16_384));
        assert_eq!(answers(&[u64::MAX], 0).p99_ms(), Some(32_768));
    }

    #[test]
    fn differences_are_never_negative_after_a_restart() {
        let (early, late) = (answers(&[1, 2], 1), answers(&[1, 2, 2, 40], 3));
        let since = late.difference_from(&early);
        assert_eq!((since.calls(), since.failed), (4, 2));
        assert_eq!(since, answers(&[2, 40], 2));
        assert_eq!(early.difference_from(&late), early);
        assert!((since.failed_share() - 0.5).abs() < 1e-9);
        assert!(CallStats::default().failed_share().abs() < 1e-9);
    }
}
