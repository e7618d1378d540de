//! Votes in cold polls, whose rows are only on disk.

use ballast_domain::poll::{Ballot, BallotOutcome, BallotRefusal};

use crate::embedded::core::{CastResult, ColdBallot};
use crate::embedded::engine::EmbeddedShard;
use crate::embedded::runs::RunError;
use crate::shard::{Fence, FencedSlice, ShardResult};

impl EmbeddedShard {
    /// Completes the verdicts that depend on rows on disk.
    ///
    /// The rows are read after the fence has admitted the ballots, without the
    /// lock. Meanwhile the slice may have been purged with its rows, and a
    /// missing row would be wrong. So the fence is checked once more after the
    /// read.
    pub(in crate::embedded) async fn judge_cold_ballots(
        &self,
        fenced: &FencedSlice,
        ballots: &[Ballot],
        cast: CastResult,
    ) -> ShardResult<Vec<BallotOutcome>> {
        let judged = self.read_and_judge(fenced, ballots, cast).await;
        let fence = self.read(|core| core.fence(&fenced.slice)).await?;
        Fence::serves(fence.as_ref(), fenced.epoch)?;
        judged
    }

    async fn read_and_judge(
        &self,
        fenced: &FencedSlice,
        ballots: &[Ballot],
        cast: CastResult,
    ) -> ShardResult<Vec<BallotOutcome>> {
        let CastResult {
            mut outcomes,
            cold_ballots,
        } = cast;
        let store = self.shared.store();
        let judged = self.read_stored(move || {
            let runs = store.runs();
            let judge = |(index, ballot): (usize, ColdBallot)| {
                let row = runs.get(ballot.key)?;
                let outcome = ballot.judge(row.as_ref().map(|stored| &stored.row));
                Ok((index, row.is_some(), outcome))
            };
            let judged = cold_ballots.into_iter().map(judge);
            judged.collect::<Result<Vec<_>, RunError>>()
        });
        for (index, has_row, outcome) in judged.await? {
            let poll = ballots[index].poll;
            outcomes[index] = match has_row || !self.is_archived(&fenced.slice, poll).await? {
                true => outcome,
                false => BallotOutcome::Refused(BallotRefusal::Archived),
            };
        }
        Ok(outcomes)
    }
}
