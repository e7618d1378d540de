//! How a shard answers the calls for a slice: how many, how many failed, how
//! long they took. What a move is judged by once its slice is elsewhere.

/// How calls were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallStats {
    /// Those that the shard answered, by how long it took.
    pub took: [u64; CallStats::BANDS],
    /// Those that it did not: away, or too slow.
    pub failed: u64,
}

impl CallStats {
    /// Calls are sorted by how long they took: less than 1, 2, 4 …
    /// milliseconds, and the last ones however long.
    pub const BANDS: usize = 16;

    /// Which band a call belongs to that took so long.
    #[must_use]
    pub fn band(took_ms: u64) -> usize {
        let band = u64::BITS - took_ms.leading_zeros();
        (band as usize).min(Self::BANDS - 1)
    }

    /// All calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.took.iter().sum::<u64>() + self.failed
    }

    /// What came since an earlier look. A count that fell began anew.
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

    /// Ninety-nine in a hundred of those that were answered took less than
    /// this, in milliseconds; nothing when there were none.
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

/// How a slice's calls were answered around a cutover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutoverCallStats {
    /// By the source, while it was copied.
    pub before: CallStats,
    /// By the target, since then.
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
    fn the_slowest_of_a_hundred_is_what_p99_leaves_out() {
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
    fn what_came_since_is_told_and_a_restart_is_no_minus() {
        let (early, late) = (answers(&[1, 2], 1), answers(&[1, 2, 2, 40], 3));
        let since = late.difference_from(&early);
        assert_eq!((since.calls(), since.failed), (4, 2));
        assert_eq!(since, answers(&[2, 40], 2));
        assert_eq!(early.difference_from(&late), early);
        assert!((since.failed_share() - 0.5).abs() < 1e-9);
        assert!(CallStats::default().failed_share().abs() < 1e-9);
    }
}
