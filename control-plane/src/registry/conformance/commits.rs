//! A commit is atomic, and requires everything it expects.

use std::collections::BTreeSet;

use ballast_domain::bounds::COMMIT_WRITES_MAX;
use ballast_domain::registry::{
    ABSENT, CommitError, EventQuery, Precondition, Record, RecordKey, RecordKind, RecordQuery,
    RecordWrite, Registry, RegistryCommit, RememberedReply,
};
use ballast_domain::{Actor, Clock};
use futures::future::join_all;

use super::*;

/// Starts all commits concurrently, each in its own task, and returns their outcomes
/// in order. A large commit of tokens goes first, so that they queue up behind it and
/// an implementation that commits in groups has a group to get wrong.
pub(super) async fn at_once<S: Registry + Clone>(
    store: &S,
    commits: Vec<RegistryCommit>,
) -> Vec<Result<u64, CommitError>> {
    let past = store.revision().await.unwrap();
    let large = (0..2_000).map(|n| RecordWrite {
        key: RecordKey::new(RecordKind::Token, format!("large-{past}-{n}")),
        ..create("")
    });
    let ahead = commit(large.collect());
    let tasks = std::iter::once(ahead).chain(commits).map(|commit| {
        let store = store.clone();
        tokio::spawn(async move { store.commit(commit).await })
    });
    join_all(tasks)
        .await
        .into_iter()
        .map(|outcome| outcome.unwrap())
        .skip(1)
        .collect()
}

pub(crate) async fn a_record_reads_as_it_was_written<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(store.revision().await.unwrap(), 0);
    assert_eq!(store.get(&key("acme")).await.unwrap(), None);
    assert_eq!(
        commit_writes(&store, vec![put("acme", ABSENT, body(1))]).await,
        1
    );
    assert_eq!(
        commit_writes(&store, vec![put("acme", 1, body(2))]).await,
        2
    );
    let expected = Record {
        key: key("acme"),
        version: 2,
        revision: 2,
        body: body(2),
    };
    assert_eq!(store.get(&key("acme")).await.unwrap(), Some(expected));
    assert_eq!(store.get(&key("acm")).await.unwrap(), None);
    assert_eq!(store.get(&key("ACME")).await.unwrap(), None);
    assert_eq!(store.revision().await.unwrap(), 2);
}

pub(crate) async fn each_kind_has_its_own_ids<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let of = |kind| RecordWrite {
        key: RecordKey::new(kind, "same"),
        body: Some(format!("{:?}", kind.name())),
        ..create("same")
    };
    commit_writes(&store, RecordKind::ALL.map(of).to_vec()).await;
    for kind in RecordKind::ALL {
        let record = store.get(&RecordKey::new(kind, "same")).await.unwrap();
        assert_eq!(record.unwrap().body, format!("{:?}", kind.name()));
        let listed = store.list(&RecordQuery::all(kind, 10)).await.unwrap();
        assert_eq!(listed.len(), 1);
    }
}

pub(crate) async fn several_records_are_written_together<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("a"), create("b")]).await;
    let writes = vec![put("a", 1, body(1)), remove("b", 1), create("c")];
    let revision = commit_writes(&store, writes).await;
    assert_eq!(revision, 2);
    for (id, version) in [("a", Some(2)), ("b", None), ("c", Some(1))] {
        let record = store.get(&key(id)).await.unwrap();
        let actual = record.map(|one| (one.version, one.revision));
        assert_eq!(actual, version.map(|version| (version, revision)), "{id}");
    }
}

pub(crate) async fn creating_what_exists_conflicts<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("acme")]).await;
    commit_writes(&store, vec![put("acme", 1, body(1))]).await;
    let outcome = store.commit(commit(vec![create("acme")])).await;
    assert_conflict(outcome, "acme", ABSENT, 2);
}

pub(crate) async fn changing_what_is_absent_conflicts<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let outcome = store.commit(commit(vec![put("acme", 3, body(1))])).await;
    assert_conflict(outcome, "acme", 3, ABSENT);
    let outcome = store.commit(commit(vec![remove("acme", 1)])).await;
    assert_conflict(outcome, "acme", 1, ABSENT);
    commit_writes(&store, vec![create("acme")]).await;
    commit_writes(&store, vec![remove("acme", 1)]).await;
    for expected in [1, 2] {
        let outcome = store.commit(commit(vec![remove("acme", expected)])).await;
        assert_conflict(outcome, "acme", expected, ABSENT);
    }
}

