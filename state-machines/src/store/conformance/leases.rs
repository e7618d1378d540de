//! One worker at a time, and only as long as its lease is the last.

use std::collections::HashSet;

use super::words::*;
use super::{Fixture, Opened};
use crate::store::{AppendError, ClaimError, Lease};

async fn assert_fenced(store: &Opened, lease: &Lease, seq: u64) {
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

/// A worker whose lease was taken is refused whole, wherever it believes the
/// execution to be; the new one goes on where the old one was.
pub async fn an_old_worker_is_refused_whole<F: Fixture>() {
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
    let all: Vec<_> = (1..=4).map(told).collect();
    assert_eq!(history(&store, "x").await, all);
    let claims = claim(&store, "c", 1_000_000).await;
    assert_eq!(claims[0].snapshot, None);
}

/// Nobody gets what is held, until the lease has run out; until somebody else
/// does, the holder may go on.
pub async fn a_lease_runs_out<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    assert_eq!(claim(&store, "b", LEASE_END - 1).await, []);
    // It ran out, but nobody noticed.
    append(&store, step(&lease, 2)).await;
    let claims = claim(&store, "b", LEASE_END).await;
    assert_eq!(claimed(&claims), ["x"]);
    assert_eq!(claims[0].entries, [recorded(1), recorded(2)]);
    assert_eq!(row(&store, "x").await.worker.as_deref(), Some("b"));
    assert_eq!(claim(&store, "c", LEASE_END + 1).await, []);
    assert_eq!(claimed(&claim(&store, "c", LEASE_END + 1_000).await), ["x"]);
}

/// A renewed lease holds longer, with the same fence.
pub async fn a_renewed_lease_holds<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let x = create(&store, "x").await;
    let y = create(&store, "y").await;
    let held = store.renew(std::slice::from_ref(&x), 5_000).await.unwrap();
    assert_eq!(held, std::slice::from_ref(&x));
    assert_eq!(claimed(&claim(&store, "b", 4_999).await), ["y"]);
    append(&store, step(&x, 2)).await;
    assert_fenced(&store, &y, 2).await;
    assert_eq!(claimed(&claim(&store, "b", 5_000).await), ["x"]);
}

/// Of many leases those are renewed that hold, and the others are not told to.
pub async fn a_lost_lease_is_not_renewed<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lost = create(&store, "lost").await;
    claim(&store, "b", LEASE_END).await;
    let given_up = create(&store, "given-up").await;
    append(&store, parking(step(&given_up, 2), None)).await;
    let over = ended(&store, "over", crate::store::Status::Aborted, 1).await;
    let held = create(&store, "held").await;
    let absent = Lease {
        id: "absent".to_owned(),
        fence: 1,
    };
    let all = [lost, given_up, over, held.clone(), absent];
    assert_eq!(store.renew(&all, 9_000).await.unwrap(), [held]);
    assert_eq!(store.renew(&[], 9_000).await.unwrap(), []);
    assert_eq!(row(&store, "lost").await.due_at_ms, Some(LEASE_END + 1_000));
    assert_eq!(row(&store, "given-up").await.due_at_ms, None);
    assert_eq!(row(&store, "over").await.due_at_ms, None);
}

/// Who has parked an execution does not hold it any more.
pub async fn parking_gives_the_lease_up<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, parking(step(&lease, 2), None)).await;
    assert_eq!(row(&store, "x").await.worker, None);
    assert_fenced(&store, &lease, 3).await;
    let one = store.claim_one("x", &by("a", 50, 99)).await.unwrap();
    assert!(one.lease.fence > lease.fence);
    assert_fenced(&store, &lease, 3).await;
    append(&store, step(&one.lease, 3)).await;
}

/// One execution by its id: due or not, but not from under another's hands.
pub async fn one_is_claimed_by_its_id<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    match store.claim_one("x", &by("b", 500, 800)).await {
        Err(ClaimError::Held {
            worker, until_ms, ..
        }) => {
            assert_eq!((worker.as_str(), until_ms), ("a", LEASE_END));
        }
        other => panic!("{other:?}"),
    }
    append(&store, step(&lease, 2)).await;
    let claim = store
        .claim_one("x", &by("b", LEASE_END, 2_000))
        .await
        .unwrap();
    assert_eq!(claim.entries, [recorded(1), recorded(2)]);
    assert_eq!(claim.row, row(&store, "x").await);
    append(&store, parking(step(&claim.lease, 3), Some(90_000))).await;
    let claim = store.claim_one("x", &by("c", 2_000, 3_000)).await.unwrap();
    assert_eq!(claim.row.worker.as_deref(), Some("c"));
    append(
        &store,
        ending(step(&claim.lease, 4), crate::store::Status::Failed, 5),
    )
    .await;
    let over = store.claim_one("x", &by("c", 2_000, 3_000)).await;
    assert!(matches!(over, Err(ClaimError::Ended { .. })));
    let absent = store.claim_one("y", &by("c", 2_000, 3_000)).await;
    assert!(matches!(absent, Err(ClaimError::NotFound { .. })));
}

/// A worker that begins anew gives up what its name held, and only that.
pub async fn a_worker_takes_back_what_it_held<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let x = create(&store, "x").await;
    let y = create(&store, "y").await;
    create(&store, "z").await;
    append(&store, parking(step(&y, 2), Some(9_000))).await;
    store.claim_one("y", &by("b", 0, 9_000)).await.unwrap();
    let w = create(&store, "w").await;
    append(&store, parking(step(&w, 2), None)).await;
    assert_eq!(store.take_back("a", 300).await.unwrap(), 2);
    assert_fenced(&store, &x, 2).await;
    assert_eq!(row(&store, "x").await.due_at_ms, Some(300));
    assert_eq!(store.take_back("a", 300).await.unwrap(), 0);
    assert_eq!(claimed(&claim(&store, "a", 300).await), ["x", "z"]);
    assert_eq!(row(&store, "y").await.worker.as_deref(), Some("b"));
    assert_eq!(row(&store, "w").await.due_at_ms, None);
}

/// Workers that claim at the same time get different executions, and all of
/// them together get all.
pub async fn claims_at_once_share_nothing<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    for n in 0..60 {
        created(&store, parked(&format!("x{n}"), Some(n % 7))).await;
    }
    let claims = (0..10).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let by = by(&format!("w{n}"), 10, 1_000);
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
