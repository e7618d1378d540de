//! Queries by terms and id prefix, ordered by id, page by page.

use ballast_domain::registry::{ABSENT, RecordKey, RecordKind, RecordQuery, RecordWrite, Registry};

use super::*;

fn all(limit: u32) -> RecordQuery {
    RecordQuery::all(RecordKind::Tenant, limit)
}

pub(crate) async fn a_term_finds_its_records<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let shard = RecordWrite {
        key: RecordKey::new(RecordKind::Shard, "a"),
        ..create_with_terms("a", &["region:eu"])
    };
    let writes = vec![
        create_with_terms("a", &["region:eu", "status:active"]),
        create_with_terms("b", &["region:us", "status:active"]),
        create("c"),
        shard,
    ];
    commit_writes(&store, writes).await;
    assert_eq!(find_ids(&store, &["region:eu"]).await, ["a"]);
    assert_eq!(find_ids(&store, &["status:active"]).await, ["a", "b"]);
    // Whole terms only.
    assert_eq!(find_ids(&store, &["region:e"]).await, [""; 0]);
    assert_eq!(find_ids(&store, &["region:eu2"]).await, [""; 0]);
    assert_eq!(find_ids(&store, &["REGION:EU"]).await, [""; 0]);
    assert_eq!(find_ids(&store, &[]).await, ["a", "b", "c"]);
}

pub(crate) async fn terms_are_kept_replaced_and_removed<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create_with_terms("a", &["one", "two"])]).await;
    // Kept.
    commit_writes(&store, vec![keeping_terms(put("a", 1, body(1)))]).await;
    assert_eq!(find_ids(&store, &["one", "two"]).await, ["a"]);
    // Replaced, in part.
    let replaced = with_terms(put("a", 2, body(2)), &["two", "three"]);
    commit_writes(&store, vec![replaced]).await;
    assert_eq!(find_ids(&store, &["one"]).await, [""; 0]);
    assert_eq!(find_ids(&store, &["two", "three"]).await, ["a"]);
    // Queries return the current record.
    let query = RecordQuery {
        terms: texts(&["three"]),
        ..all(10)
    };
    let records = store.list(&query).await.unwrap();
    assert_eq!((records[0].version, &*records[0].body), (3, &*body(2)));
    // Emptied.
    commit_writes(&store, vec![put("a", 3, body(3))]).await;
    assert_eq!(find_ids(&store, &["two"]).await, [""; 0]);
    // Removed with the record, and not restored with a new one.
    commit_writes(&store, vec![with_terms(put("a", 4, body(4)), &["four"])]).await;
    commit_writes(&store, vec![remove("a", 5)]).await;
    assert_eq!(find_ids(&store, &["four"]).await, [""; 0]);
    commit_writes(&store, vec![keeping_terms(put("a", ABSENT, body(7)))]).await;
    assert_eq!(find_ids(&store, &["four"]).await, [""; 0]);
    assert_eq!(find_ids(&store, &[]).await, ["a"]);
}

pub(crate) async fn records_come_in_the_order_of_their_ids<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    // Ordered by bytes, whatever the order of writing.
    let mut names = ["b", "a-2", "a", "a_2", "a-10", "ab", "Z", "é", "10", "9"];
    let writes = names.iter().map(|id| create_with_terms(id, &["t"]));
    commit_writes(&store, writes.collect()).await;
    names.sort_unstable();
    assert_eq!(find_ids(&store, &[]).await, names);
    assert_eq!(find_ids(&store, &["t"]).await, names);
}

pub(crate) async fn pages_follow_each_other<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let names: Vec<String> = (0..25).map(|n| format!("t-{n:02}")).collect();
    let writes = names.iter().map(|id| create_with_terms(id, &["t", "u"]));
    commit_writes(&store, writes.collect()).await;
    commit_writes(&store, vec![remove("t-07", 1), remove("t-24", 1)]).await;
    let left: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|id| *id != "t-07" && *id != "t-24")
        .collect();
    for terms in [texts(&[]), texts(&["t"]), texts(&["t", "u"])] {
        let mut seen = Vec::new();
        let mut after = None;
        for _ in 0..4 {
            let query = RecordQuery {
                terms: terms.clone(),
                after: after.clone(),
                ..all(7)
            };
            let page = store.list(&query).await.unwrap();
            assert!(page.len() <= 7);
            after = page.last().map(|last| last.key.id.clone());
            seen.extend(page.into_iter().map(|one| one.key.id));
        }
        assert_eq!(seen, left, "{terms:?}");
    }
    // A page may begin after an id that does not exist.
    let query = RecordQuery {
        after: Some("t-07".to_owned()),
        ..all(1)
    };
    assert_eq!(ids(&store.list(&query).await.unwrap()), ["t-08"]);
    assert_eq!(store.list(&all(0)).await.unwrap(), vec![]);
}