pub(crate) async fn one_stale_write_of_three_changes_nothing<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let dressed = |write| with_tallies(with_terms(write, &["old"]), &["shard:1"]);
    commit_writes(&store, vec![dressed(create("a")), dressed(create("b"))]).await;
    commit_writes(&store, vec![dressed(put("b", 1, body(1)))]).await;
    let terms = ["old", "new", "shard:1", "shard:2"];
    let before = read_snapshot(&store, &terms).await;
    let dressed = |write| with_tallies(with_terms(write, &["new"]), &["shard:2"]);
    let fresh = || dressed(create("c"));
    let changed = || dressed(put("a", 1, body(9)));
    let stale = || dressed(put("b", 1, body(9)));
    // In any position, and with a reply to remember.
    let orders: [[RecordWrite; 3]; 3] = [
        [stale(), fresh(), changed()],
        [fresh(), stale(), changed()],
        [fresh(), changed(), stale()],
    ];
    for writes in orders {
        let outcome = store
            .commit(RegistryCommit {
                reply: Some(RememberedReply {
                    id: "request".to_owned(),
                    sealed: vec![1],
                    expires_at: fixture.clock().now().plus_seconds(60),
                }),
                ..commit(writes.to_vec())
            })
            .await;
        assert_conflict(outcome, "b", 1, 2);
        assert_eq!(read_snapshot(&store, &terms).await, before);
        let reply = store.reply("request", fixture.clock().now()).await.unwrap();
        assert_eq!(reply, None);
    }
}

pub(crate) async fn an_expected_version_must_hold<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("fleet")]).await;
    let under = |id: &str, version| RegistryCommit {
        expects: vec![Precondition::Version(key(id), version)],
        ..commit(vec![create(&format!("made-under-{id}-{version}"))])
    };
    store.commit(under("fleet", 1)).await.unwrap();
    store.commit(under("nothing", ABSENT)).await.unwrap();
    // A version that is only expected does not change.
    let fleet = store.get(&key("fleet")).await.unwrap().unwrap();
    assert_eq!((fleet.version, fleet.revision), (1, 1));
    let before = read_snapshot(&store, &[]).await;
    assert_conflict(store.commit(under("fleet", 2)).await, "fleet", 2, 1);
    assert_conflict(
        store.commit(under("fleet", ABSENT)).await,
        "fleet",
        ABSENT,
        1,
    );
    assert_conflict(store.commit(under("nothing", 1)).await, "nothing", 1, 0);
    assert_eq!(read_snapshot(&store, &[]).await, before);
}

fn below(limit: u64, id: &str) -> RegistryCommit {
    RegistryCommit {
        expects: vec![Precondition::TallyBelow(
            RecordKind::Tenant,
            "shard:1".into(),
            limit,
        )],
        ..commit(vec![create_with_tallies(id, &["shard:1"])])
    }
}

fn assert_limit_reached(outcome: Result<u64, CommitError>, expected: u64) {
    match outcome {
        Err(CommitError::LimitReached { tally, limit }) => {
            assert_eq!((tally.as_str(), limit), ("shard:1", expected));
        }
        other => panic!("expected the limit, got {other:?}"),
    }
}

pub(crate) async fn a_tally_must_be_below_its_limit<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_limit_reached(store.commit(below(0, "a")).await, 0);
    store.commit(below(2, "a")).await.unwrap();
    store.commit(below(2, "b")).await.unwrap();
    let before = read_snapshot(&store, &["shard:1"]).await;
    assert_limit_reached(store.commit(below(2, "c")).await, 2);
    assert_eq!(read_snapshot(&store, &["shard:1"]).await, before);
    // Tallies of different kinds are independent.
    let other = RegistryCommit {
        expects: vec![Precondition::TallyBelow(
            RecordKind::Key,
            "shard:1".into(),
            1,
        )],
        ..commit(vec![create("c")])
    };
    store.commit(other).await.unwrap();
    // A removed record frees its place.
    commit_writes(&store, vec![remove("a", 1)]).await;
    store.commit(below(2, "d")).await.unwrap();
}

