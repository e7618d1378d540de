//! A ballot that comes when its poll's rows are in a file.

use ballast_domain::poll::judge::{self, Asked, Decision};
use ballast_domain::poll::{Ballot, Poll, Refusal, Verdict};

use crate::shard::VoterRow;

/// Judges a ballot by the voter's row. A vote that was counted is answered as
/// it was, however late it comes; the poll is closed, so nothing can change.
pub fn judge(poll: &Poll, row: Option<&VoterRow>, ballot: &Ballot) -> Verdict {
    let Some(item) = poll.item_ids().position(|id| id == ballot.item) else {
        return Verdict::Refused(Refusal::ItemNotFound);
    };
    let asked = Asked {
        item: item as u16,
        choice: ballot.choice,
        request: ballot.request,
        at: ballot.arrived_at,
        if_revision: ballot.if_revision,
    };
    let revision = row.map_or(0, |row| row.version.revision);
    let row = row.map(|row| judge::Row {
        items: &row.items,
        revision,
        requests: &row.requests,
    });
    match judge::judge(poll, row, &asked) {
        Decision::Repeated { revision } => Verdict::Counted { revision },
        Decision::Already => Verdict::Already { revision },
        Decision::Refuse(refusal) => Verdict::Refused(refusal),
        Decision::Change(_) => Verdict::Refused(Refusal::Closed),
    }
}
