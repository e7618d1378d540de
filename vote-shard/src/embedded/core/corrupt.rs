//! Planted fault: a stored row changes silently.

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, Timestamp, VoterId};

use super::{Core, PendingAnswer};
use crate::embedded::record::{Record, RecordVoter, RowRecord};
use crate::shard::{ShardError, ShardResult};

impl Core {
    /// Corrupts a voter's row: it gets another item under the same version, and
    /// the stored digest does not change.
    pub(in crate::embedded) fn corrupt_row(
        &mut self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        let missing = || ShardError::unavailable("no such row");
        let known = self.state.poll(slice, poll).ok_or_else(missing)?;
        let (number, digest) = (known.number, known.digest);
        let written = RecordVoter::Named(voter.as_str());
        let row = known
            .voter_view(&written.print(&known.key))
            .ok_or_else(missing)?;
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
        self.mark_counts_changed(number);
        if let Some(known) = self.state.polls.get_mut(&number) {
            known.digest = digest;
        }
        Ok(self.answer_after(self.open.sequence, ()))
    }
}
