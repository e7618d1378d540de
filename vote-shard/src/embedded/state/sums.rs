//! The digest of a slice: the sum over its polls, brought up to date when it
//! is asked for.
//!
//! ```text
//!   a poll changes ──► it is on its slice's list, once
//!   the sum is asked for ──► of each poll on the list: less what it was, plus
//!                            what it is
//! ```
//! So a vote does not look for its slice, and the sum costs what has changed
//! since it was last asked for. Nothing of it is on disk: after a restart all
//! polls are on the list.

use std::collections::HashMap;

use ballast_domain::tenant::SliceId;

use super::{PollState, SliceState, State};
use crate::embedded::record::PollNo;
use crate::shard::{Digest, SliceDigest};

/// What a slice keeps for its sum.
#[derive(Debug, Default)]
pub(super) struct Sum {
    /// Over all polls, as they were when they were last added.
    rows: Digest,
    /// Polls that have changed since.
    changed: Vec<PollNo>,
    /// The last group that is in it.
    changed_in: u64,
}

/// What a poll keeps for its slice's sum.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Share {
    /// What of it is in the sum.
    added: Digest,
    /// Whether it is on the list.
    is_listed: bool,
}

/// Notes that a poll is not what it is in its slice's sum any more.
pub(super) fn note(slices: &mut HashMap<SliceId, SliceState>, poll: &mut PollState) {
    if poll.share.is_listed {
        return;
    }
    if let Some(slice) = slices.get_mut(&poll.slice) {
        poll.share.is_listed = true;
        slice.sum.changed.push(poll.number);
    }
}

/// Takes a poll that is no more out of its slice's sum.
pub(super) fn leave(slice: &mut SliceState, poll: &PollState) {
    slice.sum.rows.take(&poll.share.added);
}

impl State {
    /// Brings at most so many changed polls into a slice's sum. The sum, and
    /// the last group that is in it, once no more are left.
    pub(in crate::embedded) fn sum(
        &mut self,
        slice: &SliceId,
        most: usize,
    ) -> Option<(SliceDigest, u64)> {
        let known = self.slices.get_mut(slice)?;
        let left = known.sum.changed.len().saturating_sub(most);
        for number in known.sum.changed.drain(left..) {
            // One that is gone was taken out when it went.
            let Some(poll) = self.polls.get_mut(&number) else {
                continue;
            };
            let now = poll.full_digest();
            known.sum.rows.take(&poll.share.added);
            known.sum.rows.merge(&now);
            known.sum.changed_in = known.sum.changed_in.max(poll.changed_in);
            poll.share = Share {
                added: now,
                is_listed: false,
            };
        }
        if left > 0 {
            return None;
        }
        let sum = SliceDigest {
            polls: known.polls.len() as u64,
            rows: known.sum.rows,
        };
        Some((sum, known.sum.changed_in.max(known.changed_in)))
    }
}
