//! Deleting executions that ended long ago, and nothing else.

use super::StoreFixture;
use super::helpers::*;
use crate::store::{AppendError, ExecutionQuery, HistoryQuery, PostError, StoredStatus};

/// The oldest ends are deleted first, up to the limit. Open executions stay.
pub async fn the_oldest_ends_are_deleted_first<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    create(&store, "open").await;
    for (id, at_ms) in [("c", 30), ("a", 10), ("late", 50), ("b", 20)] {
        ended(&store, id, StoredStatus::Succeeded, at_ms).await;
    }
    assert_eq!(store.forget_ended(10, 100).await.unwrap(), 0);
    assert_eq!(store.forget_ended(50, 2).await.unwrap(), 2);
    let left = store.list(&ExecutionQuery::newest(10)).await.unwrap();
    let ids: Vec<_> = left.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["late", "c", "open"]);
    assert_eq!(store.forget_ended(50, 100).await.unwrap(), 1);
    assert_eq!(store.forget_ended(50, 100).await.unwrap(), 0);
    let expected = [(StoredStatus::Running, 1), (StoredStatus::Succeeded, 1)];
    assert_eq!(store.counts().await.unwrap(), expected.into());
    assert_eq!(history(&store, "late").await.len(), 2);
    assert_eq!(history(&store, "open").await.len(), 1);
}

/// A deleted execution leaves nothing behind, and its id is free again.
pub async fn a_deleted_execution_leaves_nothing<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    post_new(&store, "x", "k", 5).await;
    append(&store, with_snapshot(step(&lease, 2), "old")).await;
    append(
        &store,
        ending_step(step(&lease, 3), StoredStatus::Failed, 7),
    )
    .await;
    let number = get_row(&store, "x").await.number;
    assert_eq!(store.forget_ended(8, 100).await.unwrap(), 1);
    assert_eq!(store.get("x").await.unwrap(), None);
    let query = HistoryQuery {
        after: None,
        newest_first: false,
        limit: 5,
    };
    assert_eq!(store.history("x", &query).await.unwrap(), None);
    let late = store.append(step(&lease, 4)).await;
    assert!(matches!(late, Err(AppendError::Fenced { .. })));
    let late = store.post("x", post("k", 9)).await;
    assert!(matches!(late, Err(PostError::NotFound { .. })));
    // A new execution with the same id shares nothing with the first, not even its
    // number.
    create_new(&store, parked("x", Some(1))).await;
    let claim = claim(&store, "b", 50).await.remove(0);
    assert!(claim.row.number > number);
    assert_eq!((claim.snapshot, claim.entries.len()), (None, 1));
    assert_eq!(claim.messages, []);
    assert_eq!(history(&store, "x").await, [history_event(1)]);
    assert_eq!(post_new(&store, "x", "k", 60).await, 1);
}

/// Repeating until 0 deletes everything.
pub async fn long_executions_are_deleted_too<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    for id in ["x", "y", "z"] {
        let mut made = new_execution(id);
        made.entries = (1..=900).map(entry).collect();
        let lease = create_new(&store, made).await.unwrap();
        append(
            &store,
            ending_step(step(&lease, 901), StoredStatus::Failed, 7),
        )
        .await;
    }
    let mut forgotten = 0;
    loop {
        match store.forget_ended(8, 100).await.unwrap() {
            0 => break,
            more => forgotten += more,
        }
    }
    assert_eq!(forgotten, 3);
    assert_eq!(store.counts().await.unwrap(), [].into());
}
