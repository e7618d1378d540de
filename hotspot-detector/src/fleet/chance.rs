//! Randomness as a function of the seed, a purpose and a number, so that nothing has to be
//! drawn in order.

/// Purposes: a tenant draws independently for each.
pub(super) const REGION: u64 = 1;
pub(super) const ZONE: u64 = 2;
pub(super) const WHICH_ZONE: u64 = 3;
pub(super) const TRAVELS: u64 = 4;
pub(super) const DIAL: u64 = 5;
pub(super) const HEAVY: u64 = 6;
pub(super) const RANK: u64 = 7;
pub(super) const MIX: u64 = 8;
pub(super) const HOUR: u64 = 9;
pub(super) const NOISE: u64 = 10;
pub(super) const PHASE: u64 = 11;

#[derive(Debug, Clone, Copy)]
pub(super) struct SeededHash {
    seed: u64,
}

impl SeededHash {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: mix(seed) }
    }

    pub(super) fn bits(&self, purpose: u64, number: u64) -> u64 {
        mix(self.seed ^ mix(purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(number)))
    }

    /// A number in [0, 1).
    pub(super) fn share(&self, purpose: u64, number: u64) -> f64 {
        (self.bits(purpose, number) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `count`, which is at least one.
    pub(super) fn below(&self, purpose: u64, number: u64, count: usize) -> usize {
        (self.share(purpose, number) * count as f64) as usize
    }
}

/// The finaliser of SplitMix64, after a step of its counter.
fn mix(x: u64) -> u64 {
    let mut x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
