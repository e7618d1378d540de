//! Decides whether the counts of both shards differ: a pure function.
//!
//! The owner's changes reach the previous shard with a delay, so counts differ while
//! people vote. The two shards cannot be read at a common position. But when neither
//! side's counts have changed over several reads, both have settled, and then they
//! must be equal. Only a difference between settled counts is reported.

use ballast_domain::Timestamp;
use ballast_vote_shard::Tally;

/// How many reads in a row must return the same counts before they count as
/// settled: the stream to the previous shard may be slow.
pub(crate) const SETTLED_READS: u32 = 5;

/// The part of a tally that is compared. The mark is left out: each shard has its
/// own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComparedCounts {
    pub(crate) counts: Vec<u64>,
    pub(crate) voters: u64,
    pub(crate) closed_at: Option<Timestamp>,
}

impl From<Tally> for ComparedCounts {
    fn from(tally: Tally) -> Self {
        Self {
            counts: tally.counts,
            voters: tally.voters,
            closed_at: tally.closed_at,
        }
    }
}

/// The result of comparing once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparisonResult {
    /// The counts are equal.
    Equal,
    /// They differ, and have not settled yet.
    Unsettled,
    /// They differ and have settled.
    Different,
}

/// The state of a comparison over several reads.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    last: Option<(ComparedCounts, ComparedCounts)>,
    unchanged_reads: u32,
}

impl Comparison {
    /// Compares the counts of one more read.
    pub(crate) fn compare(
        &mut self,
        own: ComparedCounts,
        other: ComparedCounts,
    ) -> ComparisonResult {
        if own == other {
            *self = Self::default();
            return ComparisonResult::Equal;
        }
        let now = Some((own, other));
        self.unchanged_reads = if self.last == now {
            self.unchanged_reads + 1
        } else {
            1
        };
        self.last = now;
        if self.unchanged_reads >= SETTLED_READS {
            ComparisonResult::Different
        } else {
            ComparisonResult::Unsettled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(votes: u64) -> ComparedCounts {
        ComparedCounts {
            counts: vec![votes, 0],
            voters: votes,
            closed_at: None,
        }
    }

    #[test]
    fn a_difference_counts_only_when_both_sides_have_settled() {
        let mut comparison = Comparison::default();
        for _ in 1..SETTLED_READS {
            let finding = comparison.compare(counts(5), counts(4));
            assert_eq!(finding, ComparisonResult::Unsettled);
        }
        // A change on either side starts the count again.
        for (own, other) in [(6, 4), (6, 5)] {
            for _ in 1..SETTLED_READS {
                let finding = comparison.compare(counts(own), counts(other));
                assert_eq!(finding, ComparisonResult::Unsettled);
            }
        }
        assert_eq!(
            comparison.compare(counts(6), counts(5)),
            ComparisonResult::Different
        );
        assert_eq!(
            comparison.compare(counts(6), counts(6)),
            ComparisonResult::Equal
        );
    }

    #[test]
    fn voters_and_the_closing_time_are_compared_too() {
        let mut closed = counts(3);
        closed.closed_at = Some(Timestamp::from_unix_ms(1));
        let mut fewer = counts(3);
        fewer.voters = 2;
        for other in [closed, fewer] {
            let mut comparison = Comparison::default();
            let finding = (0..SETTLED_READS).map(|_| comparison.compare(counts(3), other.clone()));
            assert_eq!(finding.last(), Some(ComparisonResult::Different));
        }
    }

    proptest! {
        /// The previous shard follows the owner with a delay, and catches up before
        /// its counts look settled.
        #[test]
        fn a_side_that_follows_never_differs(
            steps in proptest::collection::vec((0..3_u64, 1..4_u32), 1..20),
        ) {
            let (mut comparison, mut own, mut other) = (Comparison::default(), 0_u64, 0_u64);
            for (votes, stalled) in steps {
                own += votes;
                for _ in 0..stalled {
                    prop_assert_ne!(comparison.compare(counts(own), counts(other)), ComparisonResult::Different);
                }
                other = (other + 1).min(own);
            }
        }
    }
}
