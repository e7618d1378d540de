//! Random values that replay identically: derived from a seed and a counter.

use std::cell::Cell;
use std::rc::Rc;

use sha2::{Digest, Sha256};

/// The random generator of one evaluation. The n-th value is the SHA-256 of the seed
/// and n. Clones share the counter.
#[derive(Debug, Clone)]
pub(crate) struct SeededRandom {
    seed: u64,
    drawn: Rc<Cell<u64>>,
}

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            drawn: Rc::new(Cell::new(0)),
        }
    }

    /// The next sixteen bytes.
    pub(super) fn next_bytes(&self) -> [u8; 16] {
        let nth = self.drawn.get();
        self.drawn.set(nth.wrapping_add(1));
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(nth.to_le_bytes());
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes
    }

    /// A number from 0 to 1, exclusive.
    pub(crate) fn next_unit(&self) -> f64 {
        let bits = (u128::from_le_bytes(self.next_bytes()) >> 75) as u64;
        bits as f64 / (1u64 << 53) as f64
    }

    /// A number from 0 to `bound`, exclusive; 0 for a bound of 0.
    pub(crate) fn next_below(&self, bound: u64) -> u64 {
        // 128 random bits modulo at most 64 bits: the bias is negligible.
        (u128::from_le_bytes(self.next_bytes()) % u128::from(bound.max(1))) as u64
    }

    /// A UUID of version 4.
    pub(super) fn next_uuid(&self) -> String {
        let mut bytes = self.next_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

/// Derives a seed for one field.
pub(crate) fn seed_for(seed: u64, field: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(field.as_bytes());
    let digest = hash.finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(bytes)
}

/// Derives a seed from a number that the user passed as seed.
pub(super) fn seed_from_number(number: f64) -> u64 {
    seed_for(number.to_bits(), "seed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_within_an_evaluation_and_agree_between_two() {
        let (one, two) = (SeededRandom::new(7), SeededRandom::new(7));
        let first = one.next_uuid();
        assert_eq!(first, two.next_uuid());
        assert_ne!(first, one.next_uuid());
        assert_ne!(first, SeededRandom::new(8).next_uuid());
        assert_ne!(seed_for(7, "Parameters"), seed_for(7, "ResultSelector"));
    }

    #[test]
    fn a_uuid_is_of_version_4() {
        for seed in 0..64 {
            let uuid = SeededRandom::new(seed).next_uuid();
            assert_eq!(uuid.len(), 36);
            assert_eq!(&uuid[14..15], "4");
            assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
        }
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let chance = SeededRandom::new(1);
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&chance.next_unit()));
            assert!(chance.next_below(3) < 3);
        }
        assert_eq!(chance.next_below(0), 0);
    }
}
