//! Messages wait in order until a step has read them, and make due at once.

use super::words::*;
use super::{Fixture, Opened};
use crate::store::limits::MESSAGES_WAITING_MAX;
use crate::store::{AppendError, Lease, Mail, Message, Post, PostError, Posted, Status};

/// A parked execution, with the lease it had.
async fn waiting(store: &Opened, id: &str) -> Lease {
    let lease = create(store, id).await;
    append(store, parking(step(&lease, 2), Some(50_000))).await;
    lease
}

/// A message makes a parked execution due from when it was sent.
pub async fn a_message_makes_due_at_once<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    waiting(&store, "x").await;
    waiting(&store, "y").await;
    created(&store, parked("z", Some(25))).await;
    assert_eq!(posted(&store, "x", "one", 30).await, 1);
    assert_eq!(posted(&store, "y", "other", 20).await, 1);
    assert_eq!(posted(&store, "x", "two", 40).await, 2);
    assert_eq!(row(&store, "x").await.due_at_ms, Some(30));
    assert_eq!(row(&store, "x").await.waiting, 2);
    assert_eq!(store.next_wake().await.unwrap(), Some(20));
    assert_eq!(claim(&store, "b", 19).await, []);
    let claims = claim(&store, "b", 45).await;
    assert_eq!(claimed(&claims), ["y", "z", "x"]);
    let message = |number, key: &str, at_ms| Message {
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

/// A message that comes later than the wake time does not put it off.
pub async fn a_message_does_not_put_off<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    created(&store, parked("x", Some(10))).await;
    posted(&store, "x", "k", 90).await;
    assert_eq!(row(&store, "x").await.due_at_ms, Some(10));
}

/// What was read with a step does not come again; what was not, does.
pub async fn a_message_is_taken_once_with_its_step<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    waiting(&store, "x").await;
    for (key, at_ms) in [("one", 30), ("two", 31), ("three", 32)] {
        posted(&store, "x", key, at_ms).await;
    }
    let first = claim(&store, "b", 40).await.remove(0);
    assert_eq!(keys(&first), ["one", "two", "three"]);
    let left = append(&store, taking(step(&first.lease, 3), 2)).await;
    assert_eq!(left.waiting, 1);
    let second = claim(&store, "c", 2_000).await.remove(0);
    assert_eq!(keys(&second), ["three"]);
    assert_eq!(second.messages[0].number, 3);
    // A step that has read nothing new takes nothing.
    assert_eq!(append(&store, step(&second.lease, 4)).await.waiting, 1);
    let left = append(&store, taking(step(&second.lease, 5), 3)).await;
    assert_eq!(left.waiting, 0);
    let third = claim(&store, "d", 9_000).await.remove(0);
    assert_eq!(keys(&third), [""; 0]);
}

/// A message is found by its key for as long as its execution is kept, and by
/// no other key or execution.
pub async fn a_message_is_found_by_its_key<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    waiting(&store, "x").await;
    waiting(&store, "y").await;
    posted(&store, "x", "one", 30).await;
    posted(&store, "x", "two", 31).await;
    let found = async |id: &str, key: &str| store.message(id, key).await.unwrap();
    let two = Message {
        number: 2,
        key: "two".to_owned(),
        body: post("two", 31).body,
        at_ms: 31,
    };
    assert_eq!(found("x", "two").await.as_ref(), Some(&two));
    let claimed = claim(&store, "b", 40).await.remove(0);
    append(&store, taking(step(&claimed.lease, 3), 2)).await;
    assert_eq!(found("x", "two").await, Some(two));
    assert_eq!(found("x", "three").await, None);
    assert_eq!(found("y", "two").await, None);
    assert_eq!(found("z", "two").await, None);
}

/// A step that is refused has read nothing.
pub async fn a_refused_step_takes_no_message<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let old = waiting(&store, "x").await;
    posted(&store, "x", "one", 30).await;
    let claims = claim(&store, "b", 40).await;
    let lease = &claims[0].lease;
    let fenced = store.append(taking(step(&old, 3), 1)).await;
    assert!(matches!(fenced, Err(AppendError::Fenced { .. })));
    let stale = store.append(taking(step(lease, 9), 1)).await;
    assert!(matches!(stale, Err(AppendError::Stale { .. })));
    let unsent = store.append(taking(step(lease, 3), 2)).await;
    assert!(matches!(unsent, Err(AppendError::Unfit(_))));
    assert_eq!(row(&store, "x").await.waiting, 1);
    append(&store, parking(step(lease, 3), None)).await;
    assert_eq!(keys(&claim(&store, "b", 40).await[0]), ["one"]);
}

