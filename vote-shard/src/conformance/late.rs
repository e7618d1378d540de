//! P4: a worker without a lease, and another migration, change nothing;
//! repeated commands do no harm.

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::Epoch;

use super::builders::*;
use super::snapshot::snapshot;
use super::{ShardFixture, SharedShard, start};
use crate::shard::{Holding, MigrationToken, RowVersion, ShardResult, SliceKey, SliceStateError};

const KEY: SliceKey = SliceKey::from_bytes([9; 32]);

/// Every step of a migration, at a suitable epoch.
async fn steps(
    shard: &SharedShard,
    epoch: u64,
    token: &MigrationToken,
) -> Vec<(&'static str, ShardResult<()>)> {
    let (now, next) = (at_epoch(epoch), at_epoch(epoch + 1));
    vec![
        (
            "prepare",
            shard.prepare(&now, token, KEY, HashRange::WHOLE).await,
        ),
        (
            "prepare",
            shard.prepare(&next, token, KEY, HashRange::WHOLE).await,
        ),
        ("seal", shard.seal(&now, token).await),
        ("seal", shard.seal(&next, token).await),
        ("unseal", shard.unseal(&now, token).await),
        ("unseal", shard.unseal(&next, token).await),
        ("import", shard.import(&slice(), token, &[]).await),
        ("activate", shard.activate(&now, token).await),
        ("retire", shard.retire(&now, token).await),
        ("purge", shard.purge(&now, token, 9).await.map(drop)),
    ]
}

/// The slice in this holding, under token 5 at epoch 2, with a poll where
/// possible.
async fn in_holding<F: ShardFixture>(holding: Holding) -> (F, SharedShard) {
    let m = token("m", 5);
    if matches!(holding, Holding::Importing | Holding::Owner) {
        let (fixture, shard) = start::<F>().await;
        shard
            .prepare(&at_epoch(2), &m, KEY, HashRange::WHOLE)
            .await
            .unwrap();
        let version = RowVersion {
            epoch: Epoch(1),
            revision: 1,
        };
        let row = super::snapshot::poll_row(poll(1), version);
        let rows = [crate::shard::ExportedRow::Poll(row)];
        shard.import(&slice(), &m, &rows).await.unwrap();
        if holding == Holding::Owner {
            shard.activate(&at_epoch(2), &m).await.unwrap();
        }
        return (fixture, shard);
    }
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    shard.seal(&at_epoch(2), &m).await.unwrap();
    if holding != Holding::Sealed {
        shard.retire(&at_epoch(2), &m).await.unwrap();
    }
    if holding == Holding::Gone {
        shard.purge(&at_epoch(2), &m, 9).await.unwrap();
    }
    (fixture, shard)
}

const HOLDINGS: [Holding; 5] = [
    Holding::Importing,
    Holding::Owner,
    Holding::Sealed,
    Holding::Retired,
    Holding::Gone,
];

/// P4: every step refuses a lower token, in any state.
pub async fn a_late_worker_is_refused_at_every_step<F: ShardFixture>() {
    for holding in HOLDINGS {
        let (_fixture, shard) = in_holding::<F>(holding).await;
        let before = snapshot(&shard, &slice(), &[]).await;
        for (step, outcome) in steps(&shard, 2, &token("m", 4)).await {
            let refused = slice_state_error(outcome);
            assert_eq!(
                refused,
                SliceStateError::StaleToken { highest: 5 },
                "{step} when {holding:?}"
            );
        }
        assert_eq!(snapshot(&shard, &slice(), &[]).await, before, "{holding:?}");
    }
}

