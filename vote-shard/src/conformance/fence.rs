//! P3: only the owner at exactly its epoch accepts a write, and a shard forgets
//! no slice.

use ballast_domain::poll::{BallotRefusal, Poll};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::Epoch;

use super::builders::*;
use super::{ShardFixture, SharedShard, crash, reopen, start};
use crate::shard::{
    Fence, FenceError, FencedSlice, Holding, ShardResult, SliceKey, SliceStateError,
};

const KEY: SliceKey = SliceKey::from_bytes([9; 32]);

async fn holding(shard: &SharedShard, tenant: &str) -> Option<(Holding, u64)> {
    let fence = shard.fence(&slice_for(tenant)).await.unwrap();
    fence.map(|fence| (fence.holding, fence.epoch.0))
}

/// The fence's error for every kind of write.
async fn writes(shard: &SharedShard, at: &FencedSlice, poll: &Poll) -> Vec<ShardResult<()>> {
    let fresh = Poll {
        request: ballast_domain::poll::RequestId(77_777),
        ..super::builders::poll(77_777)
    };
    vec![
        shard.cast(at, &[ballot(poll, "v", 0, 1)]).await.map(drop),
        shard.cast(at, &[]).await.map(drop),
        shard.create_poll(at, poll.clone()).await.map(drop),
        shard.create_poll(at, fresh).await.map(drop),
        shard.close_poll(at, poll.poll_id).await.map(drop),
        shard.widen_lanes(at, poll.poll_id, 20).await.map(drop),
        shard.narrow_lanes(at, poll.poll_id, 2).await.map(drop),
    ]
}

/// Asserts that every kind of write is refused with this error.
async fn assert_all(shard: &SharedShard, at: &FencedSlice, poll: &Poll, expected: FenceError) {
    for (place, outcome) in writes(shard, at, poll).await.into_iter().enumerate() {
        assert_eq!(fenced(outcome), expected, "write {place} at {at:?}");
    }
}

/// One slice per holding, named after it, sealed or moved at epoch 5.
async fn every_holding(shard: &SharedShard) {
    let (one, m) = (|tenant| fenced_slice(tenant, 1), token("m", 3));
    for tenant in ["owner", "sealed", "retired", "gone"] {
        shard.adopt(&one(tenant)).await.unwrap();
        shard.create_poll(&one(tenant), poll(1)).await.unwrap();
    }
    for tenant in ["sealed", "retired", "gone"] {
        shard.seal(&fenced_slice(tenant, 5), &m).await.unwrap();
    }
    for tenant in ["retired", "gone"] {
        shard.retire(&fenced_slice(tenant, 5), &m).await.unwrap();
    }
    assert_eq!(
        shard.purge(&fenced_slice("gone", 5), &m, 10).await.unwrap(),
        0
    );
    for tenant in ["importing", "activated"] {
        shard
            .prepare(&fenced_slice(tenant, 5), &m, KEY, HashRange::WHOLE)
            .await
            .unwrap();
    }
    shard
        .activate(&fenced_slice("activated", 5), &m)
        .await
        .unwrap();
}

/// P3: no record, no write.
pub async fn an_unknown_slice_accepts_no_write<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    assert_all(
        &shard,
        &at_epoch(1),
        &poll(1),
        FenceError::NotOwner { epoch: None },
    )
    .await;
    assert_eq!(shard.fence(&slice()).await.unwrap(), None);
    assert_eq!(shard.polls(&slice(), None, 10).await.unwrap(), []);
    let absent = shard.poll(&slice(), poll(1).poll_id).await;
    assert_eq!(refusal(absent), BallotRefusal::PollNotFound);
}

/// P3: a slice is adopted at the first epoch and at no other.
pub async fn a_slice_is_adopted_only_at_the_first_epoch<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    assert_eq!(
        slice_state_error(shard.adopt(&at_epoch(2)).await),
        SliceStateError::UnknownSlice
    );
    assert_eq!(shard.fence(&slice()).await.unwrap(), None);
    shard.adopt(&at_epoch(1)).await.unwrap();
    let fence = shard.fence(&slice()).await.unwrap();
    assert_eq!(fence, Some(Fence::new_owner(Epoch::FIRST)));
}

/// P3: adopting a known slice changes nothing, whatever its holding.
pub async fn adopting_a_known_slice_changes_nothing<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    for tenant in [
        "owner",
        "sealed",
        "retired",
        "gone",
        "importing",
        "activated",
    ] {
        let slice = slice_for(tenant);
        let before = shard.fence(&slice).await.unwrap();
        let key = shard.slice_key(&slice).await.unwrap();
        for epoch in [1, 2, 9] {
            shard.adopt(&fenced_slice(tenant, epoch)).await.unwrap();
        }
        assert_eq!(shard.fence(&slice).await.unwrap(), before, "{tenant}");
        assert_eq!(shard.slice_key(&slice).await.unwrap(), key, "{tenant}");
    }
}

