//! P11, P12, P15, P16: a file replaces a closed poll's rows in one step, and
//! the shard keeps everything that it must know without them.

use ballast_domain::poll::{BallotRefusal, Poll};
use ballast_domain::slicing::HashRange;

use super::builders::*;
use super::snapshot::{digest, rows};
use super::{ShardFixture, SharedShard, crash, start};
use crate::shard::{ArchiveFile, Cursor, Digest, ExportedRow, SliceStateError, VoterName};

const VOTERS: [&str; 3] = ["ada", "bob", "cyd"];

/// A shard with a closed poll of three voters and an open one of one voter.
async fn world<F: ShardFixture>() -> (F, SharedShard) {
    let (fixture, shard) = owner::<F>(&[changeable(1), poll(2)]).await;
    for (place, name) in VOTERS.iter().enumerate() {
        let item = (place % 2) as u16;
        let first = ballot(&changeable(1), name, item, place as u64);
        assert_eq!(cast(&shard, first).await, counted(1));
    }
    let withdrawn = withdrawal(&changeable(1), "cyd", 0, 9);
    assert_eq!(cast(&shard, withdrawn).await, counted(2));
    assert_eq!(
        cast(&shard, ballot(&poll(2), "ada", 1, 1)).await,
        counted(1)
    );
    shard
        .close_poll(&at_epoch(1), poll(1).poll_id)
        .await
        .unwrap();
    (fixture, shard)
}

/// A file with the shard's current rows.
async fn file(shard: &SharedShard, poll: &Poll, generation: u32) -> ArchiveFile {
    let key = shard.slice_key(&slice()).await.unwrap();
    let mut digest = Digest::default();
    for row in rows(shard, &slice(), poll.poll_id, &VOTERS).await {
        let VoterName::Named(name) = &row.voter else {
            panic!("no voter was erased")
        };
        let print = key.voter_print(name.as_str());
        digest.add(key.hash_row(row.poll, print, &row.items, row.version));
    }
    ArchiveFile {
        path: format!("acme/0/202611/{}-{generation}.parquet", poll.poll_id),
        generation,
        digest,
        bytes: 1_000,
        tail_bytes: 100,
        checksum: "00".repeat(32),
    }
}

/// Archives the closed poll.
async fn archive(shard: &SharedShard) -> ArchiveFile {
    let file = file(shard, &poll(1), 1).await;
    let at = at_epoch(1);
    let archiving = shard.archive_poll(&at, poll(1).poll_id, file.clone());
    assert!(archiving.await.unwrap().closed_at.is_some());
    file
}

/// The first page of an export.
async fn exported(shard: &SharedShard) -> Vec<ExportedRow> {
    let mut changes = Vec::new();
    let mut cursor = Cursor::Start;
    while !matches!(cursor, Cursor::Changes { .. }) {
        let page = shard.export(&slice(), &cursor, 4_096).await.unwrap();
        changes.extend(page.changes);
        cursor = page.next;
    }
    changes
}

/// P11: only the owner of a closed poll's slice archives it, at its epoch, and
/// only with a file of exactly these rows.
pub async fn only_matching_rows_of_a_closed_poll_are_replaced_by_a_file<F: ShardFixture>() {
    let (_fixture, shard) = world::<F>().await;
    let good = file(&shard, &poll(1), 1).await;
    let id = poll(1).poll_id;
    let stale = shard.archive_poll(&at_epoch(2), id, good.clone()).await;
    assert_eq!(fenced(stale), behind(1));
    let open = file(&shard, &poll(2), 1).await;
    let open = shard
        .archive_poll(&at_epoch(1), poll(2).poll_id, open)
        .await;
    assert_eq!(slice_state_error(open), SliceStateError::PollOpen);
    let nowhere = poll(3).poll_id;
    let unknown = shard
        .archive_poll(&at_epoch(1), nowhere, good.clone())
        .await;
    assert_eq!(refusal(unknown), BallotRefusal::PollNotFound);
    let before = digest(&shard, &slice(), id).await;
    let mut fewer = good.clone();
    fewer.digest.rows -= 1;
    let mut others = good.clone();
    others.digest.sum[2] ^= 1;
    for wrong in [fewer, others] {
        let wrong = shard.archive_poll(&at_epoch(1), id, wrong).await;
        assert_eq!(slice_state_error(wrong), SliceStateError::RowsDiffer);
    }
    assert_eq!(digest(&shard, &slice(), id).await, before);
    assert_eq!(shard.archive(&slice(), id).await.unwrap(), None);
    assert_eq!(rows(&shard, &slice(), id, &VOTERS).await.len(), 3);
    shard.archive_poll(&at_epoch(1), id, good).await.unwrap();
    shard.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    let late = file_like(&shard).await;
    let late = shard.archive_poll(&at_epoch(1), id, late).await;
    assert_eq!(fenced(late), sealed(2));
}

async fn file_like(shard: &SharedShard) -> ArchiveFile {
    let there = shard.archive(&slice(), poll(1).poll_id).await;
    there.unwrap().expect("it is archived")
}