/// P4: a step by a newer worker fences the older one, even if it changed
/// nothing else; so does an import.
pub async fn a_newer_worker_shuts_out_the_older_one<F: ShardFixture>() {
    for holding in HOLDINGS {
        let (_fixture, shard) = in_holding::<F>(holding).await;
        let newer = token("m", 6);
        match holding {
            Holding::Importing => shard.import(&slice(), &newer, &[]).await.unwrap(),
            Holding::Owner => shard.activate(&at_epoch(2), &newer).await.unwrap(),
            Holding::Sealed => shard.seal(&at_epoch(2), &newer).await.unwrap(),
            Holding::Retired => shard.retire(&at_epoch(2), &newer).await.unwrap(),
            Holding::Gone => drop(shard.purge(&at_epoch(2), &newer, 9).await.unwrap()),
        }
        let fence = shard.fence(&slice()).await.unwrap().unwrap();
        assert_eq!((fence.holding, fence.token), (holding, 6));
        for (step, outcome) in steps(&shard, 2, &token("m", 5)).await {
            let refused = slice_state_error(outcome);
            assert_eq!(
                refused,
                SliceStateError::StaleToken { highest: 6 },
                "{step} when {holding:?}"
            );
        }
    }
}

/// P4: another migration, however new its token, neither ends nor undoes this
/// one. One with a higher epoch, which the registry assigns only after this one
/// is over, may start from the state that this one left.
pub async fn another_migration_is_refused<F: ShardFixture>() {
    let other = token("n", 9);
    for (holding, epoch) in [(Holding::Importing, 1), (Holding::Sealed, 2)] {
        let (_fixture, shard) = in_holding::<F>(holding).await;
        let before = snapshot(&shard, &slice(), &[]).await;
        for (step, outcome) in steps(&shard, epoch, &other).await {
            let refused = slice_state_error(outcome);
            assert!(
                matches!(
                    refused,
                    SliceStateError::OtherMigration | SliceStateError::WrongHolding { .. }
                ),
                "{step} when {holding:?}: {refused}"
            );
        }
        assert_eq!(snapshot(&shard, &slice(), &[]).await, before, "{holding:?}");
    }
}

/// P4: only retired data, or data half-imported by the same migration, is
/// removed.
pub async fn only_what_is_not_owned_is_purged<F: ShardFixture>() {
    for holding in [Holding::Owner, Holding::Sealed] {
        let (_fixture, shard) = in_holding::<F>(holding).await;
        let refused = slice_state_error(shard.purge(&at_epoch(2), &token("m", 9), 9).await);
        let epoch = Epoch(2);
        assert_eq!(refused, SliceStateError::WrongHolding { holding, epoch });
        assert_eq!(shard.polls(&slice(), None, 9).await.unwrap().len(), 1);
    }
    let (_fixture, shard) = in_holding::<F>(Holding::Importing).await;
    let refused = slice_state_error(shard.purge(&at_epoch(2), &token("n", 9), 9).await);
    assert_eq!(refused, SliceStateError::OtherMigration);
    let left = shard.purge(&at_epoch(2), &token("m", 5), 9).await.unwrap();
    assert_eq!(left, 0);
    let fence = shard.fence(&slice()).await.unwrap().unwrap();
    assert_eq!((fence.holding, fence.epoch), (Holding::Gone, Epoch(2)));
}

/// P4: a purge removes poll by poll, and the slice is gone with the last one.
pub async fn a_slice_is_purged_in_portions<F: ShardFixture>() {
    let polls: Vec<_> = (1..=5).map(poll).collect();
    let (fixture, shard) = owner::<F>(&polls).await;
    for poll in &polls {
        cast(&shard, ballot(poll, "v", 0, 1)).await;
    }
    let m = token("m", 1);
    shard.seal(&at_epoch(2), &m).await.unwrap();
    shard.retire(&at_epoch(2), &m).await.unwrap();
    for left in [3, 1] {
        assert_eq!(shard.purge(&at_epoch(2), &m, 2).await.unwrap(), left);
        let fence = shard.fence(&slice()).await.unwrap().unwrap();
        assert_eq!(fence.holding, Holding::Retired);
    }
    let shard = super::crash(&fixture, shard).await;
    assert_eq!(shard.polls(&slice(), None, 9).await.unwrap().len(), 1);
    for _ in 0..2 {
        assert_eq!(shard.purge(&at_epoch(2), &m, 2).await.unwrap(), 0);
        let fence = shard.fence(&slice()).await.unwrap().unwrap();
        assert_eq!(fence.holding, Holding::Gone);
    }
    assert_eq!(shard.digests(&slice()).await.unwrap(), []);
    assert_eq!(shard.usage().await.voters_in_memory, 0);
}

