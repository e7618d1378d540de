//! Messages stay unread, in order, until a step marks them as read. They make their
//! execution due at once.

use super::helpers::*;
use super::{OpenStore, StoreFixture};
use crate::store::limits::MESSAGES_WAITING_MAX;
use crate::store::{
    AppendError, Lease, NewMessage, PostError, PostOutcome, StoredMessage, StoredStatus,
    UnreadMessages,
};

/// A parked execution; returns the lease it had.
async fn parked_execution(store: &OpenStore, id: &str) -> Lease {
    let lease = create(store, id).await;
    append(store, parking_step(step(&lease, 2), Some(50_000))).await;
    lease
}

/// A message makes a parked execution due from when it was sent.
pub async fn a_message_makes_an_execution_due_at_once<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    parked_execution(&store, "x").await;
    parked_execution(&store, "y").await;
    create_new(&store, parked("z", Some(25))).await;
    assert_eq!(post_new(&store, "x", "one", 30).await, 1);
    assert_eq!(post_new(&store, "y", "other", 20).await, 1);
    assert_eq!(post_new(&store, "x", "two", 40).await, 2);
    assert_eq!(get_row(&store, "x").await.due_at_ms, Some(30));
    assert_eq!(get_row(&store, "x").await.waiting, 2);
    assert_eq!(store.next_due().await.unwrap(), Some(20));
    assert_eq!(claim(&store, "b", 19).await, []);
    let claims = claim(&store, "b", 45).await;
    assert_eq!(claimed(&claims), ["y", "z", "x"]);
    let message = |number, key: &str, at_ms| StoredMessage {
        number,
        key: key.to_owned(),
        body: post(key, at_ms).body,
        at_ms,
    };
    assert_eq!(
        claims[2].messages,
        [message(1, "one", 30), message(2, "two", 40)]
    );
    assert_eq!(claims[1].messages, []);
}

/// A message after the wake time does not postpone it.
pub async fn a_message_does_not_postpone_the_wake_time<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    create_new(&store, parked("x", Some(10))).await;
    post_new(&store, "x", "k", 90).await;
    assert_eq!(get_row(&store, "x").await.due_at_ms, Some(10));
}

/// A message that a step marks as read does not come again; the others do.
pub async fn a_message_is_marked_as_read_once<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    parked_execution(&store, "x").await;
    for (key, at_ms) in [("one", 30), ("two", 31), ("three", 32)] {
        post_new(&store, "x", key, at_ms).await;
    }
    let first = claim(&store, "b", 40).await.remove(0);
    assert_eq!(keys(&first), ["one", "two", "three"]);
    let left = append(&store, marking_read(step(&first.lease, 3), 2)).await;
    assert_eq!(left.waiting, 1);
    let second = claim(&store, "c", 2_000).await.remove(0);
    assert_eq!(keys(&second), ["three"]);
    assert_eq!(second.messages[0].number, 3);
    // A step that read nothing new marks nothing.
    assert_eq!(append(&store, step(&second.lease, 4)).await.waiting, 1);
    let left = append(&store, marking_read(step(&second.lease, 5), 3)).await;
    assert_eq!(left.waiting, 0);
    let third = claim(&store, "d", 9_000).await.remove(0);
    assert_eq!(keys(&third), [""; 0]);
}

/// A message can be found by its key as long as its execution exists.
pub async fn a_message_is_found_by_its_key<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    parked_execution(&store, "x").await;
    parked_execution(&store, "y").await;
    post_new(&store, "x", "one", 30).await;
    post_new(&store, "x", "two", 31).await;
    let found = async |id: &str, key: &str| store.find_message(id, key).await.unwrap();
    let two = StoredMessage {
        number: 2,
        key: "two".to_owned(),
        body: post("two", 31).body,
        at_ms: 31,
    };
    assert_eq!(found("x", "two").await.as_ref(), Some(&two));
    let claimed = claim(&store, "b", 40).await.remove(0);
    append(&store, marking_read(step(&claimed.lease, 3), 2)).await;
    assert_eq!(found("x", "two").await, Some(two));
    assert_eq!(found("x", "three").await, None);
    assert_eq!(found("y", "two").await, None);
    assert_eq!(found("z", "two").await, None);
}

/// A refused step marks nothing as read.
pub async fn a_refused_step_marks_nothing_as_read<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let old = parked_execution(&store, "x").await;
    post_new(&store, "x", "one", 30).await;
    let claims = claim(&store, "b", 40).await;
    let lease = &claims[0].lease;
    let fenced = store.append(marking_read(step(&old, 3), 1)).await;
    assert!(matches!(fenced, Err(AppendError::Fenced { .. })));
    let stale = store.append(marking_read(step(lease, 9), 1)).await;
    assert!(matches!(stale, Err(AppendError::Stale { .. })));
    let unsent = store.append(marking_read(step(lease, 3), 2)).await;
    assert!(matches!(unsent, Err(AppendError::InvalidRecord(_))));
    assert_eq!(get_row(&store, "x").await.waiting, 1);
    append(&store, parking_step(step(lease, 3), None)).await;
    assert_eq!(keys(&claim(&store, "b", 40).await[0]), ["one"]);
}

