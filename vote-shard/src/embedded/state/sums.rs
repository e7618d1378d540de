//! The digest of a slice: the sum over its polls, updated on demand.
//!
//! ```text
//!   a poll changes ──► it joins its slice's list of changed polls, once
//!   the sum is requested ──► for each listed poll: subtract its old digest, add
//!                            its new one
//! ```
//! So a vote does not update its slice, and a sum costs time only for the polls
//! that changed since the last one. None of this is on disk: after a restart
//! all polls are on the list.

use std::collections::HashMap;

use ballast_domain::tenant::SliceId;

use super::{EngineState, PollState, SliceState};
use crate::embedded::record::PollNo;
use crate::shard::{Digest, SliceDigest};

/// A slice's sum.
#[derive(Debug, Default)]
pub(super) struct SliceSum {
    /// Sum of all polls, as they were last added.
    rows: Digest,
    /// Polls that have changed since.
    changed: Vec<PollNo>,
    /// The last group that it includes.
    changed_in: u64,
}

/// A poll's share in its slice's sum.
#[derive(Debug, Default)]
pub(in crate::embedded) struct SumShare {
    /// The digest that the sum includes.
    added: Digest,
    /// Whether the poll is on the list.
    is_listed: bool,
}

/// Lists a poll as changed.
pub(super) fn mark_changed(slices: &mut HashMap<SliceId, SliceState>, poll: &mut PollState) {
    if poll.share.is_listed {
        return;
    }
    if let Some(slice) = slices.get_mut(&poll.slice) {
        poll.share.is_listed = true;
        slice.sum.changed.push(poll.number);
    }
}

/// Removes a purged poll from its slice's sum.
pub(super) fn remove_poll(slice: &mut SliceState, poll: &PollState) {
    slice.sum.rows.subtract_all(&poll.share.added);
}

impl EngineState {
    /// Updates a slice's sum by at most `most` polls. Returns the sum, and the
    /// last group that it includes, once no changed polls are left.
    pub(in crate::embedded) fn update_sum(
        &mut self,
        slice: &SliceId,
        most: usize,
    ) -> Option<(SliceDigest, u64)> {
        let known = self.slices.get_mut(slice)?;
        let left = known.sum.changed.len().saturating_sub(most);
        for number in known.sum.changed.drain(left..) {
            // A purged poll was subtracted when it was removed.
            let Some(poll) = self.polls.get_mut(&number) else {
                continue;
            };
            let now = poll.full_digest();
            known.sum.rows.subtract_all(&poll.share.added);
            known.sum.rows.merge(&now);
            known.sum.changed_in = known.sum.changed_in.max(poll.changed_in);
            poll.share = SumShare {
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
