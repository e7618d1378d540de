//! Executions are created once.

use super::Fixture;
use super::words::*;
use crate::store::{CreateError, Created, Found, New, Row, Standing, Status};

/// All that is known of a new execution.
pub async fn an_execution_reads_as_it_was_created<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(store.get("x").await.unwrap(), None);
    let lease = create(&store, "x").await;
    let expected = Found {
        row: Row {
            id: "x".to_owned(),
            number: 1,
            workflow: "copying".to_owned(),
            definition: "d1".to_owned(),
            created_at_ms: 10,
            status: Status::Running,
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
    assert_eq!(history(&store, "x").await, [told(1)]);
}

/// The same again is answered with what is there, also when it has gone on.
pub async fn creating_again_answers_with_what_is_there<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    // What is no part of the question may differ: the workflow may have been
    // deployed anew.
    let again = New {
        definition: "d2".to_owned(),
        at_ms: 77,
        entries: vec![entry(5), entry(6)],
        snapshot: Some("{}".to_owned()),
        ..parked("x", None)
    };
    let before = row(&store, "x").await;
    let answer = store.create(again.clone()).await.unwrap();
    assert_eq!(answer, Created::Before(Box::new(before)));
    append(&store, ending(step(&lease, 3), Status::Failed, 50)).await;
    let before = row(&store, "x").await;
    let answer = store.create(again).await.unwrap();
    assert_eq!(answer, Created::Before(Box::new(before)));
    assert_eq!(history(&store, "x").await, [told(1), told(2), told(3)]);
}

/// The same id for something else is refused, and says what differs.
pub async fn an_id_names_one_execution<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    create(&store, "x").await;
    let before = row(&store, "x").await;
    let text = |text: &str| text.to_owned();
    let others = [
        (
            "workflow",
            New {
                workflow: text("moving"),
                ..new("x")
            },
        ),
        (
            "input",
            New {
                input: text("{}"),
                ..new("x")
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
    assert_eq!(row(&store, "x").await, before);
}

/// Of many who create the same at the same time, one does.
pub async fn many_creations_at_once_make_one<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let attempts = (0..40).map(|n| {
        let store = store.clone();
        let other = New {
            input: format!(r#"{{"n":{}}}"#, n % 2),
            ..new("x")
        };
        tokio::spawn(async move { store.create(other).await })
    });
    let attempts: Vec<_> = attempts.collect();
    let (mut made, mut before, mut refused) = (0, 0, 0);
    for attempt in attempts {
        match attempt.await.unwrap() {
            Ok(Created::New(Some(_))) => made += 1,
            Ok(Created::Before(_)) => before += 1,
            Err(CreateError::Conflict { .. }) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, before, refused), (1, 19, 20));
    assert_eq!(store.counts().await.unwrap(), [(Status::Running, 1)].into());
}

/// An execution could not go on without its definition.
pub async fn an_unknown_definition_is_refused<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let unknown = New {
        definition: "d3".to_owned(),
        ..new("x")
    };
    let refused = store.create(unknown).await;
    assert!(matches!(refused, Err(CreateError::NoDefinition { hash }) if hash == "d3"));
    assert_eq!(store.get("x").await.unwrap(), None);
    assert_eq!(store.counts().await.unwrap(), [].into());
}

/// A short execution may have ended with its first entries; nobody holds it.
pub async fn an_execution_may_end_at_once<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let short = New {
        entries: vec![entry(1), entry(2), entry(3)],
        standing: Standing::ended(Status::Succeeded, "[]", "42", 12),
        ..new("x")
    };
    assert_eq!(created(&store, short).await, None);
    let found = store.get("x").await.unwrap().unwrap();
    assert_eq!(found.row.status, Status::Succeeded);
    assert_eq!((found.row.worker, found.row.due_at_ms), (None, None));
    assert_eq!(found.outcome.as_deref(), Some("42"));
    assert_eq!(history(&store, "x").await.len(), 3);
    assert_eq!(claim(&store, "a", 1_000_000).await, []);
    assert_eq!(store.next_wake().await.unwrap(), None);
}
