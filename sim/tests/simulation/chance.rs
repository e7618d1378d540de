//! Chance: everything that is left to it in a world comes from one seed.

use std::cell::Cell;
use std::time::Duration;

use ballast_domain::Entropy;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Begins anew from a seed.
pub(crate) fn begin(seed: u64) {
    STATE.set(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
}

/// Any number.
pub(crate) fn draw() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number below `most`.
pub(crate) fn below(most: u64) -> u64 {
    draw() % most.max(1)
}

/// A number from `least` to `most`.
pub(crate) fn within(least: u64, most: u64) -> u64 {
    least + below(most - least + 1)
}

/// True so many times in a thousand.
pub(crate) fn happens(per_mille: u64) -> bool {
    below(1_000) < per_mille
}

/// One of several.
pub(crate) fn one_of<T>(all: &[T]) -> &T {
    &all[below(all.len() as u64) as usize]
}

/// So many milliseconds.
pub(crate) fn ms(least: u64, most: u64) -> Duration {
    Duration::from_millis(within(least, most))
}

/// The same as a source of bytes for the product.
pub(crate) struct Drawn;

impl Entropy for Drawn {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = draw() as u8;
        }
    }
}
