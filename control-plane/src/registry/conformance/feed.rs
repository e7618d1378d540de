//! The change feed and the audit log: the same events in both directions.

use ballast_domain::registry::{
    EventQuery, RecordKey, RecordKind, RecordWrite, Registry, RegistryCommit, RegistryEvent,
};
use ballast_domain::{Actor, Clock, Timestamp};

use super::*;

fn revisions(events: &[RegistryEvent]) -> Vec<u64> {
    events.iter().map(|event| event.revision).collect()
}

fn sequences(events: &[RegistryEvent]) -> Vec<u64> {
    events.iter().map(|event| event.sequence).collect()
}

pub(crate) async fn changes_resume_from_any_revision<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(store.changes(0, 10).await.unwrap(), vec![]);
    commit_writes(&store, vec![create("a"), create("b")]).await;
    commit_writes(&store, vec![put("b", 1, body(1))]).await;
    let refused = store.commit(commit(vec![create("a"), create("z")])).await;
    assert_conflict(refused, "a", 0, 1);
    commit_writes(&store, vec![remove("a", 1), create("c"), create("d")]).await;
    let all = store.changes(0, 100).await.unwrap();
    assert_eq!(revisions(&all), [1, 1, 2, 3, 3, 3]);
    // Oldest first, and within a commit in the order of its writes.
    assert!(sequences(&all).is_sorted_by(|one, two| one < two));
    let names: Vec<&str> = all.iter().map(|event| event.key.id.as_str()).collect();
    assert_eq!(names, ["a", "b", "b", "a", "c", "d"]);
    for revision in 0..=3 {
        let rest: Vec<RegistryEvent> = all
            .iter()
            .filter(|event| event.revision > revision)
            .cloned()
            .collect();
        assert_eq!(store.changes(revision, 100).await.unwrap(), rest);
    }
    assert_eq!(store.changes(99, 100).await.unwrap(), vec![]);
}

pub(crate) async fn changes_include_the_states_before_and_after<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let change = |action, writes| RegistryCommit {
        actor: Actor {
            name: "ops".to_owned(),
            token_id: Some("tok-0123456789abcdef".parse().unwrap()),
            address: Some("10.0.0.1".to_owned()),
        },
        action,
        reason: Some(format!("because of {action}")),
        ..commit(writes)
    };
    let history = [
        change("tenant.create", vec![create("a")]),
        change("tenant.update", vec![put("a", 1, body(1))]),
        change("tenant.remove", vec![remove("a", 2)]),
        change("tenant.create", vec![put("a", 0, body(3))]),
    ];
    for one in history.clone() {
        store.commit(one).await.unwrap();
    }
    let bodies = [
        (None, Some(body(0))),
        (Some(body(0)), Some(body(1))),
        (Some(body(1)), None),
        (None, Some(body(3))),
    ];
    let events = store.changes(0, 100).await.unwrap();
    assert_eq!(events.len(), 4);
    for (number, ((event, made), (before, after))) in
        (1..).zip(events.into_iter().zip(history).zip(bodies))
    {
        let expected = RegistryEvent {
            sequence: event.sequence,
            revision: number,
            at: fixture.clock().now(),
            actor: made.actor,
            action: made.action.to_owned(),
            reason: made.reason,
            key: key("a"),
            version: number,
            before,
            after,
        };
        assert_eq!(event, expected);
    }
}

pub(crate) async fn changes_come_in_whole_commits<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let mut n = 0;
    for size in [1, 3, 2, 1, 40] {
        let writes = (0..size).map(|_| {
            n += 1;
            create(&format!("t-{n}"))
        });
        commit_writes(&store, writes.collect()).await;
    }
    // From revision, minimum count → up to revision.
    let pages = [
        (0, 1, 1),
        (0, 2, 2),
        (0, 4, 2),
        (0, 5, 3),
        (1, 1, 2),
        (2, 3, 4),
        (3, 2, 5),
        (4, 1, 5),
        (0, 1_000, 5),
        // A limit of 0 would make no progress: it returns one commit.
        (1, 0, 2),
    ];
    let all = store.changes(0, 1_000).await.unwrap();
    for (from, limit, to) in pages {
        let expected: Vec<RegistryEvent> = all
            .iter()
            .filter(|event| (from + 1..=to).contains(&event.revision))
            .cloned()
            .collect();
        let actual = store.changes(from, limit).await.unwrap();
        assert_eq!(actual, expected, "{limit} from {from}");
    }
}

