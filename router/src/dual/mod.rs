//! Reads while a move's window is open: the owner's data and what the previous
//! shard still has.
//!
//! ```text
//!   a voter's row   both sides, merged (merge.rs)        every read
//!   an export       both sides, merged page by page (rows.rs)
//!   counts          the owner's alone; compared (compare.rs), one in so many
//! ```
//! The fence makes it impossible that the previous shard has a vote that the
//! owner lacks. If one is seen even so, it is a *straggler*: it is in the
//! answer, it is counted, and it is logged as a broken invariant. The previous
//! shard being away, slow or unreadable fails no read.

mod answering;
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

pub(crate) use answering::Answering;
pub(crate) use rows::Rows;
pub use window::DualReadCounts;
pub(crate) use window::DualReads;

use self::compare::{Comparison, Finding};
use self::merge::{Merged, newer};
use self::window::{What, Window};
use crate::State;
use crate::deliver::Place;

/// The longest that a read waits for the previous shard.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long one that was too slow is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// The time between two looks at counts that differ.
const LOOKS_APART: Duration = Duration::from_secs(1);
/// So many looks, and no more: of a poll with many votes the counts never come
/// to rest.
const LOOKS_MAX: u32 = 30;

impl State {
    /// A voter's row, by the owner and by the previous shard.
    pub(crate) async fn voter_row(
        &self,
        place: &Place,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        let slice = &place.at.slice;
        let own = self.row(place, poll, voter);
        let Some((beside, window)) = self.beside(place) else {
            return own.await;
        };
        let other = self.ask_beside(beside, &window, |shard| async move {
            shard.voter(slice, poll, voter).await
        });
        let (own, other) = tokio::join!(own, other);
        let own = own?;
        let Some(other) = other else {
            return Ok(own);
        };
        self.note(&window, What::Compared);
        match newer(own, other.flatten()) {
            None => Ok(None),
            Some(Merged::Sure(row)) => Ok(Some(row)),
            Some(Merged::Suspect(row)) => self.settled(place, row).await.map(Some),
        }
    }