/// A message that came while the worker was about to park is not slept through.
pub async fn parking_does_not_sleep_through_a_message<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    posted(&store, "x", "one", 30).await;
    posted(&store, "x", "two", 31).await;
    // The lease stands: nobody else is to read it.
    assert_eq!(row(&store, "x").await.due_at_ms, Some(LEASE_END));
    assert_eq!(claim(&store, "b", 500).await, []);
    let left = append(&store, taking(parking(step(&lease, 2), Some(7_000)), 1)).await;
    assert_eq!(left.waiting, 1);
    assert_eq!(row(&store, "x").await.due_at_ms, Some(31));
    let claims = claim(&store, "b", 500).await;
    assert_eq!(keys(&claims[0]), ["two"]);
    let last = taking(parking(step(&claims[0].lease, 3), Some(7_000)), 2);
    append(&store, last).await;
    assert_eq!(row(&store, "x").await.due_at_ms, Some(7_000));
}

/// A worker asks what has come for the executions that it holds.
pub async fn a_holder_asks_for_its_messages<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let x = create(&store, "x").await;
    let y = create(&store, "y").await;
    let z = waiting(&store, "z").await;
    posted(&store, "x", "one", 30).await;
    posted(&store, "z", "other", 30).await;
    posted(&store, "x", "two", 31).await;
    let leases = [z, y, x.clone()];
    let mail = store.messages(&leases).await.unwrap();
    let [Mail { lease, messages }] = mail.as_slice() else {
        panic!("{mail:?}");
    };
    assert_eq!(lease, &x);
    assert_eq!(messages.len(), 2);
    append(&store, taking(step(&x, 2), 1)).await;
    let mail = store.messages(&leases).await.unwrap();
    assert_eq!(mail[0].messages.len(), 1);
    assert_eq!(mail[0].messages[0].key, "two");
    append(&store, taking(step(&x, 3), 2)).await;
    assert_eq!(store.messages(&leases).await.unwrap(), []);
    assert_eq!(store.messages(&[]).await.unwrap(), []);
}

/// The same key is the same message, read or not, and also after the end.
pub async fn a_key_names_one_message<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    create(&store, "y").await;
    assert_eq!(posted(&store, "x", "k", 30).await, 1);
    assert_eq!(posted(&store, "x", "other", 30).await, 2);
    // Another execution's messages are others.
    assert_eq!(posted(&store, "y", "k", 30).await, 1);
    let again = || store.post("x", post("k", 99));
    assert_eq!(again().await.unwrap(), Posted::Before(1));
    append(&store, taking(step(&lease, 2), 2)).await;
    assert_eq!(again().await.unwrap(), Posted::Before(1));
    assert_eq!(row(&store, "x").await.waiting, 0);
    append(&store, ending(step(&lease, 3), Status::Succeeded, 40)).await;
    assert_eq!(again().await.unwrap(), Posted::Before(1));
    let other = Post {
        body: "{}".to_owned(),
        ..post("k", 30)
    };
    match store.post("x", other).await {
        Err(PostError::Conflict { id, key }) => assert_eq!((&*id, &*key), ("x", "k")),
        other => panic!("{other:?}"),
    }
}

/// Who is not there, or has ended, gets no messages.
pub async fn only_an_open_execution_gets_messages<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let absent = store.post("x", post("k", 1)).await;
    assert!(matches!(absent, Err(PostError::NotFound { .. })));
    ended(&store, "x", Status::Aborted, 5).await;
    match store.post("x", post("k", 1)).await {
        Err(PostError::Ended { status, .. }) => assert_eq!(status, Status::Aborted),
        other => panic!("{other:?}"),
    }
    assert_eq!(row(&store, "x").await.waiting, 0);
}

/// An inbox has an end.
pub async fn an_inbox_can_be_full<F: Fixture>() {
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
    assert!(matches!(again, Ok(Posted::Before(_))), "{again:?}");
    append(&store, taking(step(&lease, 2), 1)).await;
    posted(&store, "x", "more", 1).await;
}
