//! Due times and their order.

use super::StoreFixture;
use super::helpers::*;
use crate::store::StoredStatus;

/// A parked execution is due at its wake time, and not before.
pub async fn a_parked_execution_wakes_in_time<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, parking_step(step(&lease, 2), Some(5_000))).await;
    assert_eq!(get_row(&store, "x").await.due_at_ms, Some(5_000));
    assert_eq!(claim(&store, "b", 4_999).await, []);
    let claims = claim(&store, "b", 5_000).await;
    assert_eq!(claimed(&claims), ["x"]);
    assert_eq!(claims[0].entries, [stored_entry(1), stored_entry(2)]);
    append(&store, parking_step(step(&claims[0].lease, 3), Some(9_000))).await;
    assert_eq!(claim(&store, "b", 8_999).await, []);
    assert_eq!(claimed(&claim(&store, "b", 9_000).await), ["x"]);
}

/// Without a wake time it waits for a message.
pub async fn without_a_time_nothing_is_due<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, parking_step(step(&lease, 2), None)).await;
    create_new(&store, parked("y", None)).await;
    assert_eq!(claim(&store, "b", i64::MAX - 1_000).await, []);
    assert_eq!(store.next_due().await.unwrap(), None);
}

/// The longest due come first, equals by creation, up to the limit.
pub async fn the_oldest_due_come_first<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    for (id, wake_at_ms) in [("c", 30), ("a", 10), ("late", 99), ("b", 20), ("d", 10)] {
        create_new(&store, parked(id, Some(wake_at_ms))).await;
    }
    let by = claimant("w", 50, 1_000);
    let first = store.claim(&by, 3).await.unwrap();
    assert_eq!(claimed(&first), ["a", "d", "b"]);
    assert_eq!(store.claim(&by, 0).await.unwrap(), []);
    let rest = store.claim(&by, 3).await.unwrap();
    assert_eq!(claimed(&rest), ["c"]);
}

/// An expired lease makes its execution due at that time, in order with the others.
pub async fn an_expired_lease_is_due_among_the_others<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    create_new(&store, parked("later", Some(LEASE_END + 1))).await;
    create(&store, "lost").await;
    create_new(&store, parked("earlier", Some(LEASE_END - 1))).await;
    let claims = claim(&store, "b", LEASE_END + 1).await;
    assert_eq!(claimed(&claims), ["earlier", "lost", "later"]);
}

/// The next due time is the earliest of all wake times and lease ends.
pub async fn the_next_wake_time_is_known<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(store.next_due().await.unwrap(), None);
    let x = create(&store, "x").await;
    assert_eq!(store.next_due().await.unwrap(), Some(LEASE_END));
    create_new(&store, parked("y", Some(700))).await;
    assert_eq!(store.next_due().await.unwrap(), Some(700));
    append(&store, parking_step(step(&x, 2), Some(600))).await;
    assert_eq!(store.next_due().await.unwrap(), Some(600));
    let claims = claim(&store, "b", 800).await;
    assert_eq!(claims.len(), 2);
    assert_eq!(store.next_due().await.unwrap(), Some(1_800));
    let leases: Vec<_> = claims.into_iter().map(|claim| claim.lease).collect();
    store.renew_leases(&leases, 2_500).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(2_500));
    append(&store, parking_step(step(&leases[1], 2), None)).await;
    append(
        &store,
        ending_step(step(&leases[0], 3), StoredStatus::Failed, 5),
    )
    .await;
    assert_eq!(store.next_due().await.unwrap(), None);
}

/// Subscribers are notified when something may be due, before the call that made it
/// due returns.
pub async fn changes_are_announced<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let mut changes = store.changes();
    changes.mark_unchanged();
    let mut changed = move || {
        let changed = changes.has_changed().unwrap();
        changes.mark_unchanged();
        changed
    };
    append(&store, step(&lease, 2)).await;
    assert!(!changed(), "a step that keeps its lease makes nothing due");
    append(&store, parking_step(step(&lease, 3), Some(5))).await;
    assert!(changed());
    post_new(&store, "x", "k", 5).await;
    assert!(changed());
    create_new(&store, parked("y", Some(5))).await;
    assert!(changed());
    assert_eq!(claim(&store, "w", 5).await.len(), 2);
    assert!(!changed(), "what is claimed is not due");
    post_new(&store, "x", "for its holder", 5).await;
    assert!(changed());
    store.release_worker_leases("w", 6).await.unwrap();
    assert!(changed());
}
