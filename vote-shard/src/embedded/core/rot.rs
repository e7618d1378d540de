//! A fault: a row that is stored becomes another, and nobody was told.

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, Timestamp, VoterId};

use super::{Answer, Core};
use crate::embedded::record::{Record, RowRecord, WrittenVoter};
use crate::shard::{ShardError, ShardResult};

impl Core {
    /// Has a voter's row rot: it says another item, under the same version, and
    /// the digest that is kept does not know.
    pub(in crate::embedded) fn rot(
        &mut self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        let missing = || ShardError::unavailable("there is no such row");
        let known = self.state.poll(slice, poll).ok_or_else(missing)?;
        let (number, digest) = (known.number, known.digest);
        let written = WrittenVoter::Named(voter.as_str());
        let row = known.seen(&written.print(&known.key)).ok_or_else(missing)?;
        let row = row.to_row();
        let record = Record::Row(RowRecord {
            poll: number,
            version: row.version,
            items: row.items.as_slice().iter().map(|item| item ^ 1).collect(),
            requests: row.requests,
            at: row.at,
            voter: written,
        });
        let now = self.now(clock);
        self.write(now, &record);
        self.counted(number);
        if let Some(known) = self.state.polls.get_mut(&number) {
            known.digest = digest;
        }
        Ok(self.after(self.open.sequence, ()))
    }
}
