//! How fast a copy may be: a limit on bytes per second, and less while one of
//! the two shards is slower than it was without it. Pure.
//!
//! A shard's own latency is what its voters feel. While it is more than twice
//! what is usual there, the copy takes half as much; while it is not, a little
//! more each time.

/// The copy rests at most so much of the time when a shard suffers: nine
/// tenths.
const SHARE_MIN: f64 = 0.1;
/// What a shard may be slowed by before that is counted, in microseconds.
const NOISE_MICROS: u64 = 2_000;

/// How fast a copy may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttle {
    bytes_per_second: Option<u64>,
    /// The share of the time that may be spent copying.
    share: f64,
    /// The usual latency of the source and of the target.
    usual_micros: [Option<f64>; 2],
    why: Option<String>,
}

/// Which of the two shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The one that is copied from.
    Source,
    /// The one that is copied to.
    Target,
}

impl Throttle {
    /// At most so many bytes per second.
    #[must_use]
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second: bytes_per_second.filter(|bytes| *bytes > 0),
            share: 1.0,
            usual_micros: [None; 2],
            why: None,
        }
    }

    /// Takes note of how long the shards take for a write right now, those of
    /// them that say so.
    pub fn feel(&mut self, felt: &[(End, Option<u64>)]) {
        let mut worst = None;
        for (end, micros) in felt {
            if let Some(micros) = micros {
                worst = self.feel_one(*end, *micros).or(worst);
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

    /// Why the copy is too much for one of them, if it is.
    fn feel_one(&mut self, end: End, micros: u64) -> Option<String> {
        #[allow(clippy::cast_precision_loss, reason = "it is an estimate")]
        let (felt, noise) = (micros as f64, NOISE_MICROS as f64);
        let (place, name) = match end {
            End::Source => (0, "source"),
            End::Target => (1, "target"),
        };
        let usual = self.usual_micros[place].get_or_insert(felt);
        if felt > 2.0 * *usual + noise {
            return Some(format!(
                "slowed down: a write on the {name} takes {:.1} ms, {:.1} ms are usual",
                felt / 1_000.0,
                *usual / 1_000.0
            ));
        }
        // What is usual changes slowly, and is never what we made of it.
        *usual = *usual * 0.95 + felt * 0.05;
        None
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
    fn a_shard_that_suffers_is_spared_and_recovers() {
        for end in [End::Source, End::Target] {
            is_spared_and_recovers(end);
        }
    }

    fn is_spared_and_recovers(end: End) {
        let mut throttle = Throttle::new(None);
        let other = match end {
            End::Source => End::Target,
            End::Target => End::Source,
        };
        let feel = |throttle: &mut Throttle, micros| {
            throttle.feel(&[(end, Some(micros)), (other, Some(500))]);
        };
        for _ in 0..10 {
            feel(&mut throttle, 1_000);
        }
        assert_eq!(throttle.rest_micros(1, 1_000), 0);
        assert_eq!(throttle.why(), None);
        feel(&mut throttle, 20_000);
        assert_eq!(throttle.rest_micros(1, 1_000), 1_000);
        assert!(throttle.why().is_some());
        for _ in 0..10 {
            feel(&mut throttle, 20_000);
        }
        assert_eq!(throttle.rest_micros(1, 1_000), 9_000, "never stopped");
        for _ in 0..20 {
            feel(&mut throttle, 1_000);
        }
        assert_eq!(throttle.rest_micros(1, 1_000), 0);
        assert_eq!(throttle.why(), None);
    }

    #[test]
    fn noise_does_not_count() {
        let mut throttle = Throttle::new(None);
        for micros in [100, 1_500, 90, 2_000, 120] {
            throttle.feel(&[(End::Source, Some(micros)), (End::Target, None)]);
            assert_eq!(throttle.rest_micros(1, 1_000), 0, "{micros}");
        }
    }
}
