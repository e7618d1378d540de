//! Leases: one worker at a time, and only with the latest lease.

use std::collections::HashSet;

use super::helpers::*;
use super::{OpenStore, StoreFixture};
use crate::store::{AppendError, ExecutionClaimError, Lease};

async fn assert_fenced(store: &OpenStore, lease: &Lease, seq: u64) {
    let before = (
        store.get(&lease.id).await.unwrap(),
        history(store, &lease.id).await,
    );
    let refused = store.append(with_snapshot(step(lease, seq), "no")).await;
    assert!(
        matches!(refused, Err(AppendError::Fenced { .. })),
        "{refused:?}"
    );
    let after = (
        store.get(&lease.id).await.unwrap(),
        history(store, &lease.id).await,
    );
    assert_eq!(after, before);
}

/// A worker that lost its lease is refused whatever it appends; the new holder
/// continues from the last step.
pub async fn a_worker_without_its_lease_is_refused<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let old = create(&store, "x").await;
    append(&store, step(&old, 2)).await;
    let claims = claim(&store, "b", LEASE_END).await;
    assert_eq!(claimed(&claims), ["x"]);
    let new = &claims[0].lease;
    assert!(new.fence > old.fence);
    assert_fenced(&store, &old, 3).await;
    append(&store, step(new, 3)).await;
    assert_fenced(&store, &old, 3).await;
    assert_fenced(&store, &old, 4).await;
    append(&store, step(new, 4)).await;
    let all: Vec<_> = (1..=4).map(history_event).collect();
    assert_eq!(history(&store, "x").await, all);
    let claims = claim(&store, "c", 1_000_000).await;
    assert_eq!(claims[0].snapshot, None);
}

/// No one can claim a held execution before its lease expires. Until another worker
/// claims it, the holder may continue.
pub async fn a_lease_expires<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    assert_eq!(claim(&store, "b", LEASE_END - 1).await, []);
    // The lease expired, but no one claimed the execution.
    append(&store, step(&lease, 2)).await;
    let claims = claim(&store, "b", LEASE_END).await;
    assert_eq!(claimed(&claims), ["x"]);
    assert_eq!(claims[0].entries, [stored_entry(1), stored_entry(2)]);
    assert_eq!(get_row(&store, "x").await.worker.as_deref(), Some("b"));
    assert_eq!(claim(&store, "c", LEASE_END + 1).await, []);
    assert_eq!(claimed(&claim(&store, "c", LEASE_END + 1_000).await), ["x"]);
}

/// A renewed lease lasts longer, with the same fence.
pub async fn a_renewed_lease_lasts_longer<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let x = create(&store, "x").await;
    let y = create(&store, "y").await;
    let held = store
        .renew_leases(std::slice::from_ref(&x), 5_000)
        .await
        .unwrap();
    assert_eq!(held, std::slice::from_ref(&x));
    assert_eq!(claimed(&claim(&store, "b", 4_999).await), ["y"]);
    append(&store, step(&x, 2)).await;
    assert_fenced(&store, &y, 2).await;
    assert_eq!(claimed(&claim(&store, "b", 5_000).await), ["x"]);
}

/// Only valid leases are renewed.
pub async fn a_lost_lease_is_not_renewed<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lost = create(&store, "lost").await;
    claim(&store, "b", LEASE_END).await;
    let given_up = create(&store, "given-up").await;
    append(&store, parking_step(step(&given_up, 2), None)).await;
    let over = ended(&store, "over", crate::store::StoredStatus::Aborted, 1).await;
    let held = create(&store, "held").await;
    let absent = Lease {
        id: "absent".to_owned(),
        fence: 1,
    };
    let all = [lost, given_up, over, held.clone(), absent];
    assert_eq!(store.renew_leases(&all, 9_000).await.unwrap(), [held]);
    assert_eq!(store.renew_leases(&[], 9_000).await.unwrap(), []);
    assert_eq!(
        get_row(&store, "lost").await.due_at_ms,
        Some(LEASE_END + 1_000)
    );
    assert_eq!(get_row(&store, "given-up").await.due_at_ms, None);
    assert_eq!(get_row(&store, "over").await.due_at_ms, None);
}

