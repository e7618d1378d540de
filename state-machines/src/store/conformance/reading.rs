//! Reading: snapshots with later entries, lists, histories, counts.

use super::helpers::*;
use super::{OpenStore, StoreFixture};
use crate::store::{
    ExecutionCreation, ExecutionQuery, ExecutionSnapshot, ExecutionStep, HistoryQuery,
    JournalEntry, StoredStatus, limits,
};

/// A claim returns the last snapshot and the entries after it.
pub async fn a_claim_has_the_snapshot_and_later_entries<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    append(&store, with_snapshot(step(&lease, 3), "three")).await;
    append(&store, step(&lease, 4)).await;
    append(&store, step(&lease, 5)).await;
    let claims = claim(&store, "b", 1_000).await;
    let snapshot = |seq, text: &str| {
        Some(ExecutionSnapshot {
            seq,
            text: text.to_owned(),
        })
    };
    assert_eq!(claims[0].snapshot, snapshot(3, "three"));
    assert_eq!(claims[0].entries, [stored_entry(4), stored_entry(5)]);
    // A new snapshot replaces the last, in a step of two entries; the journal keeps
    // all entries.
    let two = ExecutionStep {
        entries: vec![entry(6), entry(7)],
        ..step(&claims[0].lease, 6)
    };
    append(&store, with_snapshot(two, "seven")).await;
    let claims = claim(&store, "c", 2_000).await;
    assert_eq!(claims[0].snapshot, snapshot(7, "seven"));
    assert_eq!(claims[0].entries, []);
    assert_eq!(history(&store, "x").await.len(), 7);
}

/// A creation may carry the first snapshot. Claims of several executions do not mix
/// their parts.
pub async fn claims_do_not_mix<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    for n in 1..=5_u64 {
        let id = format!("x{n}");
        let made = ExecutionCreation {
            entries: (1..=n).map(entry).collect(),
            snapshot: (n % 2 == 0).then(|| id.clone()),
            ..parked(&id, Some(1))
        };
        create_new(&store, made).await;
        let keys = (0..n % 3).map(|key| format!("{id}-{key}"));
        for key in keys {
            post_new(&store, &id, &key, 3).await;
        }
    }
    let claims = claim(&store, "b", 5).await;
    assert_eq!(claimed(&claims), ["x1", "x2", "x3", "x4", "x5"]);
    for (n, claim) in (1..=5_u64).zip(&claims) {
        let snapshot = claim.snapshot.as_ref().map(|one| (one.seq, &*one.text));
        let entries: Vec<_> = claim.entries.iter().map(|entry| entry.seq).collect();
        match n % 2 {
            0 => assert_eq!((snapshot, entries.len()), (Some((n, &*claim.row.id)), 0)),
            _ => assert_eq!((snapshot, entries), (None, (1..=n).collect())),
        }
        assert_eq!(claim.messages.len() as u64, n % 3);
        assert!(keys(claim).iter().all(|key| key.starts_with(&claim.row.id)));
    }
}

async fn listed(store: &OpenStore, query: &ExecutionQuery) -> Vec<String> {
    let rows = store.list(query).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

/// Newest first, filtered by workflow and status, page by page.
pub async fn lists_are_filtered_and_paged<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    for n in 0..12 {
        let id = format!("x{n}");
        let mut made = new_execution(&id);
        if n % 3 == 0 {
            made.workflow = "moving".to_owned();
        }
        let lease = create_new(&store, made).await.unwrap();
        if n % 2 == 0 {
            append(
                &store,
                ending_step(step(&lease, 2), StoredStatus::Failed, n),
            )
            .await;
        }
    }
    let all = ExecutionQuery::newest(100);
    let moving = ExecutionQuery {
        workflow: Some("moving".to_owned()),
        ..all.clone()
    };
    let failed = ExecutionQuery {
        status: Some(StoredStatus::Failed),
        ..all.clone()
    };
    let both = ExecutionQuery {
        status: Some(StoredStatus::Failed),
        ..moving.clone()
    };
    assert_eq!(listed(&store, &all).await.len(), 12);
    assert_eq!(listed(&store, &moving).await, ["x9", "x6", "x3", "x0"]);
    assert_eq!(listed(&store, &both).await, ["x6", "x0"]);
    let expected = ["x10", "x8", "x6", "x4", "x2", "x0"];
    assert_eq!(listed(&store, &failed).await, expected);
    for query in [all, moving, failed, both] {
        let expected = listed(&store, &query).await;
        let mut paged = Vec::new();
        let mut page = ExecutionQuery { limit: 2, ..query };
        loop {
            let rows = store.list(&page).await.unwrap();
            assert!(rows.len() <= 2);
            let Some(last) = rows.last() else { break };
            page.before = Some(last.number);
            paged.extend(rows.into_iter().map(|row| row.id));
        }
        assert_eq!(paged, expected);
    }
    let unknown = ExecutionQuery {
        workflow: Some("unknown".to_owned()),
        ..ExecutionQuery::newest(5)
    };
    assert_eq!(listed(&store, &unknown).await, [""; 0]);
    assert_eq!(listed(&store, &ExecutionQuery::newest(0)).await, [""; 0]);
}

/// Lists show executions as single reads do.
pub async fn lists_show_executions_as_single_reads_do<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    append(&store, step(&lease, 2)).await;
    post_new(&store, "x", "k", 3).await;
    ended(&store, "y", StoredStatus::TimedOut, 4).await;
    let rows = store.list(&ExecutionQuery::newest(9)).await.unwrap();
    assert_eq!(
        rows,
        [get_row(&store, "y").await, get_row(&store, "x").await]
    );
}

