//! Creating executions.

use super::StoreFixture;
use super::helpers::*;
use crate::store::{
    CreateError, CreateOutcome, ExecutionCreation, ExecutionRecord, ExecutionRow, ExecutionState,
    StoredStatus,
};

/// A new execution reads back as created.
pub async fn an_execution_reads_as_it_was_created<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(store.get("x").await.unwrap(), None);
    let lease = create(&store, "x").await;
    let expected = ExecutionRecord {
        row: ExecutionRow {
            id: "x".to_owned(),
            number: 1,
            workflow: "copying".to_owned(),
            definition: "d1".to_owned(),
            created_at_ms: 10,
            status: StoredStatus::Running,
            paused: false,
            position: r#"["First"]"#.to_owned(),
            ended_at_ms: None,
            next_seq: 2,
            next_history_id: 2,
            fence: lease.fence,
            worker: Some("a".to_owned()),
            due_at_ms: Some(LEASE_END),
            waiting: 0,
        },
        input: r#"{"n":1}"#.to_owned(),
        outcome: None,
    };
    assert_eq!(store.get("x").await.unwrap(), Some(expected));
    assert_eq!(history(&store, "x").await, [history_event(1)]);
}

/// Creating the same execution again returns the existing one, even after it went
/// on.
pub async fn creating_again_returns_the_existing_execution<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    // The definition may differ: the workflow may have been deployed again.
    let again = ExecutionCreation {
        definition: "d2".to_owned(),
        at_ms: 77,
        entries: vec![entry(5), entry(6)],
        snapshot: Some("{}".to_owned()),
        ..parked("x", None)
    };
    let before = get_row(&store, "x").await;
    let answer = store.create(again.clone()).await.unwrap();
    assert_eq!(answer, CreateOutcome::Existing(Box::new(before)));
    append(
        &store,
        ending_step(step(&lease, 3), StoredStatus::Failed, 50),
    )
    .await;
    let before = get_row(&store, "x").await;
    let answer = store.create(again).await.unwrap();
    assert_eq!(answer, CreateOutcome::Existing(Box::new(before)));
    assert_eq!(
        history(&store, "x").await,
        [history_event(1), history_event(2), history_event(3)]
    );
}

/// An id with another workflow or input is refused, and the error names the
/// difference.
pub async fn an_id_names_one_execution<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    create(&store, "x").await;
    let before = get_row(&store, "x").await;
    let text = |text: &str| text.to_owned();
    let others = [
        (
            "workflow",
            ExecutionCreation {
                workflow: text("moving"),
                ..new_execution("x")
            },
        ),
        (
            "input",
            ExecutionCreation {
                input: text("{}"),
                ..new_execution("x")
            },
        ),
    ];
    for (expected, other) in others {
        match store.create(other).await {
            Err(CreateError::Conflict { id, differs }) => {
                assert_eq!((id.as_str(), differs), ("x", expected));
            }
            other => panic!("expected a conflict, got {other:?}"),
        }
    }
    assert_eq!(get_row(&store, "x").await, before);
}

/// Of concurrent creations of the same id, one succeeds.
pub async fn many_creations_at_once_make_one<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let attempts = (0..40).map(|n| {
        let store = store.clone();
        let other = ExecutionCreation {
            input: format!(r#"{{"n":{}}}"#, n % 2),
            ..new_execution("x")
        };
        tokio::spawn(async move { store.create(other).await })
    });
    let attempts: Vec<_> = attempts.collect();
    let (mut made, mut before, mut refused) = (0, 0, 0);
    for attempt in attempts {
        match attempt.await.unwrap() {
            Ok(CreateOutcome::Created(Some(_))) => made += 1,
            Ok(CreateOutcome::Existing(_)) => before += 1,
            Err(CreateError::Conflict { .. }) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, before, refused), (1, 19, 20));
    assert_eq!(
        store.counts().await.unwrap(),
        [(StoredStatus::Running, 1)].into()
    );
}

/// An execution needs an existing definition.
pub async fn an_unknown_definition_is_refused<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let unknown = ExecutionCreation {
        definition: "d3".to_owned(),
        ..new_execution("x")
    };
    let refused = store.create(unknown).await;
    assert!(matches!(refused, Err(CreateError::NoDefinition { hash }) if hash == "d3"));
    assert_eq!(store.get("x").await.unwrap(), None);
    assert_eq!(store.counts().await.unwrap(), [].into());
}

/// A short execution may end with its first entries; then it has no lease.
pub async fn an_execution_may_end_at_once<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let short = ExecutionCreation {
        entries: vec![entry(1), entry(2), entry(3)],
        state: ExecutionState::ended(StoredStatus::Succeeded, "[]", "42", 12),
        ..new_execution("x")
    };
    assert_eq!(create_new(&store, short).await, None);
    let found = store.get("x").await.unwrap().unwrap();
    assert_eq!(found.row.status, StoredStatus::Succeeded);
    assert_eq!((found.row.worker, found.row.due_at_ms), (None, None));
    assert_eq!(found.outcome.as_deref(), Some("42"));
    assert_eq!(history(&store, "x").await.len(), 3);
    assert_eq!(claim(&store, "a", 1_000_000).await, []);
    assert_eq!(store.next_due().await.unwrap(), None);
}
