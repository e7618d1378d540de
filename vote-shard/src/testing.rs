//! A clock and a seed for this room's tests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ballast_domain::{Clock, Entropy, Timestamp};

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that says this.
    pub fn at(ms: i64) -> Self {
        Self(AtomicI64::new(ms))
    }

    /// Moves it on.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::AcqRel);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::Acquire))
    }
}

/// Bytes from a seed.
#[derive(Debug)]
pub struct Seed(pub AtomicU64);

impl Entropy for Seed {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::AcqRel);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *byte = (mixed ^ (mixed >> 27)) as u8;
        }
    }
}
