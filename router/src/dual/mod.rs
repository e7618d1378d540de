//! Dual reads: while a migration's window is open, reads use the owner and the
//! previous shard.
//!
//! ```text
//!   voter's row   both shards, merged (merge.rs), on every read
//!   export        both shards, merged page by page (rows.rs)
//!   counts        the owner only; a sample of reads compares both (compare.rs)
//! ```
//! The fence guarantees that the previous shard has no vote that the owner lacks.
//! A vote that violates this is a *straggler*: it is part of the answer, it is
//! counted, and it is logged as a broken invariant. No read fails because the
//! previous shard is unavailable, slow or damaged.

mod call_stats;
mod compare;
mod merge;
mod rows;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;
use std::time::Duration;

use ballast_domain::{PollId, ShardId, VoterId};
use ballast_vote_shard::shard::{Cursor, VoterName, VoterPrint, VoterRow};
use ballast_vote_shard::{ShardError, ShardResult, VoteShard};

pub(crate) use call_stats::CallStatsBySlice;
pub(crate) use rows::PollRows;
pub use window::DualReadCounts;
pub(crate) use window::DualReads;

use self::compare::{Comparison, ComparisonResult};
use self::merge::{MergedRow, merge_rows};
use self::window::{DualReadEvent, DualReadWindow};
use crate::RouterState;
use crate::deliver::ShardTarget;

/// Timeout of a read of the previous shard.
const PREVIOUS_SHARD_TIMEOUT: Duration = Duration::from_millis(250);
/// How long the previous shard is not read after a timeout.
const PREVIOUS_SHARD_BACKOFF: Duration = Duration::from_secs(1);
/// The time between two comparisons of counts that differ.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(1);
/// The most comparisons of one sample: the counts of a busy poll may never settle.
const COMPARISONS_MAX: u32 = 30;

impl RouterState {
    /// Reads a voter's row from the owner and, in a window, the previous shard.
    pub(crate) async fn voter_row(
        &self,
        target: &ShardTarget,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        let slice = &target.fenced.slice;
        let own = self.owner_row(target, poll, voter);
        let Some((previous, window)) = self.previous_shard(target) else {
            return own.await;
        };
        let other = self.read_previous(previous, &window, |shard| async move {
            shard.voter(slice, poll, voter).await
        });
        let (own, other) = tokio::join!(own, other);
        let own = own?;
        let Some(other) = other else {
            return Ok(own);
        };
        self.record(&window, DualReadEvent::Compared);
        match merge_rows(own, other.flatten()) {
            None => Ok(None),
            Some(MergedRow::Confirmed(row)) => Ok(Some(row)),
            Some(MergedRow::Unconfirmed(row)) => {
                self.resolve_unconfirmed(target, row).await.map(Some)
            }
        }
    }