    /// The previous shard of a slice whose window is open.
    fn beside<'p>(&self, place: &'p Place) -> Option<(&'p ShardId, window::Shared)> {
        let beside = place.beside.as_ref()?;
        let window = self.parts.dual_reads.window(&place.at);
        Some((beside, window))
    }

    /// Asks the previous shard, within a short time; nothing when it cannot be
    /// read, and `Some(None)` when it has nothing.
    async fn ask_beside<T, F>(
        &self,
        beside: &ShardId,
        window: &Window,
        ask: impl FnOnce(Arc<dyn VoteShard>) -> F,
    ) -> Option<Option<T>>
    where
        F: Future<Output = ShardResult<T>> + Send,
    {
        let now = self.parts.clock.now();
        if window.is_left_alone(now) {
            self.note(window, What::Unread);
            return None;
        }
        let asking = async {
            let shard = self.parts.shards.shard(beside)?;
            ask(shard).await
        };
        let patience = PATIENCE.min(self.parts.settings.hold_max / 2);
        match tokio::time::timeout(patience, asking).await {
            Ok(Ok(found)) => return Some(Some(found)),
            // A poll that was created since has not come there yet.
            Ok(Err(ShardError::Refused(_))) => return Some(None),
            Ok(Err(error)) => {
                tracing::debug!(shard = %beside, %error, "the previous shard cannot be read");
            }
            Err(_) => {
                tracing::debug!(shard = %beside, "the previous shard did not answer in time");
                window.leave_alone(now, LEFT_ALONE);
            }
        }
        self.note(window, What::Unread);
        None
    }

    /// Looks at the owner again for a row that the previous shard has newer:
    /// it may have come to both sides between the two reads. If the owner
    /// still lacks it, it is a straggler.
    async fn settled(&self, place: &Place, other: VoterRow) -> ShardResult<VoterRow> {
        let own = look_again(place, &other).await?;
        match newer(own, Some(other.clone())) {
            Some(Merged::Sure(row)) => Ok(row),
            _ => {
                self.straggler(place, &other).await;
                Ok(other)
            }
        }
    }

    async fn straggler(&self, place: &Place, row: &VoterRow) {
        let window = self.parts.dual_reads.window(&place.at);
        self.note(&window, What::Straggler);
        let print = match print_of(place, row).await {
            Ok(print) => format!("{print:?}"),
            Err(error) => error.to_string(),
        };
        let beside = place.beside.as_ref().map(ShardId::as_str);
        tracing::error!(
            slice = %place.at.slice,
            owner = %place.shard_id,
            beside,
            poll = %row.poll,
            voter = print,
            version = ?row.version,
            "INV-5 is broken: the previous shard has a vote that the owner lacks"
        );
    }

    /// Compares the counts of a poll on both sides, of one read in so many and
    /// apart from it: no read waits for it.
    pub(crate) fn sample_counts(&self, place: &Place, poll: PollId) {
        let Some((_, window)) = self.beside(place) else {
            return;
        };
        if window.is_sampled(self.parts.settings.dual_read_sample) {
            let (state, place) = (self.clone(), place.clone());
            tokio::spawn(async move {
                let ending = state.ending();
                tokio::select! {
                    // In this order: by chance, a simulated world would have two ends.
                    biased;
                    () = state.compare_counts(&place, poll, LOOKS_APART) => {}
                    () = ending => {}
                }
                window.sampled();
            });
        }
    }

    /// Looks at both sides until their counts are equal, or at rest and
    /// different, or it has been tried often enough.
    async fn compare_counts(&self, place: &Place, poll: PollId, apart: Duration) {
        let Some((beside, window)) = self.beside(place) else {
            return;
        };
        let slice = &place.at.slice;
        let mut comparison = Comparison::default();
        for _ in 0..LOOKS_MAX {
            let other = self.ask_beside(beside, &window, |shard| async move {
                shard.tally(slice, poll).await
            });
            let Some(other) = other.await else {
                return;
            };
            // The owner after it: what comes to the previous shard is at the
            // owner already.
            let own = async { place.read().await?.tally(slice, poll).await };
            let Ok(own) = own.await else {
                // It has moved on, or is away: there is nothing to compare.
                return;
            };
            let finding = match other {
                Some(other) => comparison.look(own.into(), other.into()),
                None => Finding::Unsettled,
            };
            match finding {
                Finding::Equal => return self.note(&window, What::Compared),
                Finding::Different => return self.difference(place, poll, &window),
                Finding::Unsettled => tokio::time::sleep(apart).await,
            }
        }
        self.note(&window, What::Unsettled);
    }

    fn difference(&self, place: &Place, poll: PollId, window: &Window) {
        self.note(window, What::Compared);
        self.note(window, What::Difference);
        let beside = place.beside.as_ref().map(ShardId::as_str);
        tracing::error!(
            slice = %place.at.slice,
            owner = %place.shard_id,
            beside,
            %poll,
            "the counts of both sides differ and do not change any more"
        );
    }

    fn note(&self, window: &Window, what: What) {
        self.parts.dual_reads.note(window, what);
    }
}

/// The owner's row of the voter of another row, as it is now.
async fn look_again(place: &Place, row: &VoterRow) -> ShardResult<Option<VoterRow>> {
    let (slice, poll) = (&place.at.slice, row.poll);
    let owner = place.read().await?;
    let print = match &row.voter {
        VoterName::Named(voter) => return owner.voter(slice, poll, voter).await,
        VoterName::Erased(print) => *print,
    };
    // Of one whose name was erased only the print is left, so that it must be
    // looked for among the rows.
    let begin = owner.export(slice, &Cursor::Start, 1).await?;
    let cursor = rows::after(begin.next, poll, rows::before(print));
    let page = owner.export(slice, &cursor, 1).await?;
    let key = owner.slice_key(slice).await?;
    let mut found = rows::of_poll(poll, &key, page.changes);
    Ok(found.find(|(own, _)| *own == print).map(|(_, row)| row))
}

async fn print_of(place: &Place, row: &VoterRow) -> ShardResult<VoterPrint> {
    match &row.voter {
        VoterName::Named(voter) => {
            let key = place.shard.slice_key(&place.at.slice).await?;
            Ok(key.print(voter.as_str()))
        }
        VoterName::Erased(print) => Ok(*print),
    }
}
