//! How fast a copy may be: a limit on bytes per second, and less while the
//! source is slower than it was without it. Pure.
//!
//! The source's own latency is what its voters feel. While it is more than
//! twice what is usual there, the copy takes half as much; while it is not, a
//! little more each time.

/// The copy rests at least so much of the time when the source suffers: nine
/// tenths.
const SHARE_MIN: f64 = 0.1;
/// What the source may be slowed by before that is counted, in microseconds.
const NOISE_MICROS: u64 = 2_000;

/// How fast a copy may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttle {
    bytes_per_second: Option<u64>,
    /// The share of the time that may be spent copying.
    share: f64,
    /// The usual latency of the source.
    usual_micros: Option<f64>,
    why: Option<String>,
}

impl Throttle {
    /// At most so many bytes per second.
    #[must_use]
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second: bytes_per_second.filter(|bytes| *bytes > 0),
            share: 1.0,
            usual_micros: None,
            why: None,
        }
    }

    /// Takes note of how long the source takes for a write right now.
    pub fn feel(&mut self, micros: u64) {
        #[allow(clippy::cast_precision_loss, reason = "it is an estimate")]
        let felt = micros as f64;
        let usual = *self.usual_micros.get_or_insert(felt);
        #[allow(clippy::cast_precision_loss, reason = "it is an estimate")]
        let noise = NOISE_MICROS as f64;
        if felt > 2.0 * usual + noise {
            self.share = (self.share / 2.0).max(SHARE_MIN);
            self.why = Some(format!(
                "slowed down: a write on the source takes {:.1} ms, {:.1} ms are usual",
                felt / 1_000.0,
                usual / 1_000.0
            ));
        } else {
            self.share = (self.share * 1.25).min(1.0);
            if self.share >= 1.0 {
                self.why = None;
            }
            // What is usual changes slowly, and is never what we made of it.
            self.usual_micros = Some(usual * 0.95 + felt * 0.05);
        }
    }

    /// How long to rest after a page of so many bytes that took so long, in
    /// microseconds.
    #[must_use]
    pub fn rest_micros(&self, bytes: u64, took_micros: u64) -> u64 {
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

    /// Why it is slower than it could be, for people.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept() {
        let throttle = Throttle::new(Some(1_000_000));
        assert_eq!(throttle.rest_micros(1_000_000, 200_000), 800_000);
        assert_eq!(throttle.rest_micros(1_000, 200_000), 0);
        assert_eq!(Throttle::new(None).rest_micros(1 << 30, 1), 0);
    }

    #[test]
    fn a_source_that_suffers_is_spared_and_recovers() {
        let mut throttle = Throttle::new(None);
        for _ in 0..10 {
            throttle.feel(1_000);
        }
        assert_eq!(throttle.rest_micros(1, 1_000), 0);
        assert_eq!(throttle.why(), None);
        throttle.feel(20_000);
        assert_eq!(throttle.rest_micros(1, 1_000), 1_000);
        assert!(throttle.why().is_some());
        for _ in 0..10 {
            throttle.feel(20_000);
        }
        assert_eq!(throttle.rest_micros(1, 1_000), 9_000, "never stopped");
        for _ in 0..20 {
            throttle.feel(1_000);
        }
        assert_eq!(throttle.rest_micros(1, 1_000), 0);
        assert_eq!(throttle.why(), None);
    }

    #[test]
    fn noise_does_not_count() {
        let mut throttle = Throttle::new(None);
        for micros in [100, 1_500, 90, 2_000, 120] {
            throttle.feel(micros);
            assert_eq!(throttle.rest_micros(1, 1_000), 0, "{micros}");
        }
    }
}
