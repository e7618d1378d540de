//! Votes in polls whose rows are only on disk.

use ballast_domain::poll::{Ballot, Refusal, Verdict};

use super::core::{Cast, Stored};
use super::engine::EmbeddedShard;
use super::runs::RunError;
use crate::shard::{At, Fence, ShardResult};

impl EmbeddedShard {
    /// Verdicts on ballots, also those that depend on rows which are only on disk.
    ///
    /// These are read after the ballots were admitted, without the lock. Meanwhile
    /// the slice may have been taken from here, with its rows: what is not found
    /// then may have been there, and the slice's owner says so.
    pub(super) async fn judged(
        &self,
        at: &At,
        ballots: &[Ballot],
        cast: Cast,
    ) -> ShardResult<Vec<Verdict>> {
        let judged = self.judge_stored(at, ballots, cast).await;
        let fence = self.read(|core| core.fence(&at.slice)).await?;
        Fence::serves(fence.as_ref(), at.epoch)?;
        judged
    }

    async fn judge_stored(
        &self,
        at: &At,
        ballots: &[Ballot],
        cast: Cast,
    ) -> ShardResult<Vec<Verdict>> {
        let Cast {
            mut verdicts,
            stored,
        } = cast;
        let store = self.shared.store();
        let judged = self.stored(move || {
            let runs = store.runs();
            let judge = |(place, stored): (usize, Stored)| {
                let row = runs.get(stored.key)?;
                let verdict = stored.judge(row.as_ref().map(|stored| &stored.row));
                Ok((place, row.is_some(), verdict))
            };
            let judged = stored.into_iter().map(judge);
            judged.collect::<Result<Vec<_>, RunError>>()
        });
        for (place, has_row, verdict) in judged.await? {
            let poll = ballots[place].poll;
            verdicts[place] = match has_row || !self.is_archived(&at.slice, poll).await? {
                true => verdict,
                false => Verdict::Refused(Refusal::Archived),
            };
        }
        Ok(verdicts)
    }
}
