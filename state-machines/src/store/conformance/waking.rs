//! Who is due, when, and in which order.

use super::Fixture;
use super::words::*;
use crate::store::Status;

/// A parked execution is due when its time has come, and not before.
pub async fn a_parked_execution_wakes_in_time<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, parking(step(&lease, 2), Some(5_000))).await;
    assert_eq!(row(&store, "x").await.due_at_ms, Some(5_000));
    assert_eq!(claim(&store, "b", 4_999).await, []);
    let claims = claim(&store, "b", 5_000).await;
    assert_eq!(claimed(&claims), ["x"]);
    assert_eq!(claims[0].entries, [recorded(1), recorded(2)]);
    append(&store, parking(step(&claims[0].lease, 3), Some(9_000))).await;
    assert_eq!(claim(&store, "b", 8_999).await, []);
    assert_eq!(claimed(&claim(&store, "b", 9_000).await), ["x"]);
}

/// Without a time it waits for a message, however long.
pub async fn without_a_time_nothing_is_due<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, parking(step(&lease, 2), None)).await;
    created(&store, parked("y", None)).await;
    assert_eq!(claim(&store, "b", i64::MAX - 1_000).await, []);
    assert_eq!(store.next_wake().await.unwrap(), None);
}

/// Those that are due for longest come first, and equals in the order in which
/// they were created; no more than were asked for.
pub async fn the_oldest_due_come_first<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    for (id, wake_at_ms) in [("c", 30), ("a", 10), ("late", 99), ("b", 20), ("d", 10)] {
        created(&store, parked(id, Some(wake_at_ms))).await;
    }
    let by = by("w", 50, 1_000);
    let first = store.claim(&by, 3).await.unwrap();
    assert_eq!(claimed(&first), ["a", "d", "b"]);
    assert_eq!(store.claim(&by, 0).await.unwrap(), []);
    let rest = store.claim(&by, 3).await.unwrap();
    assert_eq!(claimed(&rest), ["c"]);
}

/// A lease that ran out is due from then on, among the others.
pub async fn a_lost_lease_is_due_among_the_others<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    created(&store, parked("later", Some(LEASE_END + 1))).await;
    create(&store, "lost").await;
    created(&store, parked("earlier", Some(LEASE_END - 1))).await;
    let claims = claim(&store, "b", LEASE_END + 1).await;
    assert_eq!(claimed(&claims), ["earlier", "lost", "later"]);
}

/// The next wake time is the earliest of all wake times and lease ends.
pub async fn the_next_wake_time_is_known<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(store.next_wake().await.unwrap(), None);
    let x = create(&store, "x").await;
    assert_eq!(store.next_wake().await.unwrap(), Some(LEASE_END));
    created(&store, parked("y", Some(700))).await;
    assert_eq!(store.next_wake().await.unwrap(), Some(700));
    append(&store, parking(step(&x, 2), Some(600))).await;
    assert_eq!(store.next_wake().await.unwrap(), Some(600));
    let claims = claim(&store, "b", 800).await;
    assert_eq!(claims.len(), 2);
    assert_eq!(store.next_wake().await.unwrap(), Some(1_800));
    let leases: Vec<_> = claims.into_iter().map(|claim| claim.lease).collect();
    store.renew(&leases, 2_500).await.unwrap();
    assert_eq!(store.next_wake().await.unwrap(), Some(2_500));
    append(&store, parking(step(&leases[1], 2), None)).await;
    append(&store, ending(step(&leases[0], 3), Status::Failed, 5)).await;
    assert_eq!(store.next_wake().await.unwrap(), None);
}

/// Who waits for changes is told when something may be due, before whoever
/// made it due is answered.
pub async fn changes_are_told<F: Fixture>() {
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
    append(&store, parking(step(&lease, 3), Some(5))).await;
    assert!(changed());
    posted(&store, "x", "k", 5).await;
    assert!(changed());
    created(&store, parked("y", Some(5))).await;
    assert!(changed());
    assert_eq!(claim(&store, "w", 5).await.len(), 2);
    assert!(!changed(), "what is claimed is not due");
    posted(&store, "x", "for its holder", 5).await;
    assert!(changed());
    store.take_back("w", 6).await.unwrap();
    assert!(changed());
}