pub(crate) async fn many_commits_at_once_stop_at_the_limit<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let commits = (0..100).map(|n| below(17, &format!("t-{n}"))).collect();
    let outcomes = at_once(&store, commits).await;
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 17);
    for outcome in refused {
        assert_limit_reached(outcome, 17);
    }
    let tallies = store.tallies(RecordKind::Tenant, "").await.unwrap();
    assert_eq!(tallies, counts(&[("shard:1", 17)]));
    assert_eq!(find_ids(&store, &["shard:1"]).await.len(), 17);
    assert_eq!(store.revision().await.unwrap(), 17 + 1);
}

pub(crate) async fn one_of_many_commits_at_once_wins_each_version<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    for version in 0..5 {
        let commits = (0..200).map(|n| commit(vec![put("acme", version, body(n))]));
        let outcomes = at_once(&store, commits.collect()).await;
        let winners: Vec<u64> = (0..200)
            .zip(&outcomes)
            .filter_map(|(n, outcome)| outcome.is_ok().then_some(n))
            .collect();
        assert_eq!(winners.len(), 1, "version {version}");
        for outcome in outcomes.into_iter().filter(Result::is_err) {
            assert_conflict(outcome, "acme", version, version + 1);
        }
        let record = store.get(&key("acme")).await.unwrap().unwrap();
        assert_eq!(record.version, version + 1);
        assert_eq!(record.body, body(winners[0]));
    }
    assert_eq!(store.revision().await.unwrap(), 5 + 5);
    let log = EventQuery {
        kind: Some(RecordKind::Tenant),
        ..newest(1_000)
    };
    assert_eq!(store.events(&log).await.unwrap().len(), 5);
}

pub(crate) async fn many_commits_at_once_get_revisions_without_gaps<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let commits =
        (0..200).map(|n| commit(vec![create(&format!("t-{n}")), create(&format!("u-{n}"))]));
    let outcomes = at_once(&store, commits.collect()).await;
    let mut revisions = BTreeSet::new();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let revision = outcome.unwrap();
        revisions.insert(revision);
        for id in [format!("t-{n}"), format!("u-{n}")] {
            let record = store.get(&key(&id)).await.unwrap().unwrap();
            assert_eq!((record.version, record.revision), (1, revision));
        }
    }
    // Their revisions, and that of the large commit.
    assert_eq!(revisions.len(), 200);
    assert!(revisions.is_subset(&(1..=201).collect()));
    assert_eq!(store.revision().await.unwrap(), 201);
}

pub(crate) async fn a_removed_record_can_be_created_again<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("acme")]).await;
    commit_writes(&store, vec![put("acme", 1, body(1))]).await;
    commit_writes(&store, vec![remove("acme", 2)]).await;
    assert_eq!(store.get(&key("acme")).await.unwrap(), None);
    let all = RecordQuery::all(RecordKind::Tenant, 10);
    assert_eq!(store.list(&all).await.unwrap(), vec![]);
    commit_writes(&store, vec![put("acme", ABSENT, body(4))]).await;
    // The version continues: an old ETag never matches the new record.
    let record = store.get(&key("acme")).await.unwrap().unwrap();
    assert_eq!((record.version, record.revision), (4, 4));
    assert_conflict(
        store.commit(commit(vec![put("acme", 2, body(5))])).await,
        "acme",
        2,
        4,
    );
    let events = store.events(&newest(10)).await.unwrap();
    let versions: Vec<u64> = events.iter().map(|event| event.version).collect();
    assert_eq!(versions, vec![4, 3, 2, 1]);
    let past = store.get_at(&key("acme"), 2).await.unwrap().unwrap();
    assert_eq!((past.version, past.body), (2, body(1)));
}

