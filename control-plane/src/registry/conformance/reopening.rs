//! Committed data is still there after the registry was closed and reopened.

use ballast_domain::registry::{
    CommitError, Precondition, RecordKind, Registry, RegistryCommit, RememberedReply,
};
use ballast_domain::{Clock, Timestamp};

use super::*;

pub(crate) async fn reopening_restores_everything<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let now = fixture.clock().now();
    seed_fleet(&store).await;
    let made = RegistryCommit {
        reply: Some(RememberedReply {
            id: "request".to_owned(),
            sealed: vec![0, 1, 2],
            expires_at: now.plus_seconds(60),
        }),
        ..commit(vec![
            with_terms(create_with_tallies("b", &["x", "x"]), &["t"]),
            create_with_tallies("c", &["x"]),
        ])
    };
    store.commit(made.clone()).await.unwrap();
    commit_writes(&store, vec![remove("c", 1)]).await;
    let uses = [("b".to_owned(), now)];
    store.mark_used(RecordKind::Tenant, &uses).await.unwrap();
    let terms = ["t", "x", "region:local", "status:active", "shard:shard-1"];
    let before = read_snapshot(&store, &terms).await;
    fixture.close(store).await;

    let store = fixture.open().await;
    assert_eq!(read_snapshot(&store, &terms).await, before);
    assert_eq!(find_ids(&store, &["shard:shard-1"]).await, ["acme"]);
    let reply = store.reply("request", now).await.unwrap();
    assert_eq!(reply, made.reply);
    let again = store.commit(made).await;
    assert!(matches!(again, Err(CommitError::AlreadyAnswered)));
    let used = store
        .last_used(RecordKind::Tenant, &texts(&["b"]))
        .await
        .unwrap();
    assert_eq!(used, BTreeMap::from(uses));
    let past = store.get_at(&key("c"), 2).await.unwrap();
    assert_eq!(past.unwrap().version, 1);
}

pub(crate) async fn revisions_and_versions_continue<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create_with_tallies("a", &["x"]), create("b")]).await;
    commit_writes(&store, vec![remove("b", 1)]).await;
    fixture.close(store).await;

    let store = fixture.open().await;
    assert_conflict(
        store.commit(commit(vec![create("a")])).await,
        "a",
        ABSENT,
        1,
    );
    let full = RegistryCommit {
        expects: vec![Precondition::TallyBelow(
            RecordKind::Tenant,
            "x".to_owned(),
            1,
        )],
        ..commit(vec![create("c")])
    };
    let outcome = store.commit(full).await;
    assert!(matches!(outcome, Err(CommitError::LimitReached { .. })));
    assert_eq!(
        commit_writes(&store, vec![create("b"), create("c")]).await,
        3
    );
    let b = store.get(&key("b")).await.unwrap().unwrap();
    assert_eq!((b.version, b.revision), (3, 3));
    // The feed continues where its reader stopped.
    store.wait_past(2).await.unwrap();
    let changes = store.changes(2, 10).await.unwrap();
    assert_eq!(changes.len(), 2);
    let all = store.changes(0, 10).await.unwrap();
    assert!(all.is_sorted_by(|one, two| one.sequence < two.sequence));
    fixture.close(store).await;

    let store = fixture.open().await;
    assert_eq!(commit_writes(&store, vec![create("d")]).await, 4);
}

pub(crate) async fn time_does_not_run_backwards_across_a_restart<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let begin = fixture.clock().now();
    commit_writes(&store, vec![create("a")]).await;
    fixture.close(store).await;
    fixture.clock().advance_ms(-3_600_000);

    let store = fixture.open().await;
    commit_writes(&store, vec![create("b")]).await;
    let events = store.changes(0, 10).await.unwrap();
    let times: Vec<Timestamp> = events.iter().map(|event| event.at).collect();
    assert_eq!(times, [begin, begin]);
    assert_eq!(store.revision_at(begin).await.unwrap(), 2);
}
