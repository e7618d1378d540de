//! The system clock and random numbers: the only place that reads them.

use std::sync::OnceLock;

use ballast_domain::{Clock, Entropy, Timestamp};

/// The operating system's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.as_millis());
        Timestamp::from_unix_ms(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    fn micros(&self) -> u64 {
        static BEGAN: OnceLock<std::time::Instant> = OnceLock::new();
        let elapsed = BEGAN.get_or_init(stopwatch).elapsed();
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }
}

/// The operating system's random numbers.
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[allow(clippy::disallowed_methods, reason = "this is where chance is drawn")]
    #[allow(clippy::panic, reason = "a secret without randomness must not be made")]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system has no random numbers: {error}");
        }
    }
}

/// A stopwatch, for latencies.
#[allow(clippy::disallowed_methods, reason = "this is where time is measured")]
pub(crate) fn stopwatch() -> std::time::Instant {
    std::time::Instant::now()
}