/// A message that arrives while the worker parks makes the execution due at once.
pub async fn an_unread_message_prevents_parking<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    post_new(&store, "x", "one", 30).await;
    post_new(&store, "x", "two", 31).await;
    // The lease is valid: no other worker may claim the execution.
    assert_eq!(get_row(&store, "x").await.due_at_ms, Some(LEASE_END));
    assert_eq!(claim(&store, "b", 500).await, []);
    let left = append(
        &store,
        marking_read(parking_step(step(&lease, 2), Some(7_000)), 1),
    )
    .await;
    assert_eq!(left.waiting, 1);
    assert_eq!(get_row(&store, "x").await.due_at_ms, Some(31));
    let claims = claim(&store, "b", 500).await;
    assert_eq!(keys(&claims[0]), ["two"]);
    let last = marking_read(parking_step(step(&claims[0].lease, 3), Some(7_000)), 2);
    append(&store, last).await;
    assert_eq!(get_row(&store, "x").await.due_at_ms, Some(7_000));
}

/// A worker reads the messages of the executions that it holds.
pub async fn a_worker_reads_the_messages_of_its_executions<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let x = create(&store, "x").await;
    let y = create(&store, "y").await;
    let z = parked_execution(&store, "z").await;
    post_new(&store, "x", "one", 30).await;
    post_new(&store, "z", "other", 30).await;
    post_new(&store, "x", "two", 31).await;
    let leases = [z, y, x.clone()];
    let mail = store.unread_messages(&leases).await.unwrap();
    let [UnreadMessages { lease, messages }] = mail.as_slice() else {
        panic!("{mail:?}");
    };
    assert_eq!(lease, &x);
    assert_eq!(messages.len(), 2);
    append(&store, marking_read(step(&x, 2), 1)).await;
    let mail = store.unread_messages(&leases).await.unwrap();
    assert_eq!(mail[0].messages.len(), 1);
    assert_eq!(mail[0].messages[0].key, "two");
    append(&store, marking_read(step(&x, 3), 2)).await;
    assert_eq!(store.unread_messages(&leases).await.unwrap(), []);
    assert_eq!(store.unread_messages(&[]).await.unwrap(), []);
}

/// The same key means the same message, read or not, even after the end.
pub async fn a_key_names_one_message<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    create(&store, "y").await;
    assert_eq!(post_new(&store, "x", "k", 30).await, 1);
    assert_eq!(post_new(&store, "x", "other", 30).await, 2);
    // Keys are per execution.
    assert_eq!(post_new(&store, "y", "k", 30).await, 1);
    let again = || store.post("x", post("k", 99));
    assert_eq!(again().await.unwrap(), PostOutcome::Duplicate(1));
    append(&store, marking_read(step(&lease, 2), 2)).await;
    assert_eq!(again().await.unwrap(), PostOutcome::Duplicate(1));
    assert_eq!(get_row(&store, "x").await.waiting, 0);
    append(
        &store,
        ending_step(step(&lease, 3), StoredStatus::Succeeded, 40),
    )
    .await;
    assert_eq!(again().await.unwrap(), PostOutcome::Duplicate(1));
    let other = NewMessage {
        body: "{}".to_owned(),
        ..post("k", 30)
    };
    match store.post("x", other).await {
        Err(PostError::Conflict { id, key }) => assert_eq!((&*id, &*key), ("x", "k")),
        other => panic!("{other:?}"),
    }
}

/// Missing and ended executions accept no messages.
pub async fn only_open_executions_accept_messages<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let absent = store.post("x", post("k", 1)).await;
    assert!(matches!(absent, Err(PostError::NotFound { .. })));
    ended(&store, "x", StoredStatus::Aborted, 5).await;
    match store.post("x", post("k", 1)).await {
        Err(PostError::Ended { status, .. }) => assert_eq!(status, StoredStatus::Aborted),
        other => panic!("{other:?}"),
    }
    assert_eq!(get_row(&store, "x").await.waiting, 0);
}

/// Inboxes have a limit.
pub async fn an_inbox_can_be_full<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let posts = (0..MESSAGES_WAITING_MAX).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.post("x", post(&format!("k{n}"), 1)).await })
    });
    let posts: Vec<_> = posts.collect();
    for one in posts {
        one.await.unwrap().unwrap();
    }
    let full = store.post("x", post("more", 1)).await;
    assert!(matches!(full, Err(PostError::Full { .. })), "{full:?}");
    let again = store.post("x", post("k7", 1)).await;
    assert!(matches!(again, Ok(PostOutcome::Duplicate(_))), "{again:?}");
    append(&store, marking_read(step(&lease, 2), 1)).await;
    post_new(&store, "x", "more", 1).await;
}
