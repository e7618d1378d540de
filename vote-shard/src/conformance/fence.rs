//! P3: only the owner at the very epoch takes a write, and a shard forgets no
//! slice.

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
    let fence = shard.fence(&slice_of(tenant)).await.unwrap();
    fence.map(|fence| (fence.holding, fence.epoch.0))
}

/// What the fence says to every kind of write.
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

/// Every kind of write is refused like this.
async fn assert_all(shard: &SharedShard, at: &FencedSlice, poll: &Poll, expected: FenceError) {
    for (place, outcome) in writes(shard, at, poll).await.into_iter().enumerate() {
        assert_eq!(fenced(outcome), expected, "write {place} at {at:?}");
    }
}

/// One slice for each holding, named after it, sealed or moved to at epoch 5.
async fn every_holding(shard: &SharedShard) {
    let (one, m) = (|tenant| at_of(tenant, 1), token("m", 3));
    for tenant in ["owner", "sealed", "retired", "gone"] {
        shard.adopt(&one(tenant)).await.unwrap();
        shard.create_poll(&one(tenant), poll(1)).await.unwrap();
    }
    for tenant in ["sealed", "retired", "gone"] {
        shard.seal(&at_of(tenant, 5), &m).await.unwrap();
    }
    for tenant in ["retired", "gone"] {
        shard.retire(&at_of(tenant, 5), &m).await.unwrap();
    }
    assert_eq!(shard.purge(&at_of("gone", 5), &m, 10).await.unwrap(), 0);
    for tenant in ["importing", "activated"] {
        shard
            .prepare(&at_of(tenant, 5), &m, KEY, HashRange::WHOLE)
            .await
            .unwrap();
    }
    shard.activate(&at_of("activated", 5), &m).await.unwrap();
}

/// P3: no record, no write.
pub async fn a_slice_nobody_was_told_of_takes_no_write<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    assert_all(
        &shard,
        &at(1),
        &poll(1),
        FenceError::NotOwner { epoch: None },
    )
    .await;
    assert_eq!(shard.fence(&slice()).await.unwrap(), None);
    assert_eq!(shard.polls(&slice(), None, 10).await.unwrap(), []);
    let absent = shard.poll(&slice(), poll(1).poll_id).await;
    assert_eq!(refusal(absent), BallotRefusal::PollNotFound);
}

/// P3: a slice is founded at the first epoch and at no other.
pub async fn a_slice_is_founded_only_at_the_first_epoch<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    assert_eq!(
        unfit(shard.adopt(&at(2)).await),
        SliceStateError::UnknownSlice
    );
    assert_eq!(shard.fence(&slice()).await.unwrap(), None);
    shard.adopt(&at(1)).await.unwrap();
    let fence = shard.fence(&slice()).await.unwrap();
    assert_eq!(fence, Some(Fence::new_owner(Epoch::FIRST)));
}

/// P3: founding what is known, whatever it is, changes nothing.
pub async fn founding_what_is_known_changes_nothing<F: ShardFixture>() {
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
        let slice = slice_of(tenant);
        let before = shard.fence(&slice).await.unwrap();
        let key = shard.slice_key(&slice).await.unwrap();
        for epoch in [1, 2, 9] {
            shard.adopt(&at_of(tenant, epoch)).await.unwrap();
        }
        assert_eq!(shard.fence(&slice).await.unwrap(), before, "{tenant}");
        assert_eq!(shard.slice_key(&slice).await.unwrap(), key, "{tenant}");
    }
}

/// P3: a write is taken only as the owner and at the equal epoch. A lower
/// epoch is told that the slice moved, a higher one that the shard is behind,
/// and a sealed slice says so.
pub async fn only_the_owner_at_the_very_epoch_takes_a_write<F: ShardFixture>() {
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
        let before = shard.digests(&slice_of(tenant)).await.unwrap();
        assert_all(&shard, &at_of(tenant, epoch), &poll(1), expected).await;
        let after = shard.digests(&slice_of(tenant)).await.unwrap();
        assert_eq!(after, before, "{tenant} at {epoch}");
    }
    for (tenant, epoch) in [("owner", 1), ("activated", 5)] {
        for (place, outcome) in writes(&shard, &at_of(tenant, epoch), &poll(1))
            .await
            .into_iter()
            .enumerate()
        {
            assert!(outcome.is_ok(), "write {place} to {tenant}: {outcome:?}");
        }
    }
}

/// P3: only founding and preparing make a record; and purging, which writes
/// down that what was ordered before comes too late.
pub async fn only_founding_and_preparing_make_a_record<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    let (two, m) = (at(2), token("m", 1));
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
        assert_eq!(unfit(outcome), SliceStateError::UnknownSlice, "{place}");
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
        .prepare(&at(2), &m, KEY, HashRange::WHOLE)
        .await
        .unwrap();
    assert_eq!(shard.slice_key(&slice()).await.unwrap(), KEY);
    assert_all(&shard, &at(2), &poll(1), behind(2)).await;
    shard.activate(&at(2), &m).await.unwrap();
    assert_eq!(holding(&shard, "acme").await, Some((Holding::Owner, 2)));
    shard.create_poll(&at(2), poll(1)).await.unwrap();
    assert_eq!(
        cast_at(&shard, 2, ballot(&poll(1), "v", 0, 1)).await,
        counted(1)
    );
}