/// Parking releases the lease.
pub async fn parking_releases_the_lease<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, parking_step(step(&lease, 2), None)).await;
    assert_eq!(get_row(&store, "x").await.worker, None);
    assert_fenced(&store, &lease, 3).await;
    let one = store.claim_one("x", &claimant("a", 50, 99)).await.unwrap();
    assert!(one.lease.fence > lease.fence);
    assert_fenced(&store, &lease, 3).await;
    append(&store, step(&one.lease, 3)).await;
}

/// Claiming one execution by its id: due or not, but not while another worker holds
/// it.
pub async fn one_execution_is_claimed_by_its_id<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    match store.claim_one("x", &claimant("b", 500, 800)).await {
        Err(ExecutionClaimError::Held {
            worker, until_ms, ..
        }) => {
            assert_eq!((worker.as_str(), until_ms), ("a", LEASE_END));
        }
        other => panic!("{other:?}"),
    }
    append(&store, step(&lease, 2)).await;
    let claim = store
        .claim_one("x", &claimant("b", LEASE_END, 2_000))
        .await
        .unwrap();
    assert_eq!(claim.entries, [stored_entry(1), stored_entry(2)]);
    assert_eq!(claim.row, get_row(&store, "x").await);
    append(&store, parking_step(step(&claim.lease, 3), Some(90_000))).await;
    let claim = store
        .claim_one("x", &claimant("c", 2_000, 3_000))
        .await
        .unwrap();
    assert_eq!(claim.row.worker.as_deref(), Some("c"));
    append(
        &store,
        ending_step(step(&claim.lease, 4), crate::store::StoredStatus::Failed, 5),
    )
    .await;
    let over = store.claim_one("x", &claimant("c", 2_000, 3_000)).await;
    assert!(matches!(over, Err(ExecutionClaimError::Ended { .. })));
    let absent = store.claim_one("y", &claimant("c", 2_000, 3_000)).await;
    assert!(matches!(absent, Err(ExecutionClaimError::NotFound { .. })));
}

/// A restarted worker releases the leases of its name, and no others.
pub async fn a_restarted_worker_releases_its_leases<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let x = create(&store, "x").await;
    let y = create(&store, "y").await;
    create(&store, "z").await;
    append(&store, parking_step(step(&y, 2), Some(9_000))).await;
    store
        .claim_one("y", &claimant("b", 0, 9_000))
        .await
        .unwrap();
    let w = create(&store, "w").await;
    append(&store, parking_step(step(&w, 2), None)).await;
    assert_eq!(store.release_worker_leases("a", 300).await.unwrap(), 2);
    assert_fenced(&store, &x, 2).await;
    assert_eq!(get_row(&store, "x").await.due_at_ms, Some(300));
    assert_eq!(store.release_worker_leases("a", 300).await.unwrap(), 0);
    assert_eq!(claimed(&claim(&store, "a", 300).await), ["x", "z"]);
    assert_eq!(get_row(&store, "y").await.worker.as_deref(), Some("b"));
    assert_eq!(get_row(&store, "w").await.due_at_ms, None);
}

/// Concurrent claims get different executions, and all of them together.
pub async fn concurrent_claims_get_different_executions<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    for n in 0..60 {
        create_new(&store, parked(&format!("x{n}"), Some(n % 7))).await;
    }
    let claims = (0..10).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let by = claimant(&format!("w{n}"), 10, 1_000);
            store.claim(&by, 7).await.unwrap()
        })
    });
    let claims: Vec<_> = claims.collect();
    let mut seen = HashSet::new();
    for one in claims {
        let one = one.await.unwrap();
        assert!(one.len() <= 7);
        for claim in one {
            assert!(seen.insert(claim.row.id), "claimed twice");
        }
    }
    assert_eq!(seen.len(), 60);
}
