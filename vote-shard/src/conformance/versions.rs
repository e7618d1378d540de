//! P9: of two versions of a row the higher one wins, in any order and however
//! often they arrive.

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::Epoch;

use super::builders::*;
use super::snapshot::{expected_digest, poll_row, read_all_rows, snapshot};
use super::{ShardFixture, SharedShard, crash, start};
use crate::shard::{ExportedRow, RowVersion, SliceKey, VoterName, VoterRow};

const KEY: SliceKey = SliceKey::from_bytes([9; 32]);

fn version(epoch: u64, revision: u32) -> RowVersion {
    RowVersion {
        epoch: Epoch(epoch),
        revision,
    }
}

fn row(name: &str, items: &[u16], version: RowVersion) -> VoterRow {
    VoterRow {
        poll: poll(1).poll_id,
        voter: VoterName::Named(voter(name)),
        items: items.to_vec(),
        version,
        requests: vec![(
            ballast_domain::poll::RequestId(u64::from(version.revision)),
            version.revision,
        )],
        voted_at: time(i64::from(version.revision)),
    }
}

/// A slice that is being imported at epoch 5.
async fn importing<F: ShardFixture>(key: SliceKey) -> (F, SharedShard) {
    let (fixture, shard) = start::<F>().await;
    shard
        .prepare(&at_epoch(5), &token("m", 1), key, HashRange::WHOLE)
        .await
        .unwrap();
    (fixture, shard)
}

async fn import(shard: &SharedShard, changes: &[ExportedRow]) {
    shard
        .import(&slice(), &token("m", 1), changes)
        .await
        .unwrap();
}

async fn stored_row(shard: &SharedShard, name: &str) -> VoterRow {
    let row = shard.voter(&slice(), poll(1).poll_id, &voter(name)).await;
    row.unwrap().unwrap()
}

/// P9: a voter's row is imported only if its version is higher: the epoch
/// first, then the revision.
pub async fn a_row_is_taken_only_when_its_version_is_higher<F: ShardFixture>() {
    let (_fixture, shard) = importing::<F>(KEY).await;
    import(
        &shard,
        &[ExportedRow::Poll(poll_row(changeable(1), version(1, 1)))],
    )
    .await;
    let steps = [
        (version(2, 3), [0], true),
        (version(2, 3), [1], false),
        (version(2, 2), [1], false),
        (version(1, 9), [1], false),
        (version(2, 4), [2], true),
        (version(3, 1), [1], true),
        (version(2, 9), [0], false),
    ];
    let mut kept = None;
    for (version, items, taken) in steps {
        let sent = row("v", &items, version);
        import(&shard, &[ExportedRow::Voter(sent.clone())]).await;
        if taken {
            kept = Some(sent);
        }
        assert_eq!(Some(stored_row(&shard, "v").await), kept, "{version:?}");
        let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
        assert_eq!((tally.total(), tally.voters), (1, 1));
    }
}

