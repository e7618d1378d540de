//! The live view: how the counts of polls stand, kept outside of the shards so
//! that those who look do not disturb those who vote.
//!
//! Counts are absolute, so the view heals by itself: whatever it missed, the
//! next counts are whole. Of two it keeps the newer, by the shard's mark; a
//! total that was shown is never followed by a smaller one, unless votes were
//! withdrawn.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, ShardId, Timestamp};
use ballast_vote_shard::Tally;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Memory that the counts of polls may take.
const BYTES_MAX: u64 = 64 << 20;
/// Polls that are expected to be in it.
const POLLS_EXPECTED: usize = 10_000;

/// A poll at a shard. When the poll moves, its counts are taken anew from the
/// shard it moved to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The shard.
    pub shard: ShardId,
    /// The slice.
    pub slice: SliceId,
    /// The poll.
    pub poll: PollId,
}

/// How a poll's counts stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Votes per item, in the poll's order.
    pub counts: Vec<u64>,
    /// Voters who have chosen something.
    pub voters: u64,
    /// When the poll closed. From then on nothing changes.
    pub closed_at: Option<Timestamp>,
    /// When that was so.
    pub as_of: Timestamp,
    /// Which counts these are.
    pub version: Version,
    /// The highest mark of the shard at which they were so.
    newest: u64,
}

/// Grows whenever a poll's counts change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    mark: u64,
    /// Within a mark: all that it brought, or a part of it.
    part: u8,
}

/// All that a mark brought.
const WHOLE: u8 = u8::MAX;

impl Version {
    /// A number that grows with every change, also when the poll moves: the
    /// epoch, then 40 bits of marks, which a shard that syncs a thousand times
    /// a second needs 35 years for, then 8 of parts. A restore raises epochs by
    /// tens of millions, so it does not fit 64 bits; with two more bits behind
    /// it, it fits 128 whatever the epoch. Clients take it for a text.
    pub fn number(self, epoch: Epoch) -> u128 {
        let moves = epoch.0.saturating_sub(Epoch::FIRST.0);
        (u128::from(moves) << 48) + (u128::from(self.mark) << 8) + u128::from(self.part)
    }
}

/// Where counts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the shard's feed: all that the mark brought.
    Feed,
    /// Read by itself: more may follow under the same mark.
    Read,
}

/// Keeps counts. Reading from it must be cheap.
#[async_trait]
pub trait LiveView: Send + Sync + 'static {
    /// Takes a poll's counts as they were at `at`, unless newer ones are
    /// known, and says how they stand now.
    async fn take(
        &self,
        shard: &ShardId,
        tally: Tally,
        origin: Origin,
        at: Timestamp,
    ) -> Arc<Standing>;

    /// How a poll's counts stand, if that is known.
    async fn standing(&self, subject: &Subject) -> Option<Arc<Standing>>;
}

/// Which of two counts are to be kept: the decision, pure.
fn merged(known: Option<&Standing>, tally: Tally, origin: Origin, at: Timestamp) -> Standing {
    let Some(known) = known else {
        let part = match origin {
            Origin::Feed => WHOLE,
            Origin::Read => 0,
        };
        return fresh(tally, part, at);
    };
    let same = known.counts == tally.counts
        && known.voters == tally.voters
        && known.closed_at == tally.closed_at;
    let newer = match origin {
        _ if tally.mark != known.newest => tally.mark > known.newest,
        Origin::Feed => true,
        // Two readers may come back in any order; what has more is later.
        Origin::Read => {
            known.version.part != WHOLE && tally.total() > known.counts.iter().sum::<u64>()
        }
    };
    let as_of = at.max(known.as_of);
    if same || !newer {
        // What is known was so at least until the older counts were taken.
        return Standing {
            as_of,
            newest: known.newest.max(tally.mark),
            ..known.clone()
        };
    }
    let part = match origin {
        Origin::Feed => WHOLE,
        Origin::Read if known.version.mark == tally.mark => {
            known.version.part.saturating_add(1).min(WHOLE - 1)
        }
        Origin::Read => 0,
    };
    fresh(tally, part, as_of)
}

fn fresh(tally: Tally, part: u8, as_of: Timestamp) -> Standing {
    Standing {
        version: Version {
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

/// The view in this process's memory, bounded; what is not in it is read from
/// the shard.
pub struct MemoryView {
    standings: Cache<Subject, Arc<Standing>, Size>,
    /// Held while counts are compared and put in place.
    writing: Mutex<()>,
}

#[derive(Clone)]
struct Size;

impl Weighter<Subject, Arc<Standing>> for Size {
    fn weight(&self, _: &Subject, standing: &Arc<Standing>) -> u64 {
        200 + 8 * standing.counts.len() as u64
    }
}

impl Default for MemoryView {
    fn default() -> Self {
        Self {
            standings: Cache::with_weighter(POLLS_EXPECTED, BYTES_MAX, Size),
            writing: Mutex::default(),
        }
    }
}

#[async_trait]
impl LiveView for MemoryView {
    async fn take(
        &self,
        shard: &ShardId,
        tally: Tally,
        origin: Origin,
        at: Timestamp,
    ) -> Arc<Standing> {
        let subject = Subject {
            shard: shard.clone(),
            slice: tally.slice.clone(),
            poll: tally.poll,
        };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.standings.peek(&subject);
        let standing = Arc::new(merged(known.as_deref(), tally, origin, at));
        self.standings.insert(subject, standing.clone());
        standing
    }

    async fn standing(&self, subject: &Subject) -> Option<Arc<Standing>> {
        self.standings.get(subject)
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
        let take = async |mark, counts, origin, ms| {
            let standing = view.take(&shard, tally(mark, counts), origin, at(ms)).await;
            (standing.counts.clone(), standing.as_of)
        };
        let one = take(5, [1, 0], Origin::Read, 10).await;
        assert_eq!(one, (vec![1, 0], at(10)));
        // The rest of the same mark.
        let two = take(5, [2, 1], Origin::Feed, 20).await;
        assert_eq!(two, (vec![2, 1], at(20)));
        // A reader that was slow: it only proves that nothing was missed.
        let three = take(5, [1, 1], Origin::Read, 30).await;
        assert_eq!(three, (vec![2, 1], at(30)));
        let four = take(4, [0, 0], Origin::Feed, 5).await;
        assert_eq!(four, (vec![2, 1], at(30)));
        let five = take(6, [2, 0], Origin::Feed, 40).await;
        assert_eq!(five.0, [2, 0], "a vote was withdrawn");
    }

    #[test]
    fn equal_counts_keep_their_version() {
        let known = merged(None, tally(5, [1, 0]), Origin::Feed, at(1));
        let again = merged(Some(&known), tally(9, [1, 0]), Origin::Feed, at(2));
        assert_eq!(again.version, known.version);
        assert_eq!(again.as_of, at(2));
        let late = merged(Some(&again), tally(7, [0, 0]), Origin::Feed, at(3));
        assert_eq!(late.counts, [1, 0], "9 was seen already");
    }

    #[test]
    fn versions_grow_with_the_epoch_too() {
        let high = Version {
            mark: (1 << 40) - 1,
            part: WHOLE,
        };
        let low = Version { mark: 0, part: 0 };
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
            let mut known: Option<Standing> = None;
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
                    .map(|(of, total)| (*of, *total, Origin::Read))
                    .collect();
                taken.push((mark, counted, Origin::Feed));
                for (mark, total, origin) in taken {
                    let before = known.as_ref().map_or(0, |known| known.voters);
                    let next = merged(known.as_ref(), tally(mark, [total, 0]), origin, at(0));
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
