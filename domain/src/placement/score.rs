//! Draws and scores of rendezvous hashing.
//!
//! The name of the slice is hashed once, and the name of each shard when the fleet is built.
//! A draw mixes these two 64-bit numbers, so a placement costs a few nanoseconds per shard,
//! whatever the length of the names.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::id::{ShardId, TenantId};

/// The seeds are part of the format: changing one would move every tenant.
const SLICE_SEED: u64 = 0x0062_616c_6c61_7374;
const SHARD_SEED: u64 = 0x7368_6172_6400_0001;

/// The hash of a slice's name.
pub fn slice_hash(tenant: &TenantId, slice: u32) -> u64 {
    // The number is mixed in separately, so that no two pairs of name and number give the
    // same input.
    let name = xxh3_64_with_seed(tenant.as_str().as_bytes(), SLICE_SEED);
    if slice == 0 {
        name
    } else {
        mix(name ^ mix(u64::from(slice)))
    }
}

pub(super) fn shard_hash(shard: &ShardId) -> u64 {
    xxh3_64_with_seed(shard.as_str().as_bytes(), SHARD_SEED)
}

/// A number in (0, 1) that depends only on the slice and the shard.
pub fn draw(slice: u64, shard: u64) -> f64 {
    let bits = mix(slice ^ shard) >> 11;
    // Half a step up: never 0, never 1, so its logarithm is finite and < 0.
    (bits as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

/// The weighted score of a draw: `weight / -ln(draw)`. Each shard has the highest score with
/// a probability in proportion to its weight.
pub fn score(weight: f64, draw: f64) -> f64 {
    weight / -draw.ln()
}

/// Whether the score of this weight and draw might exceed `best`. This is cheap and never
/// wrongly false: `-ln(x) ≥ 1 - x`, so `weight / (1 - draw)` is an upper bound of the score.
/// It avoids the logarithm for most shards.
pub(super) fn might_exceed(weight: f64, draw: f64, best: f64) -> bool {
    weight > best * (1.0 - draw)
}

/// The finaliser of SplitMix64: every input bit changes every output bit.
fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draw_is_pinned() {
        // Golden values: were they to change, an upgrade would move tenants.
        let slice = slice_hash(&"acme".parse().unwrap(), 0);
        let shard = shard_hash(&"shard-1".parse().unwrap());
        assert_eq!(
            format!("{slice:016x} {shard:016x}"),
            "4ffeef0b7bf09ef8 76f87ec743e19340"
        );
        assert_eq!(format!("{:.12}", draw(slice, shard)), "0.669047213021");
    }

    #[test]
    fn the_bound_never_rules_out_a_winner() {
        for step in 1..10_000 {
            let draw = f64::from(step) / 10_000.0;
            let exact = score(2.0, draw);
            assert!(might_exceed(2.0, draw, exact * (1.0 - 1e-12)), "{draw}");
        }
    }
}
