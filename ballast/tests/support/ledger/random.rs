//! Repeatable random numbers: every random decision of a run comes from one seed. The scheduling
//! of threads does not.

use crate::support::in_ms;

/// A pseudorandom number generator (SplitMix64).
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// The seed of this run: `BALLAST_LEDGER_SEED`, or a new one.
    pub fn seed() -> u64 {
        let given = std::env::var("BALLAST_LEDGER_SEED").ok();
        match given {
            Some(text) => text.parse().expect("BALLAST_LEDGER_SEED must be a number"),
            None => in_ms(0).unix_ms().unsigned_abs() ^ u64::from(std::process::id()) << 40,
        }
    }

    /// A generator for one purpose, derived from a seed.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut mixed = Self(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        mixed.number();
        mixed
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).unwrap()
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Shuffles a list.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}
