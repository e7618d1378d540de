//! A tally counts how often records have a term, now and at every revision. Zero
//! counts are omitted.

use ballast_domain::registry::{ABSENT, RecordKey, RecordKind, RecordWrite, Registry};

use super::*;

async fn now(store: &dyn Registry) -> BTreeMap<String, u64> {
    store.tallies(RecordKind::Tenant, "").await.unwrap()
}

pub(crate) async fn a_tally_counts_its_slices<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    assert_eq!(now(&store).await, counts(&[]));
    let writes = vec![
        create_with_tallies("a", &["shard:1"]),
        create_with_tallies("b", &["shard:1", "shard:2"]),
        // Two slices on one shard count twice.
        create_with_tallies("c", &["shard:2", "shard:2"]),
    ];
    commit_writes(&store, writes).await;
    assert_eq!(now(&store).await, counts(&[("shard:1", 2), ("shard:2", 3)]));
    // One of the two moves away.
    let moved = with_tallies(put("c", 1, body(1)), &["shard:2", "shard:3"]);
    commit_writes(&store, vec![moved]).await;
    let expected = counts(&[("shard:1", 2), ("shard:2", 2), ("shard:3", 1)]);
    assert_eq!(now(&store).await, expected);
    // Two records swap within one commit: nothing changes.
    let writes = vec![
        with_tallies(put("a", 1, body(1)), &["shard:3"]),
        with_tallies(put("c", 2, body(2)), &["shard:2", "shard:1"]),
    ];
    commit_writes(&store, writes).await;
    assert_eq!(now(&store).await, expected);
}

pub(crate) async fn a_tally_finds_its_records<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let writes = vec![
        with_terms(create_with_tallies("a", &["shard:1", "shard:1"]), &["t"]),
        with_terms(create_with_tallies("b", &["shard:2"]), &["t", "shard:2"]),
    ];
    commit_writes(&store, writes).await;
    assert_eq!(find_ids(&store, &["shard:1"]).await, ["a"]);
    assert_eq!(find_ids(&store, &["shard:2", "t"]).await, ["b"]);
    assert_eq!(now(&store).await, counts(&[("shard:1", 2), ("shard:2", 1)]));
    // A term that is no longer a tally is still a term.
    commit_writes(&store, vec![with_terms(put("b", 1, body(1)), &["shard:2"])]).await;
    assert_eq!(find_ids(&store, &["shard:2"]).await, ["b"]);
    assert_eq!(now(&store).await, counts(&[("shard:1", 2)]));
    commit_writes(
        &store,
        vec![with_tallies(put("a", 1, body(1)), &["shard:3"])],
    )
    .await;
    assert_eq!(find_ids(&store, &["shard:1"]).await, [""; 0]);
    assert_eq!(find_ids(&store, &["shard:3"]).await, ["a"]);
}

pub(crate) async fn tallies_are_kept_and_removed<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create_with_tallies("a", &["x", "x", "y"])]).await;
    // Terms may be kept; tallies are always those of the write.
    let kept = keeping_terms(with_tallies(put("a", 1, body(1)), &["y", "z"]));
    commit_writes(&store, vec![kept]).await;
    assert_eq!(now(&store).await, counts(&[("y", 1), ("z", 1)]));
    commit_writes(&store, vec![with_tallies(put("a", 2, body(2)), &["x"])]).await;
    assert_eq!(now(&store).await, counts(&[("x", 1)]));
    commit_writes(&store, vec![remove("a", 3)]).await;
    assert_eq!(now(&store).await, counts(&[]));
    assert_eq!(find_ids(&store, &["x"]).await, [""; 0]);
    let again = with_tallies(put("a", ABSENT, body(3)), &["x"]);
    commit_writes(&store, vec![again]).await;
    assert_eq!(now(&store).await, counts(&[("x", 1)]));
}

pub(crate) async fn a_prefix_narrows_tallies<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let key_of = RecordWrite {
        key: RecordKey::new(RecordKind::Key, "a"),
        ..create_with_tallies("a", &["shard:1"])
    };
    let names = ["shard", "shard:", "shard:1", "shard:10", "share", "s"];
    commit_writes(&store, vec![create_with_tallies("a", &names), key_of]).await;
    let under = store.tallies(RecordKind::Tenant, "shard:").await.unwrap();
    let expected = counts(&[("shard:", 1), ("shard:1", 1), ("shard:10", 1)]);
    assert_eq!(under, expected);
    let past = store
        .tallies_at(RecordKind::Tenant, "shard:", 1)
        .await
        .unwrap();
    assert_eq!(past, expected);
    let keys = store.tallies(RecordKind::Key, "").await.unwrap();
    assert_eq!(keys, counts(&[("shard:1", 1)]));
}

pub(crate) async fn tallies_are_known_in_the_past<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let history = vec![
        vec![create_with_tallies("a", &["x", "x"])],
        vec![create_with_tallies("b", &["x", "y"])],
        vec![create("c")],
        vec![with_tallies(put("a", 1, body(1)), &["y"]), create("d")],
        vec![remove("a", 2), remove("b", 1)],
        vec![create_with_tallies("e", &["y"])],
    ];
    let mut expected = vec![counts(&[])];
    for writes in history {
        commit_writes(&store, writes).await;
        expected.push(now(&store).await);
    }
    assert_eq!(expected[2], counts(&[("x", 3), ("y", 1)]));
    assert_eq!(expected[4], counts(&[("x", 1), ("y", 2)]));
    for (revision, then) in (0..).zip(&expected) {
        let actual = store
            .tallies_at(RecordKind::Tenant, "", revision)
            .await
            .unwrap();
        assert_eq!(&actual, then, "at revision {revision}");
    }
    // A future revision reads like the present.
    let later = store
        .tallies_at(RecordKind::Tenant, "", 1_000)
        .await
        .unwrap();
    assert_eq!(later, expected[6]);
}
