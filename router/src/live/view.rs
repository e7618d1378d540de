//! The live view: the current counts of polls, kept outside of the shards so that
//! reading results does not slow down voting.
//!
//! Counts are absolute, so a missed update is corrected by the next one. Of two
//! updates the view keeps the newer one, by the shard's mark. A total that was shown is
//! never followed by a smaller one, unless votes were withdrawn.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, ShardId, Timestamp};
use ballast_vote_shard::Tally;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// The most memory for the counts of polls.
const BYTES_MAX: u64 = 64 << 20;
/// The expected number of polls.
const POLLS_EXPECTED: usize = 10_000;

/// A poll at a shard. When the poll moves, its counts are read again from the new
/// shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PollAtShard {
    /// The shard.
    pub shard: ShardId,
    /// The slice.
    pub slice: SliceId,
    /// The poll.
    pub poll: PollId,
}

/// The counts of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollCounts {
    /// Votes per item, in the poll's order.
    pub counts: Vec<u64>,
    /// Voters who have chosen something.
    pub voters: u64,
    /// When the poll closed. From then on nothing changes.
    pub closed_at: Option<Timestamp>,
    /// The time of these counts.
    pub as_of: Timestamp,
    /// Their version.
    pub version: CountsVersion,
    /// The highest mark of the shard at which they were valid.
    newest: u64,
}

/// Grows whenever a poll's counts change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountsVersion {
    mark: u64,
    /// Within a mark: `WHOLE` for all its changes, less for some of them.
    part: u8,
}

/// The part number for all changes of a mark.
const WHOLE: u8 = u8::MAX;

impl CountsVersion {
    /// A number that grows with every change, also when the poll moves: the epoch, then
    /// 40 bits for the mark, then 8 bits for the part. A shard that syncs a thousand
    /// times a second uses up 40 bits of marks in 35 years. A restore raises epochs by
    /// tens of millions, so the number needs more than 64 bits. It fits 126 bits, which
    /// leaves two for the caller. Clients treat it as a text.
    pub fn number(self, epoch: Epoch) -> u128 {
        let moves = epoch.0.saturating_sub(Epoch::FIRST.0);
        (u128::from(moves) << 48) + (u128::from(self.mark) << 8) + u128::from(self.part)
    }
}

/// The origin of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountsOrigin {
    /// From the shard's feed: all changes of the mark.
    Feed,
    /// Read directly: more changes of the same mark may follow.
    Read,
}

/// Stores counts. Reading must be cheap.
#[async_trait]
pub trait LiveView: Send + Sync + 'static {
    /// Stores a poll's counts as of `at`, unless newer ones are stored. Returns the
    /// newest counts.
    async fn update(
        &self,
        shard: &ShardId,
        tally: Tally,
        origin: CountsOrigin,
        at: Timestamp,
    ) -> Arc<PollCounts>;

    /// A poll's counts, if they are stored.
    async fn counts(&self, subject: &PollAtShard) -> Option<Arc<PollCounts>>;
}

/// Decides which of two counts to keep. Pure.
fn merge_counts(
    known: Option<&PollCounts>,
    tally: Tally,
    origin: CountsOrigin,
    at: Timestamp,
) -> PollCounts {
    let Some(known) = known else {
        let part = match origin {
            CountsOrigin::Feed => WHOLE,
            CountsOrigin::Read => 0,
        };
        return new_counts(tally, part, at);
    };
    let same = known.counts == tally.counts
        && known.voters == tally.voters
        && known.closed_at == tally.closed_at;
    let newer = match origin {
        _ if tally.mark != known.newest => tally.mark > known.newest,
        CountsOrigin::Feed => true,
        // Concurrent readers may return in any order; the higher total is later.
        CountsOrigin::Read => {
            known.version.part != WHOLE && tally.total() > known.counts.iter().sum::<u64>()
        }
    };
    let as_of = at.max(known.as_of);
    if same || !newer {
        // The known counts were valid at least until then.
        return PollCounts {
            as_of,
            newest: known.newest.max(tally.mark),
            ..known.clone()
        };
    }
    let part = match origin {
        CountsOrigin::Feed => WHOLE,
        CountsOrigin::Read if known.version.mark == tally.mark => {
            known.version.part.saturating_add(1).min(WHOLE - 1)
        }
        CountsOrigin::Read => 0,
    };
    new_counts(tally, part, as_of)
}

fn new_counts(tally: Tally, part: u8, as_of: Timestamp) -> PollCounts {
    PollCounts {
        version: CountsVersion {
            mark: tally.mark,
            part,
        },
        newest: tally.mark,
        counts: tally.counts,
        voters: tally.voters,
        closed_at: tally.closed_at,
        as_of,
    }
}

/// A bounded view in this process's memory. Counts that are not in it are read from
/// the shard.
pub struct MemoryView {
    entries: Cache<PollAtShard, Arc<PollCounts>, CountsWeigher>,
    /// Locked while counts are compared and stored.
    writing: Mutex<()>,
}

#[derive(Clone)]
struct CountsWeigher;

impl Weighter<PollAtShard, Arc<PollCounts>> for CountsWeigher {
    fn weight(&self, _: &PollAtShard, counts: &Arc<PollCounts>) -> u64 {
        200 + 8 * counts.counts.len() as u64
    }
}