/// P15: the counts stay, the digest covers the poll's own row, and both survive
/// a crash.
pub async fn an_archived_poll_keeps_its_counts<F: ShardFixture>() {
    let (fixture, shard) = world::<F>().await;
    let id = poll(1).poll_id;
    let tally = shard.tally(&slice(), id).await.unwrap();
    let lanes = shard.lanes(&slice(), id).await.unwrap();
    let before = digest(&shard, &slice(), id).await;
    let file = archive(&shard).await;
    let after = digest(&shard, &slice(), id).await;
    assert_eq!((before.rows, after.rows), (4, 1));
    let mut shard = shard;
    for _ in 0..2 {
        let now = shard.tally(&slice(), id).await.unwrap();
        assert_eq!(
            (&now.counts, now.voters, now.closed_at),
            (&tally.counts, tally.voters, tally.closed_at)
        );
        assert_eq!(shard.lanes(&slice(), id).await.unwrap(), lanes);
        assert_eq!(digest(&shard, &slice(), id).await, after);
        let scrubbed = shard.scrub(&slice()).await.unwrap();
        assert_eq!(scrubbed, shard.digests(&slice()).await.unwrap());
        assert_eq!(
            shard.archive(&slice(), id).await.unwrap(),
            Some(file.clone())
        );
        let archives = shard.archives(&slice()).await.unwrap();
        assert_eq!(archives.len(), 1);
        let archived = archives[0].archived.as_ref().unwrap();
        assert_eq!((archives[0].poll.poll_id, &archived.file), (id, &file));
        assert_eq!(archived.voting, tally.voters);
        let usage = shard.usage().await;
        assert_eq!((usage.polls_archived, usage.archive_bytes), (1, 1_000));
        shard = crash(&fixture, shard).await;
    }
    // The other poll is unchanged.
    assert_eq!(
        rows(&shard, &slice(), poll(2).poll_id, &VOTERS).await.len(),
        1
    );
}

/// P16: without the file the shard cannot know whether a vote was counted: it
/// answers neither "no" nor "closed".
pub async fn a_shard_does_not_guess_what_a_file_holds<F: ShardFixture>() {
    let (fixture, shard) = world::<F>().await;
    archive(&shard).await;
    let shard = crash(&fixture, shard).await;
    for name in ["ada", "dan"] {
        let again = cast(&shard, ballot(&changeable(1), name, 0, 0)).await;
        assert_eq!(again, refused(BallotRefusal::Archived));
        let row = shard.voter(&slice(), poll(1).poll_id, &voter(name)).await;
        assert_eq!(refusal(row), BallotRefusal::Archived);
    }
    // The rest of the batch is judged.
    let batch = [
        ballot(&changeable(1), "ada", 0, 0),
        ballot(&poll(2), "ada", 1, 1),
    ];
    let verdicts = shard.cast(&at_epoch(1), &batch).await.unwrap();
    assert_eq!(verdicts, [refused(BallotRefusal::Archived), counted(1)]);
}

/// Archiving again changes nothing; a file of a higher generation replaces the
/// first, a lower one does not.
pub async fn a_poll_is_archived_once<F: ShardFixture>() {
    let (fixture, shard) = world::<F>().await;
    let id = poll(1).poll_id;
    let first = archive(&shard).await;
    let before = digest(&shard, &slice(), id).await;
    shard
        .archive_poll(&at_epoch(1), id, first.clone())
        .await
        .unwrap();
    assert_eq!(digest(&shard, &slice(), id).await, before);
    let second = ArchiveFile {
        generation: 2,
        path: "elsewhere".to_owned(),
        ..first.clone()
    };
    shard
        .archive_poll(&at_epoch(1), id, second.clone())
        .await
        .unwrap();
    assert_ne!(digest(&shard, &slice(), id).await, before);
    let older = shard.archive_poll(&at_epoch(1), id, first).await;
    assert_eq!(slice_state_error(older), SliceStateError::RowsDiffer);
    let shard = crash(&fixture, shard).await;
    let kept = shard.archive(&slice(), id).await.unwrap();
    assert_eq!(kept, Some(second));
}

/// P9, P12: an archived poll is copied with its reference and counts and
/// without rows; late rows are in the file already.
pub async fn an_archived_poll_moves_with_its_reference<F: ShardFixture>() {
    let (_one, source) = world::<F>().await;
    let (two, target) = start::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    let m = token("m", 1);
    target
        .prepare(&at_epoch(2), &m, key, HashRange::WHOLE)
        .await
        .unwrap();
    let early = exported(&source).await;
    archive(&source).await;
    let changes = exported(&source).await;
    let of_it = |change: &&ExportedRow| matches!(change, ExportedRow::Voter(row) if row.poll == poll(1).poll_id);
    assert_eq!(early.iter().filter(of_it).count(), 3);
    assert_eq!(changes.iter().filter(of_it).count(), 0);
    // Rows that were copied before are dropped; later ones are ignored.
    target.import(&slice(), &m, &early).await.unwrap();
    target.import(&slice(), &m, &changes).await.unwrap();
    target.import(&slice(), &m, &early).await.unwrap();
    let target = crash(&two, target).await;
    assert_eq!(
        target.digests(&slice()).await.unwrap(),
        source.digests(&slice()).await.unwrap()
    );
    assert_eq!(
        target.archives(&slice()).await.unwrap(),
        source.archives(&slice()).await.unwrap()
    );
    let (one, two) = (
        source.tally(&slice(), poll(1).poll_id).await.unwrap(),
        target.tally(&slice(), poll(1).poll_id).await.unwrap(),
    );
    assert_eq!((one.counts, one.voters), (two.counts, two.voters));
    let scrubbed = target.scrub(&slice()).await.unwrap();
    assert_eq!(scrubbed, target.digests(&slice()).await.unwrap());
}
