//! The throttle of a copy: a limit on bytes per second, and a lower rate while the
//! copy slows one of the two shards down. Pure.
//!
//! A shard's commit latency is what its voters wait for. While it is more than twice
//! its usual value, each observation halves the copy's share of the time; otherwise
//! the share grows a little.

/// The smallest share of the time that a copy is slowed down to.
const SHARE_MIN: f64 = 0.1;
/// Latency above twice the usual that still counts as noise, in microseconds.
const NOISE_MICROS: u64 = 2_000;

/// The throttle of one copy.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyThrottle {
    bytes_per_second: Option<u64>,
    /// The share of the time that may be spent copying.
    share: f64,
    /// The usual commit latency of the source and of the target.
    usual_micros: [Option<f64>; 2],
    why: Option<String>,
}

/// One of the two shards of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyEnd {
    /// The shard that is copied from.
    Source,
    /// The shard that is copied to.
    Target,
}

impl CopyThrottle {
    /// Creates a throttle that copies at most this many bytes per second.
    #[must_use]
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second: bytes_per_second.filter(|bytes| *bytes > 0),
            share: 1.0,
            usual_micros: [None; 2],
            why: None,
        }
    }

    /// Adjusts the rate to the current commit latencies of the shards, in
    /// microseconds, where they are known.
    pub fn observe_latencies(&mut self, felt: &[(CopyEnd, Option<u64>)]) {
        let mut worst = None;
        for (end, micros) in felt {
            if let Some(micros) = micros {
                worst = self.observe_latency(*end, *micros).or(worst);
            }
        }
        match worst {
            Some(why) => {
                self.share = (self.share / 2.0).max(SHARE_MIN);
                self.why = Some(why);
            }
            None => {
                self.share = (self.share * 1.25).min(1.0);
                if self.share >= 1.0 {
                    self.why = None;
                }
            }
        }
    }

    /// Returns why the copy is too fast for this shard, if it is.
    fn observe_latency(&mut self, end: CopyEnd, micros: u64) -> Option<String> {
        #[allow(clippy::cast_precision_loss, reason = "it is an estimate")]
        let (felt, noise) = (micros as f64, NOISE_MICROS as f64);
        let (place, name) = match end {
            CopyEnd::Source => (0, "source"),
            CopyEnd::Target => (1, "target"),
        };
        let usual = self.usual_micros[place].get_or_insert(felt);
        if felt > 2.0 * *usual + noise {
            return Some(format!(
                "slowed down: a write on the {name} takes {:.1} ms instead of the usual {:.1} ms",
                felt / 1_000.0,
                *usual / 1_000.0
            ));
        }
        // The usual latency is a slow moving average that excludes slow samples, so
        // that the copy's own load does not raise it.
        *usual = *usual * 0.95 + felt * 0.05;
        None
    }

    /// Returns how long to wait after a page of this size that took this long, in
    /// microseconds.
    #[must_use]
    pub fn delay_micros(&self, bytes: u64, took_micros: u64) -> u64 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is an estimate"
        )]
        let by_share = (took_micros as f64 * (1.0 / self.share - 1.0)) as u64;
        let by_limit = self.bytes_per_second.map_or(0, |most| {
            let fair = bytes.saturating_mul(1_000_000) / most;
            fair.saturating_sub(took_micros)
        });
        by_share.max(by_limit)
    }

    /// Why the copy is slowed down, for operators.
    #[must_use]
    pub fn slowdown_reason(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept() {
        let throttle = CopyThrottle::new(Some(1_000_000));
        assert_eq!(throttle.delay_micros(1_000_000, 200_000), 800_000);
        assert_eq!(throttle.delay_micros(1_000, 200_000), 0);
        assert_eq!(CopyThrottle::new(None).delay_micros(1 << 30, 1), 0);
    }

    #[test]
    fn a_shard_that_suffers_is_spared_and_recovers() {
        for end in [CopyEnd::Source, CopyEnd::Target] {
            is_spared_and_recovers(end);
        }
    }

    fn is_spared_and_recovers(end: CopyEnd) {
        let mut throttle = CopyThrottle::new(None);
        let other = match end {
            CopyEnd::Source => CopyEnd::Target,
            CopyEnd::Target => CopyEnd::Source,
        };
        let feel = |throttle: &mut CopyThrottle, micros| {
            throttle.observe_latencies(&[(end, Some(micros)), (other, Some(500))]);
        };
        for _ in 0..10 {
            feel(&mut throttle, 1_000);
        }
        assert_eq!(throttle.delay_micros(1, 1_000), 0);
        assert_eq!(throttle.slowdown_reason(), None);
        feel(&mut throttle, 20_000);
        assert_eq!(throttle.delay_micros(1, 1_000), 1_000);
        assert!(throttle.slowdown_reason().is_some());
        for _ in 0..10 {
            feel(&mut throttle, 20_000);
        }
        assert_eq!(throttle.delay_micros(1, 1_000), 9_000, "never stopped");
        for _ in 0..20 {
            feel(&mut throttle, 1_000);
        }
        assert_eq!(throttle.delay_micros(1, 1_000), 0);
        assert_eq!(throttle.slowdown_reason(), None);
    }

    #[test]
    fn noise_does_not_count() {
        let mut throttle = CopyThrottle::new(None);
        for micros in [100, 1_500, 90, 2_000, 120] {
            throttle.observe_latencies(&[(CopyEnd::Source, Some(micros)), (CopyEnd::Target, None)]);
            assert_eq!(throttle.delay_micros(1, 1_000), 0, "{micros}");
        }
    }
}
