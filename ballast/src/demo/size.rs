//! The vote rates, and the rated capacity of a shard. Everything is a share of one number, so that
//! the story is the same on fast and slow machines: the shard with the favourites is at a third of
//! its capacity, the crowd alone adds three fifths, and any other shard has room for the crowd.

use std::time::Duration;

/// A debug build handles a tenth.
const SPEED: u64 = if cfg!(debug_assertions) { 1 } else { 10 };

/// Votes per second that a shard is rated at. Its real capacity is far higher; no laptop could make
/// it hot.
pub(super) const SHARD_VOTES: u64 = 100 * SPEED;
/// Votes per second of the steady voters, on all shards together.
pub(super) const PEOPLE_VOTES: u64 = 60 * SPEED;
/// Percentage of them for the favourites, which are on one shard.
pub(super) const FAVOURITES_PERCENT: u64 = 40;
/// Votes per second of the flash crowd.
pub(super) const CROWD_VOTES: u64 = 60 * SPEED;
/// Bytes per second that a migration may copy: slow enough to watch, and faster than the crowd
/// votes.
pub(super) const COPY_BYTES: u64 = 6_144 * SPEED;

/// The interval of one of `many` voters that make `votes` per second together.
pub(super) fn beat(many: usize, votes: u64) -> Duration {
    let micros = many as u64 * 1_000_000 / votes.max(1);
    Duration::from_micros(micros.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crowd_is_too_much_beside_the_favourites_and_bearable_elsewhere() {
        let favourites = PEOPLE_VOTES * FAVOURITES_PERCENT / 100;
        let others = (PEOPLE_VOTES - favourites) / 6;
        let hot = favourites + others + CROWD_VOTES;
        // As the rules and limits of the demonstration's configuration say.
        assert!(hot * 100 > SHARD_VOTES * 85, "{hot}");
        assert!((CROWD_VOTES + others) * 100 < SHARD_VOTES * 70);
        assert!((favourites + others) * 100 < SHARD_VOTES * 60);
        assert_eq!(beat(24, 60), Duration::from_millis(400));
    }
}