/// P9: a poll's row likewise; an older one reopens nothing and removes no
/// lanes.
pub async fn a_poll_is_taken_only_when_its_version_is_higher<F: ShardFixture>() {
    let (_fixture, shard) = importing::<F>(KEY).await;
    let mut closed = poll(1);
    closed.closed_at = Some(time(10));
    closed.spec.options.lanes = 20;
    import(
        &shard,
        &[ExportedRow::Poll(poll_row(poll(1), version(2, 1)))],
    )
    .await;
    import(
        &shard,
        &[ExportedRow::Poll(poll_row(closed.clone(), version(2, 2)))],
    )
    .await;
    let after = shard.digests(&slice()).await.unwrap();
    for stale in [version(2, 2), version(2, 1), version(1, 9)] {
        import(&shard, &[ExportedRow::Poll(poll_row(poll(1), stale))]).await;
        let kept = shard.poll(&slice(), poll(1).poll_id).await.unwrap();
        assert_eq!(kept, closed, "{stale:?}");
        assert_eq!(shard.digests(&slice()).await.unwrap(), after, "{stale:?}");
    }
    let lanes = shard.lanes(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!(lanes[0].len(), 20);
}

/// A source with every kind of row.
async fn source<F: ShardFixture>() -> (F, SharedShard, Vec<ExportedRow>) {
    let polls = [changeable(1), choices(2, 2, true), poll(3)];
    let (fixture, shard) = owner::<F>(&polls).await;
    for (number, name) in VOTERS.iter().enumerate() {
        let (item, request) = (number as u16 % 3, number as u64);
        for poll in &polls {
            cast(&shard, ballot(poll, name, item, request)).await;
        }
        cast(
            &shard,
            ballot(&polls[0], name, (item + 1) % 3, 100 + request),
        )
        .await;
        cast(
            &shard,
            ballot(&polls[1], name, (item + 2) % 3, 200 + request),
        )
        .await;
    }
    cast(&shard, withdrawal(&polls[0], "v1", 1, 300)).await;
    cast(&shard, withdrawal(&polls[0], "v2", 2, 300)).await;
    shard
        .close_poll(&at_epoch(1), polls[2].poll_id)
        .await
        .unwrap();
    shard
        .widen_lanes(&at_epoch(1), polls[1].poll_id, 32)
        .await
        .unwrap();
    shard.seal(&at_epoch(5), &token("m", 1)).await.unwrap();
    let rows = read_all_rows(&shard, &slice(), &VOTERS).await;
    (fixture, shard, rows)
}

const VOTERS: [&str; 7] = ["v0", "v1", "v2", "v3", "v4", "v5", "v6"];

/// What must be equal on both sides of a migration. Lanes may differ; their
/// sums are in the tallies.
async fn contents(shard: &SharedShard) -> super::snapshot::SliceSnapshot {
    let mut seen = snapshot(shard, &slice(), &VOTERS).await;
    seen.fence = None;
    seen.lanes.clear();
    seen
}

/// P9: an imported copy is equal: polls, rows, counts, digests; importing it
/// again changes nothing, also after a crash.
pub async fn a_copy_equals_its_source_and_importing_twice_changes_nothing<F: ShardFixture>() {
    let (_one, source, rows) = source::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    let (fixture, target) = importing::<F>(key).await;
    import(&target, &rows).await;
    let copied = contents(&target).await;
    assert_eq!(copied, contents(&source).await);
    import(&target, &rows).await;
    assert_eq!(contents(&target).await, copied);
    let target = crash(&fixture, target).await;
    assert_eq!(contents(&target).await, copied);
    import(&target, &rows).await;
    assert_eq!(contents(&target).await, copied);
}

/// P9: the order of pages does not matter, nor do older versions that arrive
/// late, as in a restarted export.
pub async fn the_order_of_imports_does_not_matter<F: ShardFixture>() {
    let (_one, source, rows) = source::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    let (_two, target) = importing::<F>(key).await;
    let (polls, voters): (Vec<ExportedRow>, Vec<ExportedRow>) = rows
        .into_iter()
        .partition(|change| matches!(change, ExportedRow::Poll(_)));
    import(&target, &polls).await;
    for change in voters.iter().rev() {
        import(&target, std::slice::from_ref(change)).await;
        if let ExportedRow::Voter(row) = change {
            let mut older = row.clone();
            older.version.revision -= 1;
            older.items = vec![0];
            import(&target, &[ExportedRow::Voter(older)]).await;
        }
    }
    assert_eq!(contents(&target).await, contents(&source).await);
}

/// P9: the new owner continues the versions: higher epoch, next revision.
pub async fn versions_continue_after_a_migration<F: ShardFixture>() {
    let (_one, source, rows) = source::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    let (_two, target) = importing::<F>(key).await;
    import(&target, &rows).await;
    target.activate(&at_epoch(5), &token("m", 1)).await.unwrap();
    let before = stored_row(&target, "v0").await;
    assert_eq!(before.version, version(1, 2));
    let change = ballot(&changeable(1), "v0", 2, 900);
    assert_eq!(cast_at(&target, 5, change).await, counted(3));
    assert_eq!(stored_row(&target, "v0").await.version, version(5, 3));
    let first = ballot(&changeable(1), "new", 2, 901);
    assert_eq!(cast_at(&target, 5, first).await, counted(1));
    assert_eq!(stored_row(&target, "new").await.version, version(5, 1));
    let closed = target
        .close_poll(&at_epoch(5), poll(1).poll_id)
        .await
        .unwrap();
    let mut voters = VOTERS.to_vec();
    voters.push("new");
    let mine = super::snapshot::rows(&target, &slice(), poll(1).poll_id, &voters).await;
    let expected = expected_digest(&key, &poll_row(closed, version(5, 2)), &mine);
    let digests = target.digests(&slice()).await.unwrap();
    assert_eq!(digests[0], (poll(1).poll_id, expected));
}

/// P9: a row without its poll is refused, and can be sent again after the poll.
pub async fn a_row_waits_for_its_poll<F: ShardFixture>() {
    let (_fixture, shard) = importing::<F>(KEY).await;
    let sent = [ExportedRow::Voter(row("v", &[1], version(1, 1)))];
    let early = shard.import(&slice(), &token("m", 1), &sent).await;
    assert!(early.is_err());
    import(
        &shard,
        &[ExportedRow::Poll(poll_row(poll(1), version(1, 1)))],
    )
    .await;
    let none = shard.voter(&slice(), poll(1).poll_id, &voter("v")).await;
    assert_eq!(none.unwrap(), None);
    import(&shard, &sent).await;
    assert_eq!(stored_row(&shard, "v").await.items, [1]);
}

/// P9: imported counts are counted once.
pub async fn imported_counts_are_counted_once<F: ShardFixture>() {
    let (fixture, shard) = importing::<F>(KEY).await;
    let mut carried = poll_row(poll(1), version(1, 1));
    carried.carried = vec![1_503, 0, 7];
    let changes = [
        ExportedRow::Poll(carried),
        ExportedRow::Voter(row("v", &[1], version(1, 1))),
    ];
    for _ in 0..2 {
        import(&shard, &changes).await;
    }
    let shard = crash(&fixture, shard).await;
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!((tally.counts, tally.voters), (vec![1_503, 1, 7], 1));
    let lanes = shard.lanes(&slice(), poll(1).poll_id).await.unwrap();
    let sums: Vec<u64> = lanes.iter().map(|lanes| lanes.iter().sum()).collect();
    assert_eq!(sums, [1_503, 1, 7]);
}

/// P9: an erased voter is recognised by the fingerprint, cannot vote twice, and
/// weighs the same in the digest.
pub async fn an_erased_voter_cannot_vote_twice<F: ShardFixture>() {
    let (_one, named) = importing::<F>(KEY).await;
    let (_two, erased) = importing::<F>(KEY).await;
    let polls = ExportedRow::Poll(poll_row(poll(1), version(1, 1)));
    let with_name = row("v", &[1], version(1, 1));
    let without = VoterRow {
        voter: VoterName::Erased(KEY.voter_print("v")),
        ..with_name.clone()
    };
    import(&named, &[polls.clone(), ExportedRow::Voter(with_name)]).await;
    import(&erased, &[polls, ExportedRow::Voter(without)]).await;
    let digests = named.digests(&slice()).await.unwrap();
    assert_eq!(erased.digests(&slice()).await.unwrap(), digests);
    erased.activate(&at_epoch(5), &token("m", 1)).await.unwrap();
    let again = ballot(&poll(1), "v", 1, 50);
    assert_eq!(cast_at(&erased, 5, again).await, already(1));
    let other = ballot(&poll(1), "v", 2, 51);
    assert_eq!(
        cast_at(&erased, 5, other).await,
        refused_as_already_voted(&poll(1), &[1])
    );
}