/// P3: the record outlives the data, and still refuses what is stale.
pub async fn a_record_outlives_its_data<F: ShardFixture>() {
    let (fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    assert_eq!(holding(&shard, "gone").await, Some((Holding::Gone, 5)));
    assert_eq!(shard.polls(&slice_of("gone"), None, 9).await.unwrap(), []);
    let shard = crash(&fixture, shard).await;
    assert_eq!(holding(&shard, "gone").await, Some((Holding::Gone, 5)));
    assert_all(&shard, &at_of("gone", 1), &poll(1), moved(5)).await;
    shard.adopt(&at_of("gone", 1)).await.unwrap();
    assert_all(&shard, &at_of("gone", 1), &poll(1), moved(5)).await;
}

/// P3: no step takes the epoch down, nor does a new move that comes back.
pub async fn the_epoch_never_falls<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    let (m, state) = (token("m", 3), |holding| SliceStateError::WrongHolding {
        holding,
        epoch: Epoch(5),
    });
    for epoch in [1, 4, 5] {
        let sealing = shard.seal(&at_of("activated", epoch), &m).await;
        assert_eq!(unfit(sealing), state(Holding::Owner), "{epoch}");
        let unsealing = shard.unseal(&at_of("sealed", epoch), &m).await;
        assert_eq!(unfit(unsealing), state(Holding::Sealed), "{epoch}");
        let n = token("n", 4);
        let preparing = shard
            .prepare(&at_of("gone", epoch), &n, KEY, HashRange::WHOLE)
            .await;
        assert_eq!(unfit(preparing), state(Holding::Gone), "{epoch}");
    }
    let activating = shard.activate(&at_of("importing", 4), &m).await;
    assert_eq!(unfit(activating), state(Holding::Importing));
    let retiring = shard.retire(&at_of("sealed", 4), &m).await;
    assert_eq!(unfit(retiring), state(Holding::Sealed));
    shard.unseal(&at_of("sealed", 6), &m).await.unwrap();
    assert_eq!(holding(&shard, "sealed").await, Some((Holding::Owner, 6)));
    let again = token("n", 4);
    shard
        .prepare(&at_of("gone", 6), &again, KEY, HashRange::WHOLE)
        .await
        .unwrap();
    assert_eq!(holding(&shard, "gone").await, Some((Holding::Importing, 6)));
}

/// P3: a slice comes back only where it is not owned; and with another key, only
/// where no data of it is left, which the key would not fit.
pub async fn a_slice_comes_back_only_where_it_is_not_owned<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    every_holding(&shard).await;
    for tenant in ["owner", "sealed", "retired", "activated"] {
        let preparing = shard
            .prepare(&at_of(tenant, 9), &token("n", 9), KEY, HashRange::WHOLE)
            .await;
        let refused = unfit(preparing);
        assert!(
            matches!(refused, SliceStateError::WrongHolding { .. }),
            "{tenant} {refused}"
        );
    }
    let key = shard.slice_key(&slice_of("retired")).await.unwrap();
    for (tenant, key) in [("retired", key), ("importing", KEY), ("gone", KEY)] {
        let (here, n) = (at_of(tenant, 9), token("n", 9));
        shard
            .prepare(&here, &n, key, HashRange::WHOLE)
            .await
            .unwrap();
        assert_eq!(holding(&shard, tenant).await, Some((Holding::Importing, 9)));
    }
}

/// P3: all of it is the same after the shard was closed, or crashed.
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
        let key = shard.slice_key(&slice_of(tenant)).await.unwrap();
        before.push((shard.fence(&slice_of(tenant)).await.unwrap(), key));
    }
    for badly in [false, true] {
        shard = match badly {
            false => reopen(&fixture, shard).await,
            true => crash(&fixture, shard).await,
        };
        for (tenant, (fence, key)) in tenants.iter().zip(&before) {
            let slice = slice_of(tenant);
            assert_eq!(shard.fence(&slice).await.unwrap(), *fence, "{tenant}");
            assert_eq!(shard.slice_key(&slice).await.unwrap(), *key, "{tenant}");
        }
    }
    assert_all(&shard, &at_of("sealed", 1), &poll(1), sealed(5)).await;
    assert_all(&shard, &at_of("retired", 5), &poll(1), moved(5)).await;
    assert_all(&shard, &at_of("importing", 5), &poll(1), behind(5)).await;
    assert_all(&shard, &at_of("owner", 2), &poll(1), behind(1)).await;
    let late = shard.unseal(&at_of("sealed", 6), &token("m", 2)).await;
    assert_eq!(unfit(late), SliceStateError::StaleToken { highest: 3 });
    shard
        .activate(&at_of("importing", 5), &token("m", 3))
        .await
        .unwrap();
}

/// P3: slices and their fences are apart, also on one shard.
pub async fn slices_are_apart<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    shard.adopt(&at_of("other", 1)).await.unwrap();
    let unknown = shard.poll(&slice_of("other"), poll(1).poll_id).await;
    assert_eq!(refusal(unknown), BallotRefusal::PollNotFound);
    shard
        .create_poll(&at_of("other", 1), poll(1))
        .await
        .unwrap();
    cast(&shard, ballot(&poll(1), "v", 0, 1)).await;
    let other = shard.tally(&slice_of("other"), poll(1).poll_id).await;
    assert_eq!(other.unwrap().total(), 0);
    shard.seal(&at(2), &token("m", 1)).await.unwrap();
    let beside = [ballot(&poll(1), "v", 1, 2)];
    let verdicts = shard.cast(&at_of("other", 1), &beside).await;
    assert_eq!(verdicts.unwrap(), [counted(1)]);
    let keys = [slice(), slice_of("other")];
    let [one, two] = keys.each_ref().map(|slice| shard.slice_key(slice));
    assert_ne!(one.await.unwrap(), two.await.unwrap());
}
