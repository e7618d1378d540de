//! Whether the counts of both sides differ: the decision, pure.
//!
//! What is written at the owner comes to the previous shard with a delay, so
//! that counts differ while people vote is no news. There is no position that
//! both sides could be read at; but when neither side's counts have changed
//! over several looks, both have come to rest, and then they must be equal.
//! Only a difference that is still there then counts.

use ballast_domain::Timestamp;
use ballast_vote_shard::Tally;

/// So many looks in a row must find the same counts before a difference
/// counts: the stream to the previous shard may be slow.
pub(crate) const LOOKS_AT_REST: u32 = 5;

/// What is compared of a tally. Its mark is left out: both sides have their
/// own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) counts: Vec<u64>,
    pub(crate) voters: u64,
    pub(crate) closed_at: Option<Timestamp>,
}

impl From<Tally> for Counts {
    fn from(tally: Tally) -> Self {
        Self {
            counts: tally.counts,
            voters: tally.voters,
            closed_at: tally.closed_at,
        }
    }
}

/// What a look has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Both are equal.
    Equal,
    /// They differ, and it is too early to say why.
    Unsettled,
    /// They differ, and nothing changes any more.
    Different,
}

/// A comparison under way.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    last: Option<(Counts, Counts)>,
    at_rest: u32,
}

impl Comparison {
    /// Looks once more.
    pub(crate) fn look(&mut self, own: Counts, other: Counts) -> Finding {
        if own == other {
            *self = Self::default();
            return Finding::Equal;
        }
        let now = Some((own, other));
        self.at_rest = if self.last == now {
            self.at_rest + 1
        } else {
            1
        };
        self.last = now;
        if self.at_rest >= LOOKS_AT_REST {
            Finding::Different
        } else {
            Finding::Unsettled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(votes: u64) -> Counts {
        Counts {
            counts: vec![votes, 0],
            voters: votes,
            closed_at: None,
        }
    }

    #[test]
    fn a_difference_counts_only_when_both_sides_have_come_to_rest() {
        let mut comparison = Comparison::default();
        for _ in 1..LOOKS_AT_REST {
            let finding = comparison.look(counts(5), counts(4));
            assert_eq!(finding, Finding::Unsettled);
        }
        // One that changes begins anew, whichever side it is.
        for (own, other) in [(6, 4), (6, 5)] {
            for _ in 1..LOOKS_AT_REST {
                let finding = comparison.look(counts(own), counts(other));
                assert_eq!(finding, Finding::Unsettled);
            }
        }
        assert_eq!(comparison.look(counts(6), counts(5)), Finding::Different);
        assert_eq!(comparison.look(counts(6), counts(6)), Finding::Equal);
    }

    #[test]
    fn voters_and_the_end_of_a_poll_are_compared_too() {
        let mut closed = counts(3);
        closed.closed_at = Some(Timestamp::from_unix_ms(1));
        let mut fewer = counts(3);
        fewer.voters = 2;
        for other in [closed, fewer] {
            let mut comparison = Comparison::default();
            let finding = (0..LOOKS_AT_REST).map(|_| comparison.look(counts(3), other.clone()));
            assert_eq!(finding.last(), Some(Finding::Different));
        }
    }

    proptest! {
        /// The previous shard follows the owner, however late, and catches up
        /// before it has been at rest for as long as it takes.
        #[test]
        fn a_side_that_follows_is_never_found_to_differ(
            steps in proptest::collection::vec((0..3_u64, 1..4_u32), 1..20),
        ) {
            let (mut comparison, mut own, mut other) = (Comparison::default(), 0_u64, 0_u64);
            for (votes, stalled) in steps {
                own += votes;
                for _ in 0..stalled {
                    prop_assert_ne!(comparison.look(counts(own), counts(other)), Finding::Different);
                }
                other = (other + 1).min(own);
            }
        }
    }
}
