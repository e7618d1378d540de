//! Steps: atomic and in order.

use super::helpers::*;
use super::{OpenStore, StoreFixture};
use crate::store::{
    AppendError, CreateError, ExecutionCreation, ExecutionRecord, ExecutionState, ExecutionStep,
    JournalEntry, Lease, PostError, StoredStatus, limits,
};

/// Checks that a refused step changed nothing.
async fn assert_unchanged(store: &OpenStore, before: &(Option<ExecutionRecord>, Vec<String>)) {
    assert_eq!(&read_execution(store).await, before);
}

async fn read_execution(store: &OpenStore) -> (Option<ExecutionRecord>, Vec<String>) {
    (store.get("x").await.unwrap(), history(store, "x").await)
}

/// Entries, state and history after each step.
pub async fn steps_follow_each_other<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    let two = ExecutionStep {
        entries: vec![entry(3), entry(4)],
        state: ExecutionState {
            paused: true,
            ..ExecutionState::running(r#"["Here","There"]"#)
        },
        ..step(&lease, 3)
    };
    append(&store, two).await;
    let now = get_row(&store, "x").await;
    assert_eq!((now.next_seq, now.next_history_id), (5, 5));
    assert_eq!(now.position, r#"["Here","There"]"#);
    assert!(now.paused);
    assert_eq!(now.status, StoredStatus::Running);
    assert_eq!(now.worker.as_deref(), Some("a"));
    let all: Vec<_> = (1..=4).map(history_event).collect();
    assert_eq!(history(&store, "x").await, all);
    append(&store, step(&lease, 5)).await;
    assert!(!get_row(&store, "x").await.paused);
}

/// A step that does not follow the last one is refused with the current position.
pub async fn a_stale_step_changes_nothing<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    let before = read_execution(&store).await;
    for seq in [0, 1, 2, 4] {
        match store.append(with_snapshot(step(&lease, seq), "no")).await {
            Err(AppendError::Stale {
                expected, found, ..
            }) => {
                assert_eq!((expected, found), (seq, 3));
            }
            other => panic!("{other:?}"),
        }
        assert_unchanged(&store, &before).await;
    }
    append(&store, step(&lease, 3)).await;
}

/// History ids have no gaps and no duplicates.
pub async fn history_ids_continue_without_gaps<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let before = read_execution(&store).await;
    for first_history_id in [0, 1, 3] {
        let wrong = ExecutionStep {
            first_history_id,
            ..step(&lease, 2)
        };
        let refused = store.append(wrong).await;
        assert!(
            matches!(refused, Err(AppendError::InvalidRecord(_))),
            "{refused:?}"
        );
        assert_unchanged(&store, &before).await;
    }
}

/// Of two concurrent equal steps, one succeeds.
pub async fn one_of_two_concurrent_steps_succeeds<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    for seq in 2..30 {
        let (one, two) = tokio::join!(
            store.append(step(&lease, seq)),
            store.append(step(&lease, seq))
        );
        let refused = match (one, two) {
            (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
            other => panic!("{other:?}"),
        };
        assert!(matches!(refused, AppendError::Stale { .. }));
    }
    let all: Vec<_> = (1..30).map(history_event).collect();
    assert_eq!(history(&store, "x").await, all);
}

/// A step without entries changes the state and uses no seq.
pub async fn a_step_may_have_no_entries<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let none = ExecutionStep {
        entries: Vec::new(),
        ..step(&lease, 2)
    };
    append(&store, parking_step(none, Some(70))).await;
    let now = get_row(&store, "x").await;
    assert_eq!((now.next_seq, now.next_history_id), (2, 2));
    assert_eq!(now.due_at_ms, Some(70));
    assert_eq!(now.position, r#"["At2"]"#);
}

/// An ended execution has a time and an outcome, no lease, and accepts no steps.
pub async fn an_ended_execution_accepts_no_steps<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    for (n, status) in StoredStatus::ALL.into_iter().enumerate().skip(1) {
        let id = format!("x{n}");
        let lease = ended(&store, &id, status, 33).await;
        let found = store.get(&id).await.unwrap().unwrap();
        assert_eq!(
            (found.row.status, found.row.ended_at_ms),
            (status, Some(33))
        );
        assert_eq!((&found.row.worker, found.row.due_at_ms), (&None, None));
        assert_eq!(found.outcome.as_deref(), Some(r#"{"done":true}"#));
        let refused = store.append(step(&lease, 3)).await;
        assert!(matches!(refused, Err(AppendError::Fenced { .. })));
        assert_eq!(store.get(&id).await.unwrap(), Some(found));
    }
}

/// Missing executions accept no steps.
pub async fn a_missing_execution_accepts_no_steps<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = Lease {
        id: "x".to_owned(),
        fence: 1,
    };
    let refused = store.append(step(&lease, 1)).await;
    assert!(matches!(refused, Err(AppendError::Fenced { .. })));
    assert_eq!(store.get("x").await.unwrap(), None);
}