pub(crate) async fn a_record_is_written_once_per_commit<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("acme")]).await;
    let before = read_snapshot(&store, &[]).await;
    let twice = vec![put("acme", 1, body(1)), put("acme", 1, body(2))];
    let outcome = store.commit(commit(twice)).await;
    assert!(matches!(outcome, Err(CommitError::Store(_))), "{outcome:?}");
    assert_eq!(read_snapshot(&store, &[]).await, before);
}

pub(crate) async fn a_commit_writes_only_so_many_records<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let many = |count| (0..count).map(|n| create(&format!("t-{n}"))).collect();
    let outcome = store.commit(commit(many(COMMIT_WRITES_MAX + 1))).await;
    assert!(matches!(outcome, Err(CommitError::Store(_))), "{outcome:?}");
    assert_eq!(store.revision().await.unwrap(), 0);
    assert_eq!(commit_writes(&store, many(COMMIT_WRITES_MAX)).await, 1);
    // The feed returns even the largest commit whole.
    assert_eq!(store.changes(0, 1).await.unwrap().len(), COMMIT_WRITES_MAX);
}

pub(crate) async fn a_commit_without_writes_has_no_revision<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("acme")]).await;
    let before = read_snapshot(&store, &[]).await;
    let now = fixture.clock().now();
    let reply = RememberedReply {
        id: "request".to_owned(),
        sealed: vec![7],
        expires_at: now.plus_seconds(60),
    };
    // It may still have expectations and a reply.
    let asking = |version| RegistryCommit {
        expects: vec![Precondition::Version(key("acme"), version)],
        reply: Some(reply.clone()),
        ..commit(Vec::new())
    };
    assert_conflict(store.commit(asking(2)).await, "acme", 2, 1);
    assert_eq!(store.reply("request", now).await.unwrap(), None);
    assert_eq!(store.commit(asking(1)).await.unwrap(), 1);
    assert_eq!(store.reply("request", now).await.unwrap(), Some(reply));
    assert_eq!(read_snapshot(&store, &[]).await, before);
    assert_eq!(commit_writes(&store, vec![create("b")]).await, 2);
}

pub(crate) async fn bodies_are_stored_verbatim<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let odd = [
        "it's \"quoted\" `and` [bracketed] -- ; % _ ?1 $.a",
        "ünïcödé ✓ 漢字 🗳️ \u{202e}rtl\u{202c} \u{feff}bom e\u{301}",
        "line\nfeed\ttab\r\\back/slash",
        " spaces around ",
        "123",
        "1e999",
        "null",
        "[1,2]",
    ];
    for text in odd {
        let json = serde_json::to_string(text).unwrap();
        // Whitespace, key order, escapes and long numbers are preserved.
        let body = format!(
            "{{ \"z\": {json},\n\"a\": \"\\u0000\\ud83d\\uddf3\\/\", \"n\": 12345678901234567890.10 }}"
        );
        let term = format!("term:{text}");
        let tally = format!("tally:{text}");
        let write = with_tallies(with_terms(put(text, ABSENT, &*body), &[&term]), &[&tally]);
        let revision = store
            .commit(RegistryCommit {
                actor: Actor {
                    name: text.to_owned(),
                    token_id: None,
                    address: Some(format!("{text}\0nul")),
                },
                reason: Some(format!("{text}\0nul")),
                ..commit(vec![write])
            })
            .await
            .unwrap();
        let record = Record {
            key: key(text),
            version: 1,
            revision,
            body: body.clone(),
        };
        let read = store.get(&key(text)).await.unwrap();
        assert_eq!(read.as_ref(), Some(&record));
        assert_eq!(store.get_at(&key(text), revision).await.unwrap(), read);
        assert_eq!(find_ids(&store, &[&term, &tally]).await, [text]);
        let tallies = store.tallies(RecordKind::Tenant, &tally).await.unwrap();
        assert_eq!(tallies, counts(&[(&tally, 1)]));
        let events = store.changes(revision - 1, 10).await.unwrap();
        let event = &events[0];
        assert_eq!(event.key, record.key);
        assert_eq!(event.after.as_ref(), Some(&body));
        assert_eq!(event.reason, Some(format!("{text}\0nul")));
        assert_eq!(event.actor.name, text);
        assert_eq!(event.actor.address, Some(format!("{text}\0nul")));
    }
}
