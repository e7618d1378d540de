//! A step happens whole, in its turn, or not at all.

use super::words::*;
use super::{Fixture, Opened};
use crate::store::{
    AppendError, CreateError, Entry, Found, Lease, New, PostError, Standing, Status, Step, limits,
};

/// Refused, a step leaves everything as it was.
async fn assert_unchanged(store: &Opened, before: &(Option<Found>, Vec<String>)) {
    assert_eq!(&seen(store).await, before);
}

async fn seen(store: &Opened) -> (Option<Found>, Vec<String>) {
    (store.get("x").await.unwrap(), history(store, "x").await)
}

/// Entries, standing and history after each step.
pub async fn steps_follow_each_other<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    let two = Step {
        entries: vec![entry(3), entry(4)],
        standing: Standing {
            paused: true,
            ..Standing::running(r#"["Here","There"]"#)
        },
        ..step(&lease, 3)
    };
    append(&store, two).await;
    let now = row(&store, "x").await;
    assert_eq!((now.next_seq, now.next_history_id), (5, 5));
    assert_eq!(now.position, r#"["Here","There"]"#);
    assert!(now.paused);
    assert_eq!(now.status, Status::Running);
    assert_eq!(now.worker.as_deref(), Some("a"));
    let all: Vec<_> = (1..=4).map(told).collect();
    assert_eq!(history(&store, "x").await, all);
    append(&store, step(&lease, 5)).await;
    assert!(!row(&store, "x").await.paused);
}

/// A step that does not follow the last one is refused, and told the place.
pub async fn a_stale_step_changes_nothing<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    let before = seen(&store).await;
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

/// The ids in the history have no gaps and do not come twice.
pub async fn a_history_goes_on_where_it_ended<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let before = seen(&store).await;
    for first_history_id in [0, 1, 3] {
        let wrong = Step {
            first_history_id,
            ..step(&lease, 2)
        };
        let refused = store.append(wrong).await;
        assert!(matches!(refused, Err(AppendError::Unfit(_))), "{refused:?}");
        assert_unchanged(&store, &before).await;
    }
}

/// Of two equal steps at the same time one happens.
pub async fn one_of_two_steps_happens<F: Fixture>() {
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
    let all: Vec<_> = (1..30).map(told).collect();
    assert_eq!(history(&store, "x").await, all);
}

/// A step without entries changes the standing and takes no seq.
pub async fn a_step_may_have_no_entries<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let none = Step {
        entries: Vec::new(),
        ..step(&lease, 2)
    };
    append(&store, parking(none, Some(70))).await;
    let now = row(&store, "x").await;
    assert_eq!((now.next_seq, now.next_history_id), (2, 2));
    assert_eq!(now.due_at_ms, Some(70));
    assert_eq!(now.position, r#"["At2"]"#);
}

/// An end has its time and outcome, gives up the lease, and is the end.
pub async fn an_ended_execution_takes_no_step<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    for (n, status) in Status::ALL.into_iter().enumerate().skip(1) {
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

/// Nobody can append to what is not there.
pub async fn an_unknown_execution_takes_no_step<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = Lease {
        id: "x".to_owned(),
        fence: 1,
    };
    let refused = store.append(step(&lease, 1)).await;
    assert!(matches!(refused, Err(AppendError::Fenced { .. })));
    assert_eq!(store.get("x").await.unwrap(), None);
}

/// Texts come back to the byte, whatever they look like.
pub async fn what_is_written_is_read_verbatim<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let odd =
        "{\n\t\"é\": \"\\u0000 \\\" \\\\ 🦀 \u{2028} \u{7f}\",\r\n \"n\": 1e400, \"'\": 0.10}";
    let oddly = Entry {
        at_ms: -5,
        event: odd.to_owned(),
        history: vec![odd.to_owned(), "0".to_owned(), format!("[{odd},{odd}]")],
    };
    let made = New {
        id: odd.to_owned(),
        input: odd.to_owned(),
        entries: vec![oddly.clone()],
        standing: Standing::running(odd),
        snapshot: Some(odd.to_owned()),
        ..parked("", Some(1))
    };
    created(&store, made).await;
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
    let last = Step {
        first_history_id: 4,
        entries: vec![oddly.clone()],
        standing: Standing::ended(Status::Failed, odd, odd, 9),
        ..step(&claims[0].lease, 2)
    };
    append(&store, last).await;
    let found = store.get(odd).await.unwrap().unwrap();
    assert_eq!(found.outcome.as_deref(), Some(odd));
    assert_eq!(history(&store, odd).await.len(), 6);
}

/// Sizes are bounded, and a refusal says what was too large.
pub async fn too_large_texts_are_refused<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let before = seen(&store).await;
    let long = |bytes: usize| "a".repeat(bytes + 1);
    let base = || step(&lease, 2);
    let position = Standing::running(long(limits::POSITION_BYTES_MAX));
    let half = Entry {
        event: long(limits::STEP_BYTES_MAX / 2),
        ..entry(2)
    };
    let steps = [
        (
            "position",
            Step {
                standing: position,
                ..base()
            },
        ),
        (
            "entries",
            Step {
                entries: vec![half.clone(), half],
                ..base()
            },
        ),
        (
            "entries",
            Step {
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
            Step {
                standing: Standing::running("a\0b"),
                ..base()
            },
        ),
    ];
    for (what, step) in steps {
        match store.append(step).await {
            Err(AppendError::Unfit(unfit)) => assert!(unfit.to_string().contains(what), "{unfit}"),
            other => panic!("{what}: {other:?}"),
        }
    }
    assert_unchanged(&store, &before).await;
    let input = New {
        input: long(limits::PAYLOAD_BYTES_MAX),
        ..new("y")
    };
    let nameless = new("");
    let named = new(&long(limits::NAME_BYTES_MAX));
    for bad in [input, nameless, named] {
        let refused = store.create(bad).await;
        assert!(matches!(refused, Err(CreateError::Unfit(_))), "{refused:?}");
    }
    let mut message = post("k", 1);
    message.body = long(limits::PAYLOAD_BYTES_MAX);
    let refused = store.post("x", message).await;
    assert!(matches!(refused, Err(PostError::Unfit(_))), "{refused:?}");
}

/// A running execution has no end, and an ended one has.
pub async fn a_standing_must_not_contradict_itself<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let before = seen(&store).await;
    for (status, ended_at_ms) in [(Status::Running, Some(5)), (Status::Failed, None)] {
        let standing = Standing {
            status,
            ended_at_ms,
            ..Standing::running("[]")
        };
        let refused = store
            .append(Step {
                standing,
                ..step(&lease, 2)
            })
            .await;
        assert!(matches!(refused, Err(AppendError::Unfit(_))), "{refused:?}");
        assert_unchanged(&store, &before).await;
    }
}
