//! All that can be seen of a slice, and its rows read out one by one.

use ballast_domain::PollId;
use ballast_domain::poll::Poll;
use ballast_domain::tenant::{Epoch, SliceId};

use super::SharedShard;
use super::builders::voter;
use crate::shard::{
    Digest, ExportedRow, Fence, PollRow, RowVersion, SliceDigest, SliceKey, Tally, VoterName,
    VoterRow,
};

/// All that can be seen of a slice through the trait. Marks are left out: they
/// only have to grow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SliceSnapshot {
    pub(super) fence: Option<Fence>,
    pub(super) polls: Vec<Poll>,
    pub(super) tallies: Vec<Tally>,
    pub(super) lanes: Vec<Vec<Vec<u64>>>,
    pub(super) rows: Vec<VoterRow>,
    pub(super) digests: Vec<(PollId, Digest)>,
    pub(super) digest: SliceDigest,
}

/// Looks at everything in a slice, and at the rows of these voters.
pub(super) async fn snapshot(
    shard: &SharedShard,
    slice: &SliceId,
    voters: &[&str],
) -> SliceSnapshot {
    let polls = shard.polls(slice, None, 1_000).await.unwrap();
    let mut snapshot = SliceSnapshot {
        fence: shard.fence(slice).await.unwrap(),
        tallies: Vec::new(),
        lanes: Vec::new(),
        rows: Vec::new(),
        digests: shard.digests(slice).await.unwrap(),
        digest: shard.digest(slice).await.unwrap(),
        polls,
    };
    for poll in &snapshot.polls {
        let mut tally = shard.tally(slice, poll.poll_id).await.unwrap();
        tally.mark = 0;
        snapshot.tallies.push(tally);
        let lanes = shard.lanes(slice, poll.poll_id).await.unwrap();
        snapshot.lanes.push(lanes);
        let rows = rows(shard, slice, poll.poll_id, voters).await;
        snapshot.rows.extend(rows);
    }
    snapshot
}

/// The rows of these voters in a poll.
pub(super) async fn rows(
    shard: &SharedShard,
    slice: &SliceId,
    poll: PollId,
    voters: &[&str],
) -> Vec<VoterRow> {
    let mut rows = Vec::new();
    for name in voters {
        rows.extend(shard.voter(slice, poll, &voter(name)).await.unwrap());
    }
    rows
}

/// The digest of a poll and its rows, computed from them.
pub(super) fn digest_of(key: &SliceKey, poll: &PollRow, rows: &[VoterRow]) -> Digest {
    let mut digest = Digest::default();
    digest.add(key.hash_poll(poll));
    for row in rows {
        let print = match &row.voter {
            VoterName::Named(name) => key.voter_print(name.as_str()),
            VoterName::Erased(print) => *print,
        };
        digest.add(key.hash_row(row.poll, print, &row.items, row.version));
    }
    digest
}

/// The digest of one poll.
pub(super) async fn digest(shard: &SharedShard, slice: &SliceId, poll: PollId) -> Digest {
    let digests = shard.digests(slice).await.unwrap();
    let own = digests.into_iter().find(|(id, _)| *id == poll);
    own.expect("the poll has a digest").1
}

/// A slice's polls and the rows of these voters, as an export would give them.
///
/// A poll's version is not to be seen through the trait: it is the one with
/// which the poll's digest comes out, and there must be one.
pub(super) async fn read_out(
    shard: &SharedShard,
    slice: &SliceId,
    voters: &[&str],
) -> Vec<ExportedRow> {
    let key = shard.slice_key(slice).await.unwrap();
    let mut changes = Vec::new();
    for poll in shard.polls(slice, None, 1_000).await.unwrap() {
        let rows = rows(shard, slice, poll.poll_id, voters).await;
        let kept = digest(shard, slice, poll.poll_id).await;
        let row = (1..=20)
            .flat_map(|epoch| (1..=20).map(move |revision| (Epoch(epoch), revision)))
            .map(|(epoch, revision)| poll_row(poll.clone(), RowVersion { epoch, revision }))
            .find(|row| digest_of(&key, row, &rows) == kept);
        let row = row.expect("the digest is that of the rows");
        changes.push(ExportedRow::Poll(row));
        changes.extend(rows.into_iter().map(ExportedRow::Voter));
    }
    changes
}

/// A poll's row with a version, with nothing carried over.
pub(super) fn poll_row(poll: Poll, version: RowVersion) -> PollRow {
    PollRow {
        carried: vec![0; poll.spec.items.len()],
        imports: Vec::new(),
        archived: None,
        poll,
        version,
    }
}