/// P3: only the owner at the same epoch accepts a write. A lower epoch gets
/// "not the owner", a higher one "behind", and a sealed slice "sealed".
pub async fn only_the_owner_at_exactly_its_epoch_accepts_a_write<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    let cases = [
        ("activated", 4, moved(5)),
        ("activated", 6, behind(5)),
        ("sealed", 4, sealed(5)),
        ("sealed", 5, sealed(5)),
        ("sealed", 6, behind(5)),
        ("retired", 4, moved(5)),
        ("retired", 5, moved(5)),
        ("retired", 6, behind(5)),
        ("gone", 4, moved(5)),
        ("gone", 5, moved(5)),
        ("gone", 6, behind(5)),
        ("importing", 4, moved(5)),
        ("importing", 5, behind(5)),
        ("importing", 6, behind(5)),
    ];
    for (tenant, epoch, expected) in cases {
        let before = shard.digests(&slice_for(tenant)).await.unwrap();
        assert_all(&shard, &fenced_slice(tenant, epoch), &poll(1), expected).await;
        let after = shard.digests(&slice_for(tenant)).await.unwrap();
        assert_eq!(after, before, "{tenant} at {epoch}");
    }
    for (tenant, epoch) in [("owner", 1), ("activated", 5)] {
        for (place, outcome) in writes(&shard, &fenced_slice(tenant, epoch), &poll(1))
            .await
            .into_iter()
            .enumerate()
        {
            assert!(outcome.is_ok(), "write {place} to {tenant}: {outcome:?}");
        }
    }
}

/// P3: only adopting and preparing create a record; and purging, which fences
/// older commands.
pub async fn only_adopting_and_preparing_create_a_record<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    let (two, m) = (at_epoch(2), token("m", 1));
    let outcomes = [
        shard.seal(&two, &m).await,
        shard.unseal(&two, &m).await,
        shard.activate(&two, &m).await,
        shard.retire(&two, &m).await,
        shard.import(&slice(), &m, &[]).await,
        shard.slice_key(&slice()).await.map(drop),
        shard.digests(&slice()).await.map(drop),
    ];
    for (place, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(
            slice_state_error(outcome),
            SliceStateError::UnknownSlice,
            "{place}"
        );
    }
    assert_eq!(shard.fence(&slice()).await.unwrap(), None);
    shard
        .prepare(&two, &m, KEY, HashRange::WHOLE)
        .await
        .unwrap();
    assert_eq!(holding(&shard, "acme").await, Some((Holding::Importing, 2)));
}

/// P3: an imported slice is owned from its activation on, and not before.
pub async fn a_prepared_slice_is_owned_when_it_is_activated<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    let m = token("m", 1);
    shard
        .prepare(&at_epoch(2), &m, KEY, HashRange::WHOLE)
        .await
        .unwrap();
    assert_eq!(shard.slice_key(&slice()).await.unwrap(), KEY);
    assert_all(&shard, &at_epoch(2), &poll(1), behind(2)).await;
    shard.activate(&at_epoch(2), &m).await.unwrap();
    assert_eq!(holding(&shard, "acme").await, Some((Holding::Owner, 2)));
    shard.create_poll(&at_epoch(2), poll(1)).await.unwrap();
    assert_eq!(
        cast_at(&shard, 2, ballot(&poll(1), "v", 0, 1)).await,
        counted(1)
    );
}

/// P3: the record outlives the data, and still refuses stale commands.
pub async fn a_record_outlives_its_data<F: ShardFixture>() {
    let (fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    assert_eq!(holding(&shard, "gone").await, Some((Holding::Gone, 5)));
    assert_eq!(shard.polls(&slice_for("gone"), None, 9).await.unwrap(), []);
    let shard = crash(&fixture, shard).await;
    assert_eq!(holding(&shard, "gone").await, Some((Holding::Gone, 5)));
    assert_all(&shard, &fenced_slice("gone", 1), &poll(1), moved(5)).await;
    shard.adopt(&fenced_slice("gone", 1)).await.unwrap();
    assert_all(&shard, &fenced_slice("gone", 1), &poll(1), moved(5)).await;
}

/// P3: no step lowers the epoch, and neither does a new migration.
pub async fn the_epoch_never_falls<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    let (m, state) = (token("m", 3), |holding| SliceStateError::WrongHolding {
        holding,
        epoch: Epoch(5),
    });
    for epoch in [1, 4, 5] {
        let sealing = shard.seal(&fenced_slice("activated", epoch), &m).await;
        assert_eq!(slice_state_error(sealing), state(Holding::Owner), "{epoch}");
        let unsealing = shard.unseal(&fenced_slice("sealed", epoch), &m).await;
        assert_eq!(
            slice_state_error(unsealing),
            state(Holding::Sealed),
            "{epoch}"
        );
        let n = token("n", 4);
        let preparing = shard
            .prepare(&fenced_slice("gone", epoch), &n, KEY, HashRange::WHOLE)
            .await;
        assert_eq!(
            slice_state_error(preparing),
            state(Holding::Gone),
            "{epoch}"
        );
    }
    let activating = shard.activate(&fenced_slice("importing", 4), &m).await;
    assert_eq!(slice_state_error(activating), state(Holding::Importing));
    let retiring = shard.retire(&fenced_slice("sealed", 4), &m).await;
    assert_eq!(slice_state_error(retiring), state(Holding::Sealed));
    shard.unseal(&fenced_slice("sealed", 6), &m).await.unwrap();
    assert_eq!(holding(&shard, "sealed").await, Some((Holding::Owner, 6)));
    let again = token("n", 4);
    shard
        .prepare(&fenced_slice("gone", 6), &again, KEY, HashRange::WHOLE)
        .await
        .unwrap();
    assert_eq!(holding(&shard, "gone").await, Some((Holding::Importing, 6)));
}