impl Default for MemoryView {
    fn default() -> Self {
        Self {
            entries: Cache::with_weighter(POLLS_EXPECTED, BYTES_MAX, CountsWeigher),
            writing: Mutex::default(),
        }
    }
}

#[async_trait]
impl LiveView for MemoryView {
    async fn update(
        &self,
        shard: &ShardId,
        tally: Tally,
        origin: CountsOrigin,
        at: Timestamp,
    ) -> Arc<PollCounts> {
        let subject = PollAtShard {
            shard: shard.clone(),
            slice: tally.slice.clone(),
            poll: tally.poll,
        };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.entries.peek(&subject);
        let counts = Arc::new(merge_counts(known.as_deref(), tally, origin, at));
        self.entries.insert(subject, counts.clone());
        counts
    }

    async fn counts(&self, subject: &PollAtShard) -> Option<Arc<PollCounts>> {
        self.entries.get(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(mark: u64, counts: [u64; 2]) -> Tally {
        Tally {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            poll: PollId::from_number(1),
            counts: counts.to_vec(),
            voters: counts.iter().sum(),
            closed_at: None,
            mark,
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    #[tokio::test]
    async fn the_newer_counts_stay_whatever_comes_last() {
        let view = MemoryView::default();
        let shard: ShardId = "shard-1".parse().unwrap();
        let update = async |mark, counts, origin, ms| {
            let counts = view
                .update(&shard, tally(mark, counts), origin, at(ms))
                .await;
            (counts.counts.clone(), counts.as_of)
        };
        let one = update(5, [1, 0], CountsOrigin::Read, 10).await;
        assert_eq!(one, (vec![1, 0], at(10)));
        // The rest of the same mark.
        let two = update(5, [2, 1], CountsOrigin::Feed, 20).await;
        assert_eq!(two, (vec![2, 1], at(20)));
        // A reader that was slow: it only proves that nothing was missed.
        let three = update(5, [1, 1], CountsOrigin::Read, 30).await;
        assert_eq!(three, (vec![2, 1], at(30)));
        let four = update(4, [0, 0], CountsOrigin::Feed, 5).await;
        assert_eq!(four, (vec![2, 1], at(30)));
        let five = update(6, [2, 0], CountsOrigin::Feed, 40).await;
        assert_eq!(five.0, [2, 0], "a vote was withdrawn");
    }

    #[test]
    fn equal_counts_keep_their_version() {
        let known = merge_counts(None, tally(5, [1, 0]), CountsOrigin::Feed, at(1));
        let again = merge_counts(Some(&known), tally(9, [1, 0]), CountsOrigin::Feed, at(2));
        assert_eq!(again.version, known.version);
        assert_eq!(again.as_of, at(2));
        let late = merge_counts(Some(&again), tally(7, [0, 0]), CountsOrigin::Feed, at(3));
        assert_eq!(late.counts, [1, 0], "9 was seen already");
    }

    #[test]
    fn versions_grow_with_the_epoch_too() {
        let high = CountsVersion {
            mark: (1 << 40) - 1,
            part: WHOLE,
        };
        let low = CountsVersion { mark: 0, part: 0 };
        assert!(low.number(Epoch(2)) > high.number(Epoch(1)));
        // As after a restore, and as high as an epoch can be.
        let restored = (1 << 20) + 40_000_000;
        assert!(low.number(Epoch(restored)) > high.number(Epoch(restored - 1)));
        assert!(low.number(Epoch(restored)) > u64::MAX.into());
        assert!(high.number(Epoch(u64::MAX)) < 1 << 126);
    }

    proptest! {
        /// A shard that only counts up, in groups; readers see any moment and
        /// come back in any order, the feed sees groups in order.
        #[test]
        fn a_total_never_falls_and_a_version_is_of_one_content(
            groups in proptest::collection::vec(1..5_u64, 1..12),
            reads in proptest::collection::vec((0..40_u64, 0..12_usize), 0..20),
        ) {
            let mut known: Option<PollCounts> = None;
            let mut contents = std::collections::HashMap::new();
            let (mut total, mut moments) = (0, Vec::new());
            let mut feed = Vec::new();
            for (mark, votes) in (1..).zip(&groups) {
                for _ in 0..*votes {
                    total += 1;
                    moments.push((mark, total));
                }
                feed.push((mark, total));
            }
            for (step, (mark, counted)) in feed.into_iter().enumerate() {
                let readers = reads.iter().filter(|(_, after)| *after == step);
                let seen = readers.filter_map(|(moment, _)| moments.get(*moment as usize));
                // A reader cannot be ahead of the group that is under way.
                let mut taken: Vec<_> = seen
                    .filter(|(of, _)| *of <= mark)
                    .map(|(of, total)| (*of, *total, CountsOrigin::Read))
                    .collect();
                taken.push((mark, counted, CountsOrigin::Feed));
                for (mark, total, origin) in taken {
                    let before = known.as_ref().map_or(0, |known| known.voters);
                    let next = merge_counts(known.as_ref(), tally(mark, [total, 0]), origin, at(0));
                    prop_assert!(next.voters >= before);
                    let content = contents.entry((next.version.mark, next.version.part));
                    prop_assert_eq!(*content.or_insert(next.voters), next.voters);
                    known = Some(next);
                }
                prop_assert!(known.as_ref().is_some_and(|known| known.voters >= counted));
            }
        }
    }
}
