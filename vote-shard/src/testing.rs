//! A manual clock and seeded entropy for tests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ballast_domain::{Clock, Entropy, Timestamp};

/// A clock that changes only through [`SteppedClock::advance`].
#[derive(Debug)]
pub struct SteppedClock(AtomicI64);

impl SteppedClock {
    /// A clock that shows `ms`, in Unix milliseconds.
    pub fn new(ms: i64) -> Self {
        Self(AtomicI64::new(ms))
    }

    /// Advances the clock.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::AcqRel);
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::Acquire))
    }
}

/// Deterministic bytes from a seed.
#[derive(Debug)]
pub struct SeedEntropy(pub AtomicU64);

impl Entropy for SeedEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::AcqRel);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *byte = (mixed ^ (mixed >> 27)) as u8;
        }
    }
}