/// P3: a slice can return only to a shard that does not own it; and with
/// another key only to one without data of it, which that key would not fit.
pub async fn a_slice_comes_back_only_where_it_is_not_owned<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    for tenant in ["owner", "sealed", "retired", "activated"] {
        let preparing = shard
            .prepare(
                &fenced_slice(tenant, 9),
                &token("n", 9),
                KEY,
                HashRange::WHOLE,
            )
            .await;
        let refused = slice_state_error(preparing);
        assert!(
            matches!(refused, SliceStateError::WrongHolding { .. }),
            "{tenant} {refused}"
        );
    }
    let key = shard.slice_key(&slice_for("retired")).await.unwrap();
    for (tenant, key) in [("retired", key), ("importing", KEY), ("gone", KEY)] {
        let (here, n) = (fenced_slice(tenant, 9), token("n", 9));
        shard
            .prepare(&here, &n, key, HashRange::WHOLE)
            .await
            .unwrap();
        assert_eq!(holding(&shard, tenant).await, Some((Holding::Importing, 9)));
    }
}

/// P3: fences survive a restart and a crash.
pub async fn fences_survive_reopening<F: ShardFixture>() {
    let (fixture, mut shard) = start::<F>().await;
    every_holding(&shard).await;
    let tenants = [
        "owner",
        "sealed",
        "retired",
        "gone",
        "importing",
        "activated",
    ];
    let mut before = Vec::new();
    for tenant in tenants {
        let key = shard.slice_key(&slice_for(tenant)).await.unwrap();
        before.push((shard.fence(&slice_for(tenant)).await.unwrap(), key));
    }
    for badly in [false, true] {
        shard = match badly {
            false => reopen(&fixture, shard).await,
            true => crash(&fixture, shard).await,
        };
        for (tenant, (fence, key)) in tenants.iter().zip(&before) {
            let slice = slice_for(tenant);
            assert_eq!(shard.fence(&slice).await.unwrap(), *fence, "{tenant}");
            assert_eq!(shard.slice_key(&slice).await.unwrap(), *key, "{tenant}");
        }
    }
    assert_all(&shard, &fenced_slice("sealed", 1), &poll(1), sealed(5)).await;
    assert_all(&shard, &fenced_slice("retired", 5), &poll(1), moved(5)).await;
    assert_all(&shard, &fenced_slice("importing", 5), &poll(1), behind(5)).await;
    assert_all(&shard, &fenced_slice("owner", 2), &poll(1), behind(1)).await;
    let late = shard
        .unseal(&fenced_slice("sealed", 6), &token("m", 2))
        .await;
    assert_eq!(
        slice_state_error(late),
        SliceStateError::StaleToken { highest: 3 }
    );
    shard
        .activate(&fenced_slice("importing", 5), &token("m", 3))
        .await
        .unwrap();
}

/// P3: slices and their fences are independent, also on one shard.
pub async fn slices_are_apart<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    shard.adopt(&fenced_slice("other", 1)).await.unwrap();
    let unknown = shard.poll(&slice_for("other"), poll(1).poll_id).await;
    assert_eq!(refusal(unknown), BallotRefusal::PollNotFound);
    shard
        .create_poll(&fenced_slice("other", 1), poll(1))
        .await
        .unwrap();
    cast(&shard, ballot(&poll(1), "v", 0, 1)).await;
    let other = shard.tally(&slice_for("other"), poll(1).poll_id).await;
    assert_eq!(other.unwrap().total(), 0);
    shard.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    let other_vote = [ballot(&poll(1), "v", 1, 2)];
    let verdicts = shard.cast(&fenced_slice("other", 1), &other_vote).await;
    assert_eq!(verdicts.unwrap(), [counted(1)]);
    let keys = [slice(), slice_for("other")];
    let [one, two] = keys.each_ref().map(|slice| shard.slice_key(slice));
    assert_ne!(one.await.unwrap(), two.await.unwrap());
}