/// Texts are read back byte for byte.
pub async fn texts_are_read_back_verbatim<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let odd =
        "{\n\t\"é\": \"\\u0000 \\\" \\\\ 🦀 \u{2028} \u{7f}\",\r\n \"n\": 1e400, \"'\": 0.10}";
    let oddly = JournalEntry {
        at_ms: -5,
        event: odd.to_owned(),
        history: vec![odd.to_owned(), "0".to_owned(), format!("[{odd},{odd}]")],
    };
    let made = ExecutionCreation {
        id: odd.to_owned(),
        input: odd.to_owned(),
        entries: vec![oddly.clone()],
        state: ExecutionState::running(odd),
        snapshot: Some(odd.to_owned()),
        ..parked("", Some(1))
    };
    create_new(&store, made).await;
    store.post(odd, post(odd, 3)).await.unwrap();
    let found = store.get(odd).await.unwrap().unwrap();
    assert_eq!(
        (found.row.position.as_str(), found.input.as_str()),
        (odd, odd)
    );
    assert_eq!(history(&store, odd).await, oddly.history);
    let claims = claim(&store, odd, 5).await;
    assert_eq!(claims[0].snapshot.as_ref().unwrap().text, odd);
    assert_eq!(claims[0].messages[0].body, post(odd, 3).body);
    assert_eq!(claims[0].row.worker.as_deref(), Some(odd));
    let last = ExecutionStep {
        first_history_id: 4,
        entries: vec![oddly.clone()],
        state: ExecutionState::ended(StoredStatus::Failed, odd, odd, 9),
        ..step(&claims[0].lease, 2)
    };
    append(&store, last).await;
    let found = store.get(odd).await.unwrap().unwrap();
    assert_eq!(found.outcome.as_deref(), Some(odd));
    assert_eq!(history(&store, odd).await.len(), 6);
}

/// Sizes are limited, and the error says what was too large.
pub async fn too_large_texts_are_refused<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let before = read_execution(&store).await;
    let long = |bytes: usize| "a".repeat(bytes + 1);
    let base = || step(&lease, 2);
    let position = ExecutionState::running(long(limits::POSITION_BYTES_MAX));
    let half = JournalEntry {
        event: long(limits::STEP_BYTES_MAX / 2),
        ..entry(2)
    };
    let steps = [
        (
            "position",
            ExecutionStep {
                state: position,
                ..base()
            },
        ),
        (
            "entries",
            ExecutionStep {
                entries: vec![half.clone(), half],
                ..base()
            },
        ),
        (
            "entries",
            ExecutionStep {
                entries: vec![entry(2); limits::STEP_ENTRIES_MAX + 1],
                ..base()
            },
        ),
        (
            "snapshot",
            with_snapshot(base(), &long(limits::SNAPSHOT_BYTES_MAX)),
        ),
        (
            "position",
            ExecutionStep {
                state: ExecutionState::running("a\0b"),
                ..base()
            },
        ),
    ];
    for (what, step) in steps {
        match store.append(step).await {
            Err(AppendError::InvalidRecord(unfit)) => {
                assert!(unfit.to_string().contains(what), "{unfit}")
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    assert_unchanged(&store, &before).await;
    let input = ExecutionCreation {
        input: long(limits::PAYLOAD_BYTES_MAX),
        ..new_execution("y")
    };
    let nameless = new_execution("");
    let named = new_execution(&long(limits::NAME_BYTES_MAX));
    for bad in [input, nameless, named] {
        let refused = store.create(bad).await;
        assert!(
            matches!(refused, Err(CreateError::InvalidRecord(_))),
            "{refused:?}"
        );
    }
    let mut message = post("k", 1);
    message.body = long(limits::PAYLOAD_BYTES_MAX);
    let refused = store.post("x", message).await;
    assert!(
        matches!(refused, Err(PostError::InvalidRecord(_))),
        "{refused:?}"
    );
}

/// An open execution must not have an end time, and an ended one must.
pub async fn contradictory_states_are_refused<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let before = read_execution(&store).await;
    for (status, ended_at_ms) in [
        (StoredStatus::Running, Some(5)),
        (StoredStatus::Failed, None),
    ] {
        let state = ExecutionState {
            status,
            ended_at_ms,
            ..ExecutionState::running("[]")
        };
        let refused = store
            .append(ExecutionStep {
                state,
                ..step(&lease, 2)
            })
            .await;
        assert!(
            matches!(refused, Err(AppendError::InvalidRecord(_))),
            "{refused:?}"
        );
        assert_unchanged(&store, &before).await;
    }
}
