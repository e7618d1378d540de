//! The past stays readable: records at every revision, revisions at every moment, and
//! time that never runs backwards.

use ballast_domain::registry::{ABSENT, Record, RecordKind, Registry};
use ballast_domain::{Clock, Timestamp};

use super::*;

/// The history of three records, in seven commits.
async fn lives(store: &dyn Registry) -> u64 {
    let history = vec![
        vec![create("a")],
        vec![create("b"), put("a", 1, body(1))],
        vec![put("b", 1, body(1))],
        vec![remove("a", 2)],
        vec![create("c")],
        vec![put("a", ABSENT, body(9)), remove("b", 2)],
        vec![put("c", 1, body(1))],
    ];
    let mut last = 0;
    for writes in history {
        last = commit_writes(store, writes).await;
    }
    last
}

/// Per revision: the versions of a, b and c, if they existed.
const LIVES: [[Option<u64>; 3]; 8] = [
    [None, None, None],
    [Some(1), None, None],
    [Some(2), Some(1), None],
    [Some(2), Some(2), None],
    [None, Some(2), None],
    [None, Some(2), Some(1)],
    [Some(4), None, Some(1)],
    [Some(4), None, Some(2)],
];

pub(crate) async fn a_record_is_known_at_every_revision<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    lives(&store).await;
    for (revision, lived) in (0..).zip(LIVES) {
        for (id, version) in ["a", "b", "c"].into_iter().zip(lived) {
            let record = store.get_at(&key(id), revision).await.unwrap();
            let actual = record.map(|one| one.version);
            assert_eq!(actual, version, "{id} at revision {revision}");
        }
    }
    // Complete, with the revision that wrote it; the future reads like the present.
    let expected = Record {
        key: key("a"),
        version: 2,
        revision: 2,
        body: body(1),
    };
    assert_eq!(store.get_at(&key("a"), 3).await.unwrap(), Some(expected));
    let now = store.get(&key("c")).await.unwrap();
    assert_eq!(store.get_at(&key("c"), 1_000).await.unwrap(), now);
    assert_eq!(store.get_at(&key("nobody"), 7).await.unwrap(), None);
}

pub(crate) async fn a_kind_is_listed_at_every_revision<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let last = lives(&store).await;
    for revision in 0..=last + 1 {
        let mut expected = Vec::new();
        for id in ["a", "b", "c"] {
            expected.extend(store.get_at(&key(id), revision).await.unwrap());
        }
        let listed = store.list_at(RecordKind::Tenant, revision).await.unwrap();
        assert_eq!(listed, expected, "at revision {revision}");
        assert_eq!(
            store.list_at(RecordKind::Shard, revision).await.unwrap(),
            vec![]
        );
    }
}

pub(crate) async fn a_moment_has_a_revision<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let clock = fixture.clock();
    let begin = clock.now();
    assert_eq!(store.revision_at(begin).await.unwrap(), 0);
    commit_writes(&store, vec![create("a")]).await;
    commit_writes(&store, vec![create("b")]).await;
    clock.advance_ms(1_000);
    commit_writes(&store, vec![create("c")]).await;
    let at = |ms: i64| Timestamp::from_unix_ms(begin.unix_ms() + ms);
    let moments = [(-1, 0), (0, 2), (999, 2), (1_000, 3), (99_999, 3)];
    for (ms, revision) in moments {
        let actual = store.revision_at(at(ms)).await.unwrap();
        assert_eq!(actual, revision, "{ms} ms in");
    }
}

pub(crate) async fn time_never_runs_backwards<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let clock = fixture.clock();
    let begin = clock.now();
    for (n, step) in [500, -3_600_000, 1, 3_600_500, -1].into_iter().enumerate() {
        clock.advance_ms(step);
        commit_writes(&store, vec![create(&format!("t-{n}"))]).await;
    }
    let events = store.changes(0, 100).await.unwrap();
    let times: Vec<i64> = events
        .iter()
        .map(|event| event.at.unix_ms() - begin.unix_ms())
        .collect();
    assert_eq!(times, [500, 500, 500, 1_001, 1_001]);
    let moment = Timestamp::from_unix_ms(begin.unix_ms() + 500);
    assert_eq!(store.revision_at(moment).await.unwrap(), 3);
}