/// Six events of two kinds, a second apart; returns the first one's time.
async fn logged<F: Fixture>(fixture: &F, store: &dyn Registry) -> Timestamp {
    let begin = fixture.clock().now();
    let shard = |write: RecordWrite| RecordWrite {
        key: RecordKey::new(RecordKind::Shard, write.key.id.clone()),
        ..write
    };
    let history = [
        vec![create("a")],
        vec![create("b"), shard(create("a"))],
        vec![put("a", 1, body(1))],
        vec![remove("a", 2)],
        vec![shard(put("a", 1, body(1)))],
    ];
    for writes in history {
        commit_writes(store, writes).await;
        fixture.clock().advance_ms(1_000);
    }
    begin
}

pub(crate) async fn events_come_newest_first<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    assert_eq!(store.events(&newest(10)).await.unwrap(), vec![]);
    logged(&fixture, &store).await;
    let mut forwards = store.changes(0, 100).await.unwrap();
    forwards.reverse();
    assert_eq!(store.events(&newest(100)).await.unwrap(), forwards);
    assert_eq!(store.events(&newest(2)).await.unwrap(), forwards[..2]);
    assert_eq!(store.events(&newest(0)).await.unwrap(), vec![]);
}

pub(crate) async fn events_are_filtered<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let begin = logged(&fixture, &store).await;
    let at = |ms: i64| Some(Timestamp::from_unix_ms(begin.unix_ms() + ms));
    let all = store.events(&newest(100)).await.unwrap();
    let kinds = [
        (None, None),
        (None, Some(RecordKind::Tenant)),
        (Some(RecordKind::Tenant), None),
        (Some(RecordKind::Shard), Some(RecordKind::Key)),
        (Some(RecordKind::Key), Some(RecordKind::Key)),
    ];
    let names = [None, Some("a"), Some("b"), Some("z")];
    let times = [None, at(-1), at(0), at(1), at(1_000), at(2_500), at(9_000)];
    let cursors = [None, Some(0), Some(all[2].sequence), Some(1_000)];
    // Every combination, compared with filtering the whole log.
    for (kind, hidden) in kinds {
        for id in names.iter().filter(|id| kind.is_some() || id.is_none()) {
            for since in times {
                for until in times {
                    for before in cursors {
                        let query = EventQuery {
                            kind,
                            hidden,
                            id: id.map(str::to_owned),
                            before,
                            since,
                            until,
                            limit: 100,
                        };
                        let expected: Vec<&RegistryEvent> = all
                            .iter()
                            .filter(|event| kind.is_none_or(|kind| event.key.kind == kind))
                            .filter(|event| hidden != Some(event.key.kind))
                            .filter(|event| id.is_none_or(|id| event.key.id == id))
                            .filter(|event| since.is_none_or(|since| event.at >= since))
                            .filter(|event| until.is_none_or(|until| event.at <= until))
                            .filter(|event| before.is_none_or(|before| event.sequence < before))
                            .collect();
                        let actual = store.events(&query).await.unwrap();
                        assert!(actual.iter().eq(expected), "{query:?}: {actual:#?}");
                    }
                }
            }
        }
    }
}

pub(crate) async fn events_are_paged<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    logged(&fixture, &store).await;
    for kind in [None, Some(RecordKind::Tenant)] {
        let all = EventQuery {
            kind,
            ..newest(100)
        };
        let all = store.events(&all).await.unwrap();
        let mut seen = Vec::new();
        let mut before = None;
        for _ in 0..3 {
            let query = EventQuery {
                kind,
                before,
                ..newest(2)
            };
            let page = store.events(&query).await.unwrap();
            before = page.last().map(|last| last.sequence);
            seen.extend(page);
        }
        assert_eq!(seen, all);
    }
}

pub(crate) async fn waiting_ends_with_a_commit<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("a")]).await;
    // A past revision is not waited for.
    store.wait_past(0).await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                store.wait_past(1).await.unwrap();
                // A woken waiter sees the commit that woke it.
                let seen = store.changes(1, 10).await.unwrap();
                (store.revision().await.unwrap(), seen.len())
            })
        })
        .collect();
    tokio::task::yield_now().await;
    // A rejected commit wakes no waiter.
    let refused = store.commit(commit(vec![create("a")])).await;
    assert_conflict(refused, "a", 0, 1);
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    commit_writes(&store, vec![create("b")]).await;
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), (2, 1));
    }
}