/// Counts by status, as executions start and end.
pub async fn executions_are_counted<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(store.counts().await.unwrap(), [].into());
    for n in 0..5 {
        create(&store, &format!("r{n}")).await;
    }
    ended(&store, "a", StoredStatus::Failed, 1).await;
    ended(&store, "b", StoredStatus::Failed, 1).await;
    ended(&store, "c", StoredStatus::Aborted, 1).await;
    let refused = store
        .create(ExecutionCreation {
            input: "other".to_owned(),
            ..new_execution("a")
        })
        .await;
    assert!(refused.is_err());
    let expected = [
        (StoredStatus::Running, 5),
        (StoredStatus::Failed, 2),
        (StoredStatus::Aborted, 1),
    ];
    assert_eq!(store.counts().await.unwrap(), expected.into());
    let failing = store
        .claim_one("r0", &claimant("w", 5_000, 9_000))
        .await
        .unwrap();
    append(
        &store,
        ending_step(step(&failing.lease, 2), StoredStatus::Failed, 2),
    )
    .await;
    let counts = store.counts().await.unwrap();
    assert_eq!(
        (
            counts[&StoredStatus::Running],
            counts[&StoredStatus::Failed]
        ),
        (4, 3)
    );
}

/// An execution whose entries have 0, 1, 2, 3, 0, 1, … history events.
async fn uneven(store: &OpenStore, id: &str, entries: u64) -> Vec<String> {
    let mut events = Vec::new();
    let mut made = Vec::new();
    for seq in 1..=entries {
        let first = events.len() as u64 + 1;
        let history: Vec<_> = (first..first + seq % 4).map(history_event).collect();
        events.extend(history.clone());
        made.push(JournalEntry {
            history,
            ..entry(seq)
        });
    }
    let first = ExecutionCreation {
        entries: made[..1].to_vec(),
        ..new_execution(id)
    };
    let lease = create_new(store, first).await.unwrap();
    let mut first_history_id = 2;
    for (place, steps) in made[1..].chunks(5).enumerate() {
        let step = ExecutionStep {
            first_history_id,
            entries: steps.to_vec(),
            ..step(&lease, 2 + place as u64 * 5)
        };
        append(store, step).await;
        first_history_id += steps
            .iter()
            .map(|one| one.history.len() as u64)
            .sum::<u64>();
    }
    events
}

/// All pages of a history, one after the other.
async fn pages(store: &OpenStore, id: &str, newest_first: bool, limit: usize) -> Vec<String> {
    let mut events = Vec::new();
    let mut after = None;
    loop {
        let query = HistoryQuery {
            after,
            newest_first,
            limit,
        };
        let found = page(store, id, query).await;
        assert!(found.events.len() <= limit);
        assert!(
            !found.events.is_empty(),
            "a page with more to come is not empty"
        );
        after = found.last_id;
        events.extend(found.events);
        if !found.more {
            return events;
        }
    }
}

/// Pages join without gaps in both directions, wherever they end.
pub async fn histories_are_paged<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    create(&store, "before").await;
    let events = uneven(&store, "x", 41).await;
    create(&store, "behind").await;
    assert_eq!(events.len(), 61);
    let backwards: Vec<_> = events.iter().rev().cloned().collect();
    for limit in [1, 2, 3, 7, 60, 61, 62, 1_000] {
        assert_eq!(pages(&store, "x", false, limit).await, events, "{limit}");
        assert_eq!(pages(&store, "x", true, limit).await, backwards, "{limit}");
    }
}

/// Reading can start at any event, also beyond the end.
pub async fn histories_can_be_read_from_any_event<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let events = uneven(&store, "x", 23).await;
    let last = events.len() as u64;
    for after in 0..=last + 2 {
        for newest_first in [false, true] {
            let query = HistoryQuery {
                after: Some(after),
                newest_first,
                limit: 2,
            };
            let found = page(&store, "x", query).await;
            let expected: Vec<u64> = match newest_first {
                false => (after + 1..=last).take(2).collect(),
                true => (1..after.min(last + 1)).rev().take(2).collect(),
            };
            let wanted: Vec<_> = expected.iter().map(|id| history_event(*id)).collect();
            assert_eq!(found.events, wanted, "{query:?}");
            let last_id = expected.last().copied().unwrap_or(after);
            assert_eq!(found.last_id, Some(last_id));
            let more = match newest_first {
                false => last_id < last,
                true => last_id > 1 && !expected.is_empty(),
            };
            assert_eq!(found.more, more, "{query:?}");
        }
    }
    let query = HistoryQuery {
        after: None,
        newest_first: false,
        limit: 5,
    };
    assert_eq!(store.history("absent", &query).await.unwrap(), None);
}

/// A page of large events is shorter, and says that there are more.
pub async fn large_histories_come_in_smaller_pages<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let lease = create(&store, "x").await;
    let large = "a".repeat(limits::HISTORY_PAGE_BYTES / 2 + 1);
    let history = vec![large.clone(); 5];
    let step = ExecutionStep {
        entries: vec![JournalEntry {
            history,
            ..entry(2)
        }],
        ..step(&lease, 2)
    };
    append(&store, step).await;
    let query = HistoryQuery {
        after: Some(1),
        newest_first: false,
        limit: 100,
    };
    let first = page(&store, "x", query).await;
    assert_eq!(
        (first.events.len(), first.last_id, first.more),
        (2, Some(3), true)
    );
    assert_eq!(pages(&store, "x", false, 100).await.len(), 6);
    assert_eq!(pages(&store, "x", true, 100).await.len(), 6);
}