    /// The previous shard of a slice whose window is open, and the window's state.
    fn previous_shard<'p>(
        &self,
        target: &'p ShardTarget,
    ) -> Option<(&'p ShardId, window::SharedWindow)> {
        let previous = target.previous_shard.as_ref()?;
        let window = self.parts.dual_reads.window(&target.fenced);
        Some((previous, window))
    }

    /// Reads from the previous shard with a short timeout. Returns `None` when it
    /// cannot be read, and `Some(None)` when it has no such data.
    async fn read_previous<T, F>(
        &self,
        previous: &ShardId,
        window: &DualReadWindow,
        ask: impl FnOnce(Arc<dyn VoteShard>) -> F,
    ) -> Option<Option<T>>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let now = self.parts.clock.now();
        if window.is_backing_off(now) {
            self.record(window, DualReadEvent::Unread);
            return None;
        }
        let reading = async {
            let shard = self.parts.shards.shard(previous)?;
            ask(shard).await
        };
        let timeout = PREVIOUS_SHARD_TIMEOUT.min(self.parts.settings.hold_max / 2);
        match tokio::time::timeout(timeout, reading).await {
            Ok(Ok(found)) => return Some(Some(found)),
            // A poll that was created after the cutover is not there yet.
            Ok(Err(ShardError::Refused(_))) => return Some(None),
            Ok(Err(error)) => {
                tracing::debug!(shard = %previous, %error, "cannot read the previous shard");
            }
            Err(_) => {
                tracing::debug!(shard = %previous, "the previous shard did not answer in time");
                window.back_off(now, PREVIOUS_SHARD_BACKOFF);
            }
        }
        self.record(window, DualReadEvent::Unread);
        None
    }

    /// Reads the owner again for a row that is newer on the previous shard: the
    /// vote may have reached both shards between the two reads. If the owner still
    /// lacks it, it is a straggler.
    async fn resolve_unconfirmed(
        &self,
        target: &ShardTarget,
        other: VoterRow,
    ) -> ShardResult<VoterRow> {
        let own = reread_owner_row(target, &other).await?;
        match merge_rows(own, Some(other.clone())) {
            Some(MergedRow::Confirmed(row)) => Ok(row),
            _ => {
                self.report_straggler(target, &other).await;
                Ok(other)
            }
        }
    }

    async fn report_straggler(&self, target: &ShardTarget, row: &VoterRow) {
        let window = self.parts.dual_reads.window(&target.fenced);
        self.record(&window, DualReadEvent::Straggler);
        let print = match voter_print(target, row).await {
            Ok(print) => format!("{print:?}"),
            Err(error) => error.to_string(),
        };
        let previous = target.previous_shard.as_ref().map(ShardId::as_str);
        tracing::error!(
            slice = %target.fenced.slice,
            owner = %target.shard_id,
            previous,
            poll = %row.poll,
            voter = print,
            version = ?row.version,
            "INV-5 is violated: the previous shard has a vote that the owner lacks"
        );
    }

    /// Compares the counts of a poll on both shards for a sample of reads, in a task
    /// of its own: no read waits for it.
    pub(crate) fn sample_counts(&self, target: &ShardTarget, poll: PollId) {
        let Some((_, window)) = self.previous_shard(target) else {
            return;
        };
        if window.begin_sample(self.parts.settings.dual_read_sample) {
            let (state, target) = (self.clone(), target.clone());
            tokio::spawn(async move {
                let ending = state.wait_for_end();
                tokio::select! {
                    // `biased`: a random order would make simulations not repeatable.
                    biased;
                    () = state.compare_counts(&target, poll, COMPARISON_INTERVAL) => {}
                    () = ending => {}
                }
                window.end_sample();
            });
        }
    }

    /// Compares both shards' counts until they are equal, or settled and different,
    /// or the attempts are used up.
    async fn compare_counts(&self, target: &ShardTarget, poll: PollId, interval: Duration) {
        let Some((previous, window)) = self.previous_shard(target) else {
            return;
        };
        let slice = &target.fenced.slice;
        let mut comparison = Comparison::default();
        for _ in 0..COMPARISONS_MAX {
            let other = self.read_previous(previous, &window, |shard| async move {
                shard.tally(slice, poll).await
            });
            let Some(other) = other.await else {
                return;
            };
            // Read the owner second: a change reaches the owner before the previous
            // shard.
            let own = async { target.consistent_reader().await?.tally(slice, poll).await };
            let Ok(own) = own.await else {
                // The slice has moved, or the owner is unavailable.
                return;
            };
            let result = match other {
                Some(other) => comparison.compare(own.into(), other.into()),
                None => ComparisonResult::Unsettled,
            };
            match result {
                ComparisonResult::Equal => return self.record(&window, DualReadEvent::Compared),
                ComparisonResult::Different => {
                    return self.report_difference(target, poll, &window);
                }
                ComparisonResult::Unsettled => tokio::time::sleep(interval).await,
            }
        }
        self.record(&window, DualReadEvent::Unsettled);
    }

    fn report_difference(&self, target: &ShardTarget, poll: PollId, window: &DualReadWindow) {
        self.record(window, DualReadEvent::Compared);
        self.record(window, DualReadEvent::Difference);
        let previous = target.previous_shard.as_ref().map(ShardId::as_str);
        tracing::error!(
            slice = %target.fenced.slice,
            owner = %target.shard_id,
            previous,
            %poll,
            "the settled counts of both shards differ"
        );
    }

    fn record(&self, window: &DualReadWindow, event: DualReadEvent) {
        self.parts.dual_reads.record(window, event);
    }
}

/// Reads the owner's current row for the voter of `row`.
async fn reread_owner_row(target: &ShardTarget, row: &VoterRow) -> ShardResult<Option<VoterRow>> {
    let (slice, poll) = (&target.fenced.slice, row.poll);
    let owner = target.consistent_reader().await?;
    let print = match &row.voter {
        VoterName::Named(voter) => return owner.voter(slice, poll, voter).await,
        VoterName::Erased(print) => *print,
    };
    // The voter's name was erased and only the print is left, so the row must be
    // found by exporting from its position.
    let begin = owner.export(slice, &Cursor::Start, 1).await?;
    let cursor = rows::seek_after(begin.next, poll, rows::previous_print(print));
    let page = owner.export(slice, &cursor, 1).await?;
    let key = owner.slice_key(slice).await?;
    let mut found = rows::rows_of_poll(poll, &key, page.changes);
    Ok(found.find(|(own, _)| *own == print).map(|(_, row)| row))
}

async fn voter_print(target: &ShardTarget, row: &VoterRow) -> ShardResult<VoterPrint> {
    match &row.voter {
        VoterName::Named(voter) => {
            let key = target.shard.slice_key(&target.fenced.slice).await?;
            Ok(key.voter_print(voter.as_str()))
        }
        VoterName::Erased(print) => Ok(*print),
    }
}
