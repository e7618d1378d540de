//! Random numbers: all randomness of a world comes from one seed.

use std::cell::Cell;
use std::time::Duration;

use ballast_domain::Entropy;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Sets the seed.
pub(crate) fn begin(seed: u64) {
    STATE.set(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
}

/// Draws a number.
pub(crate) fn draw() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Draws a number below `most`.
pub(crate) fn below(most: u64) -> u64 {
    draw() % most.max(1)
}

/// Draws a number from `least` to `most`.
pub(crate) fn within(least: u64, most: u64) -> u64 {
    least + below(most - least + 1)
}

/// Returns true with this probability, per mille.
pub(crate) fn happens(per_mille: u64) -> bool {
    below(1_000) < per_mille
}

/// Picks an element.
pub(crate) fn pick<T>(all: &[T]) -> &T {
    &all[below(all.len() as u64) as usize]
}

/// Draws a number of milliseconds.
pub(crate) fn ms(least: u64, most: u64) -> Duration {
    Duration::from_millis(within(least, most))
}

/// The seeded randomness for the product.
pub(crate) struct SeededEntropy;

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = draw() as u8;
        }
    }
}
