//! Ballots for an archived poll.

use ballast_domain::poll::judge::{self, BallotDecision, UnjudgedBallot};
use ballast_domain::poll::{Ballot, BallotOutcome, BallotRefusal, Poll};

use crate::shard::VoterRow;

/// Judges a ballot by the voter's row. A repeated vote gets its first answer,
/// however late; the poll is closed, so nothing changes.
pub fn judge_archived_ballot(
    poll: &Poll,
    row: Option<&VoterRow>,
    ballot: &Ballot,
) -> BallotOutcome {
    let Some(item) = poll.item_ids().position(|id| id == ballot.item) else {
        return BallotOutcome::Refused(BallotRefusal::ItemNotFound);
    };
    let unjudged = UnjudgedBallot {
        item: item as u16,
        choice: ballot.choice,
        request: ballot.request,
        at: ballot.arrived_at,
        if_revision: ballot.if_revision,
    };
    let revision = row.map_or(0, |row| row.version.revision);
    let row = row.map(|row| judge::VoterState {
        items: &row.items,
        revision,
        requests: &row.requests,
    });
    match judge::judge(poll, row, &unjudged) {
        BallotDecision::Repeated { revision } => BallotOutcome::Counted { revision },
        BallotDecision::Already => BallotOutcome::Already { revision },
        BallotDecision::Refuse(refusal) => BallotOutcome::Refused(refusal),
        BallotDecision::Change(_) => BallotOutcome::Refused(BallotRefusal::Closed),
    }
}