pub(crate) async fn a_list_can_be_read_from_its_end<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let names: Vec<String> = (0..25).map(|n| format!("t-{n:02}")).collect();
    let writes = names.iter().map(|id| create_with_terms(id, &["t", "u"]));
    commit_writes(&store, writes.collect()).await;
    commit_writes(&store, vec![remove("t-07", 1)]).await;
    let mut left: Vec<&str> = names.iter().map(String::as_str).collect();
    left.retain(|id| *id != "t-07");
    left.reverse();
    for terms in [texts(&[]), texts(&["t"]), texts(&["t", "u"])] {
        let mut seen = Vec::new();
        let mut after = None;
        for _ in 0..4 {
            let query = RecordQuery {
                terms: terms.clone(),
                after: after.clone(),
                descending: true,
                ..all(7)
            };
            let page = store.list(&query).await.unwrap();
            after = page.last().map(|last| last.key.id.clone());
            seen.extend(page.into_iter().map(|one| one.key.id));
        }
        assert_eq!(seen, left, "{terms:?}");
    }
    // A page may begin after an id that does not exist, and respects the prefix.
    let query = RecordQuery {
        after: Some("t-07".to_owned()),
        id_prefix: "t-0".to_owned(),
        descending: true,
        ..all(2)
    };
    assert_eq!(ids(&store.list(&query).await.unwrap()), ["t-06", "t-05"]);
}

pub(crate) async fn a_prefix_narrows_a_list<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let names = ["ab", "abc", "abd", "ab-1", "ab%", "ab_", "ac", "aé", "b"];
    let writes = names.iter().map(|id| create_with_terms(id, &["t"]));
    commit_writes(&store, writes.collect()).await;
    for terms in [texts(&[]), texts(&["t"])] {
        let list = async |prefix: &str, after: Option<&str>, limit| {
            let query = RecordQuery {
                terms: terms.clone(),
                id_prefix: prefix.to_owned(),
                after: after.map(str::to_owned),
                ..all(limit)
            };
            let records = store.list(&query).await.unwrap();
            records
                .into_iter()
                .map(|one| one.key.id)
                .collect::<Vec<_>>()
        };
        let under_ab = ["ab", "ab%", "ab-1", "ab_", "abc", "abd"];
        assert_eq!(list("ab", None, 10).await, under_ab);
        assert_eq!(list("ab", None, 3).await, under_ab[..3]);
        assert_eq!(list("ab", Some("ab-1"), 10).await, under_ab[3..]);
        assert_eq!(list("ab", Some("a"), 10).await, under_ab);
        assert_eq!(list("ab", Some("b"), 10).await, [""; 0]);
        assert_eq!(list("ab%", None, 10).await, ["ab%"]);
        assert_eq!(list("aé", None, 10).await, ["aé"]);
        assert_eq!(list("AB", None, 10).await, [""; 0]);
        assert_eq!(list("zz", None, 10).await, [""; 0]);
    }
}

pub(crate) async fn several_terms_must_all_hold<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let mut writes = Vec::new();
    for n in 0..60 {
        let third = format!("third:{}", n % 3);
        let fifth = format!("fifth:{}", n % 5);
        let terms: &[&str] = match n {
            45 => &["all", &third, &fifth, "rare"],
            _ => &["all", &third, &fifth],
        };
        writes.push(create_with_terms(&format!("t-{n:02}"), terms));
    }
    commit_writes(&store, writes).await;
    let both = ["t-00", "t-15", "t-30", "t-45"];
    assert_eq!(find_ids(&store, &["third:0", "fifth:0"]).await, both);
    assert_eq!(find_ids(&store, &["all", "fifth:0", "third:0"]).await, both);
    assert_eq!(
        find_ids(&store, &["all", "third:0", "rare"]).await,
        ["t-45"]
    );
    assert_eq!(find_ids(&store, &["rare", "all"]).await, ["t-45"]);
    assert_eq!(find_ids(&store, &["third:1", "rare"]).await, [""; 0]);
    assert_eq!(find_ids(&store, &["all", "no-such-term"]).await, [""; 0]);
    // Repeating a term changes nothing.
    assert_eq!(find_ids(&store, &["rare", "rare"]).await, ["t-45"]);
    let query = RecordQuery {
        terms: texts(&["third:0", "fifth:0"]),
        after: Some("t-00".to_owned()),
        id_prefix: "t-".to_owned(),
        ..all(2)
    };
    let page = store.list(&query).await.unwrap();
    assert_eq!(ids(&page), ["t-15", "t-30"]);
}