/// P4: an owned or gone slice refuses imports. A slice that this migration
/// retired accepts them.
pub async fn only_an_importing_slice_is_imported_into<F: ShardFixture>() {
    let (_fixture, shard) = in_holding::<F>(Holding::Retired).await;
    let m = token("m", 5);
    shard.import(&slice(), &m, &[]).await.unwrap();
    for holding in [Holding::Owner, Holding::Sealed, Holding::Gone] {
        let (_fixture, shard) = in_holding::<F>(holding).await;
        let refused = slice_state_error(shard.import(&slice(), &token("m", 5), &[]).await);
        let epoch = Epoch(2);
        assert_eq!(refused, SliceStateError::WrongHolding { holding, epoch });
    }
}

/// P4: every step can be repeated without effect.
pub async fn every_step_can_be_repeated<F: ShardFixture>() {
    let m = token("m", 5);
    for holding in HOLDINGS {
        let (_fixture, shard) = in_holding::<F>(holding).await;
        let before = snapshot(&shard, &slice(), &[]).await;
        match holding {
            Holding::Importing => shard
                .prepare(&at_epoch(2), &m, KEY, HashRange::WHOLE)
                .await
                .unwrap(),
            Holding::Owner => shard.activate(&at_epoch(2), &m).await.unwrap(),
            Holding::Sealed => shard.seal(&at_epoch(2), &m).await.unwrap(),
            Holding::Retired => shard.retire(&at_epoch(2), &m).await.unwrap(),
            Holding::Gone => drop(shard.purge(&at_epoch(2), &m, 9).await.unwrap()),
        }
        assert_eq!(snapshot(&shard, &slice(), &[]).await, before, "{holding:?}");
    }
    let (_fixture, shard) = in_holding::<F>(Holding::Sealed).await;
    for _ in 0..2 {
        shard.unseal(&at_epoch(3), &m).await.unwrap();
    }
    assert_eq!(
        cast_at(&shard, 3, ballot(&poll(1), "v", 0, 1)).await,
        counted(1)
    );
    shard.unseal(&at_epoch(3), &m).await.unwrap();
    assert_eq!(
        cast_at(&shard, 3, ballot(&poll(1), "v", 0, 2)).await,
        already(1)
    );
}

/// P4: a migration there and back, by two workers, loses nothing.
pub async fn a_slice_moves_there_and_back<F: ShardFixture>() {
    use super::snapshot::read_all_rows;
    let (_one, source) = owner::<F>(&[changeable(1)]).await;
    let (_two, target) = start::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    cast(&source, ballot(&changeable(1), "v", 0, 1)).await;
    let (mut from, mut to) = (&source, &target);
    for (place, epoch) in [(0, 2), (1, 4), (2, 6)] {
        let m = token(&format!("m{place}"), epoch);
        to.prepare(&at_epoch(epoch), &m, key, HashRange::WHOLE)
            .await
            .unwrap();
        from.seal(&at_epoch(epoch), &m).await.unwrap();
        let rows = read_all_rows(from, &slice(), &["v", "w"]).await;
        let digests = from.digests(&slice()).await.unwrap();
        to.import(&slice(), &m, &rows).await.unwrap();
        assert_eq!(to.digests(&slice()).await.unwrap(), digests);
        from.retire(&at_epoch(epoch), &m).await.unwrap();
        to.activate(&at_epoch(epoch), &m).await.unwrap();
        assert_eq!(from.purge(&at_epoch(epoch), &m, 9).await.unwrap(), 0);
        let change = ballot(&changeable(1), "v", (place + 1) % 3, 100 + u64::from(place));
        let revision = u32::from(place) + 2;
        assert_eq!(cast_at(to, epoch, change).await, counted(revision));
        let late = [ballot(&changeable(1), "w", 0, 7)];
        let late = from.cast(&at_epoch(epoch - 1), &late).await;
        assert_eq!(fenced(late), moved(epoch));
        (from, to) = (to, from);
    }
    let tally = from.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!((tally.counts, tally.voters), (vec![1, 0, 0], 1));
}

