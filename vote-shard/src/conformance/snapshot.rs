//! A slice's complete visible state, and its rows read one by one.

use ballast_domain::PollId;
use ballast_domain::poll::Poll;
use ballast_domain::tenant::{Epoch, SliceId};

use super::SharedShard;
use super::builders::voter;
use crate::shard::{
    Digest, ExportedRow, Fence, PollRow, RowVersion, SliceDigest, SliceKey, Tally, VoterName,
    VoterRow,
};

/// A slice's complete state as visible through the trait, without marks: these
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

/// Reads everything in a slice, and the rows of these voters.
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

/// Computes the digest of a poll from its rows.
pub(super) fn expected_digest(key: &SliceKey, poll: &PollRow, rows: &[VoterRow]) -> Digest {
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

/// Reads a slice's polls and these voters' rows, in the form of an export.
///
/// The trait does not expose a poll's version: search for the one that gives
/// the poll's digest; it must exist.
pub(super) async fn read_all_rows(
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
            .find(|row| expected_digest(&key, row, &rows) == kept);
        let row = row.expect("the digest is that of the rows");
        changes.push(ExportedRow::Poll(row));
        changes.extend(rows.into_iter().map(ExportedRow::Voter));
    }
    changes
}

/// A poll's row with this version and no imported counts.
pub(super) fn poll_row(poll: Poll, version: RowVersion) -> PollRow {
    PollRow {
        carried: vec![0; poll.spec.items.len()],
        imports: Vec::new(),
        archived: None,
        poll,
        version,
    }
}
