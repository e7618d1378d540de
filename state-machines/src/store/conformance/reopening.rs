//! Durability: answered writes survive a close and a crash.

use std::collections::BTreeMap;

use super::helpers::*;
use super::{OpenStore, StoreFixture};
use crate::store::{
    AppendError, CreateOutcome, Deployment, ExecutionCreation, ExecutionQuery, ExecutionRecord,
    ExecutionStep, PostError, PostOutcome, StoredStatus,
};

/// Everything that can be read of a store.
#[derive(Debug, PartialEq)]
struct StoreContents {
    deployed: Vec<Deployment>,
    executions: Vec<(Option<ExecutionRecord>, Vec<String>)>,
    counts: BTreeMap<StoredStatus, u64>,
    next_wake: Option<i64>,
}

async fn read_contents(store: &OpenStore) -> StoreContents {
    let mut executions = Vec::new();
    for row in store.list(&ExecutionQuery::newest(1_000)).await.unwrap() {
        let found = store.get(&row.id).await.unwrap();
        executions.push((found, history(store, &row.id).await));
    }
    StoreContents {
        deployed: store.deployed().await.unwrap(),
        executions,
        counts: store.counts().await.unwrap(),
        next_wake: store.next_due().await.unwrap(),
    }
}

/// Closes or crashes a store, and opens it again.
async fn reopen<F: StoreFixture>(fixture: &F, store: OpenStore, badly: bool) -> OpenStore {
    match badly {
        false => fixture.close(store).await,
        true => fixture.crash(store).await,
    }
    fixture.open().await
}

/// Everything reads the same after reopening, including leases and fences, and
/// continues.
pub async fn everything_survives_reopening<F: StoreFixture>() {
    let (fixture, mut store) = start::<F>().await;
    let held = create(&store, "held").await;
    append(&store, with_snapshot(step(&held, 2), "two")).await;
    append(&store, step(&held, 3)).await;
    let old = create(&store, "parked").await;
    append(&store, parking_step(step(&old, 2), Some(9_000))).await;
    post_new(&store, "parked", "k", 40).await;
    ended(&store, "over", StoredStatus::Failed, 50).await;
    for (seq, badly) in (4..).zip([true, false, true]) {
        let before = read_contents(&store).await;
        store = reopen(&fixture, store, badly).await;
        assert_eq!(read_contents(&store).await, before);
        let text = store.definition("d1").await.unwrap();
        assert_eq!(text, Some(definition("copying", "d1").text));
        append(&store, step(&held, seq)).await;
        let fenced = store.append(step(&old, 3)).await;
        assert!(matches!(fenced, Err(AppendError::Fenced { .. })));
        let again = store.post("parked", post("k", 41)).await.unwrap();
        assert_eq!(again, PostOutcome::Duplicate(1));
        let again = store.create(new_execution("over")).await.unwrap();
        assert!(matches!(again, CreateOutcome::Existing(_)));
    }
    let claims = claim(&store, "b", 40).await;
    assert_eq!(claimed(&claims), ["parked"]);
    assert_eq!(keys(&claims[0]), ["k"]);
    assert!(claims[0].lease.fence > old.fence);
    let claims = claim(&store, "b", LEASE_END).await;
    assert_eq!(claims[0].snapshot.as_ref().unwrap().seq, 2);
    assert_eq!(claims[0].entries.len(), 4);
}

/// Numbers are not reused, even after the newest execution was deleted.
pub async fn numbers_are_not_reused<F: StoreFixture>() {
    let (fixture, mut store) = start::<F>().await;
    let mut last = 0;
    for (n, badly) in [false, true, false].into_iter().enumerate() {
        ended(&store, &format!("x{n}"), StoredStatus::Failed, 5).await;
        let number = get_row(&store, &format!("x{n}")).await.number;
        assert!(number > last);
        last = number;
        assert_eq!(store.forget_ended(6, 10).await.unwrap(), 1);
        store = reopen(&fixture, store, badly).await;
    }
}

/// A crash amid concurrent writes loses nothing that was answered, and leaves no
/// partial steps.
pub async fn a_crash_loses_nothing_that_was_answered<F: StoreFixture>() {
    let (fixture, mut store) = start::<F>().await;
    for round in 0..3_u64 {
        let runs = (0..40).map(|n| {
            let store = store.clone();
            tokio::spawn(async move { run(&store, &format!("r{round}-{n}")).await })
        });
        let runs: Vec<_> = runs.collect();
        let mut answered = Vec::new();
        for one in runs {
            answered.push(one.await.unwrap());
        }
        store = reopen(&fixture, store, true).await;
        for (id, seq, messages) in answered {
            let now = get_row(&store, &id).await;
            assert_eq!((now.next_seq, now.next_history_id), (seq + 1, 2 * seq + 1));
            assert_eq!(now.waiting, messages);
            assert_eq!(history(&store, &id).await.len() as u64, 2 * seq);
        }
    }
    assert_eq!(store.counts().await.unwrap()[&StoredStatus::Running], 120);
    let gone = store.post("absent", post("k", 1)).await;
    assert!(matches!(gone, Err(PostError::NotFound { .. })));
}

/// Runs an execution for some steps with two history events each, and returns what
/// was answered.
async fn run(store: &OpenStore, id: &str) -> (String, u64, u64) {
    let two = |seq: u64| {
        let mut two = entry(seq);
        two.history = vec![history_event(2 * seq - 1), history_event(2 * seq)];
        two
    };
    let made = ExecutionCreation {
        entries: vec![two(1)],
        ..new_execution(id)
    };
    let lease = create_new(store, made).await.unwrap();
    for seq in 2..=6 {
        let next = ExecutionStep {
            first_history_id: 2 * seq - 1,
            entries: vec![two(seq)],
            ..step(&lease, seq)
        };
        append(store, next).await;
        post_new(store, id, &format!("k{seq}"), 5).await;
    }
    (id.to_owned(), 6, 5)
}