/// P4: a migration that was cancelled before its seal or its first command
/// arrived is over: late commands find a newer epoch.
pub async fn commands_of_a_cancelled_migration_are_stale<F: ShardFixture>() {
    let (_one, source) = owner::<F>(&[poll(1)]).await;
    let (_two, target) = start::<F>().await;
    let m = token("m", 5);
    // The migration was to seal at epoch 3; it was cancelled at epoch 4.
    source.unseal(&at_epoch(4), &m).await.unwrap();
    assert_eq!(target.purge(&at_epoch(2), &m, 9).await.unwrap(), 0);
    let late = source.seal(&at_epoch(3), &m).await;
    assert!(matches!(
        slice_state_error(late),
        SliceStateError::WrongHolding { .. }
    ));
    let late = target
        .prepare(&at_epoch(2), &m, KEY, HashRange::WHOLE)
        .await;
    assert!(matches!(
        slice_state_error(late),
        SliceStateError::WrongHolding { .. }
    ));
    let ballot = ballot(&poll(1), "v", 0, 1);
    assert_eq!(cast_at(&source, 4, ballot).await, counted(1));
    let fence = target.fence(&slice()).await.unwrap().unwrap();
    assert_eq!((fence.holding, fence.epoch), (Holding::Gone, Epoch(2)));
    target
        .prepare(&at_epoch(5), &token("n", 6), KEY, HashRange::WHOLE)
        .await
        .unwrap();
}

/// P8: a slice returns to a shard that kept its copy: newer rows win, and the
/// rest need not be copied again.
pub async fn a_kept_copy_is_reused<F: ShardFixture>() {
    use super::snapshot::read_all_rows;
    let (_one, source) = owner::<F>(&[changeable(1)]).await;
    let (_two, target) = start::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    for name in ["v", "w"] {
        cast(&source, ballot(&changeable(1), name, 0, 1)).await;
    }
    let m = token("m", 2);
    target
        .prepare(&at_epoch(2), &m, key, HashRange::WHOLE)
        .await
        .unwrap();
    source.seal(&at_epoch(3), &m).await.unwrap();
    let rows = read_all_rows(&source, &slice(), &["v", "w"]).await;
    target.import(&slice(), &m, &rows).await.unwrap();
    target.activate(&at_epoch(3), &m).await.unwrap();
    source.retire(&at_epoch(3), &m).await.unwrap();
    let change = ballot(&changeable(1), "v", 1, 2);
    assert_eq!(cast_at(&target, 3, change).await, counted(2));
    let back = token("n", 4);
    source
        .prepare(&at_epoch(4), &back, key, HashRange::WHOLE)
        .await
        .unwrap();
    // A purge that was commanded before the way back is stale.
    assert!(source.purge(&at_epoch(3), &m, 9).await.is_err());
    target.seal(&at_epoch(5), &back).await.unwrap();
    let rows = read_all_rows(&target, &slice(), &["v", "w"]).await;
    source.import(&slice(), &back, &rows).await.unwrap();
    let digests = target.digests(&slice()).await.unwrap();
    assert_eq!(source.digests(&slice()).await.unwrap(), digests);
    source.activate(&at_epoch(5), &back).await.unwrap();
    target.retire(&at_epoch(5), &back).await.unwrap();
    let again = ballot(&changeable(1), "w", 2, 3);
    assert_eq!(cast_at(&source, 5, again).await, counted(2));
}
