//! Data outside of the records: replies to idempotent requests, and last uses.

use ballast_domain::registry::{
    CommitError, RecordKind, Registry, RegistryCommit, RememberedReply,
};
use ballast_domain::{Clock, Timestamp};

use super::commits::at_once;
use super::*;

fn answered(request: &str, id: &str, expires_at: Timestamp) -> RegistryCommit {
    RegistryCommit {
        reply: Some(RememberedReply {
            id: request.to_owned(),
            sealed: id.as_bytes().to_vec(),
            expires_at,
        }),
        ..commit(vec![create(id)])
    }
}

pub(crate) async fn a_reply_is_remembered_until_it_expires<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let now = fixture.clock().now();
    let end = now.plus_seconds(60);
    let reply = RememberedReply {
        id: "it's \"1\"".to_owned(),
        sealed: (0..=255).collect(),
        expires_at: end,
    };
    let made = RegistryCommit {
        reply: Some(reply.clone()),
        ..commit(vec![create("a")])
    };
    store.commit(made).await.unwrap();
    let just_before = Timestamp::from_unix_ms(end.unix_ms() - 1);
    let just_after = Timestamp::from_unix_ms(end.unix_ms() + 1);
    for (moment, expected) in [
        (now, Some(&reply)),
        (just_before, Some(&reply)),
        (just_after, None),
    ] {
        let actual = store.reply(&reply.id, moment).await.unwrap();
        assert_eq!(actual.as_ref(), expected, "{moment}");
    }
    assert_eq!(store.reply("another", now).await.unwrap(), None);
}

pub(crate) async fn a_request_is_answered_once<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let now = fixture.clock().now();
    let end = now.plus_seconds(60);
    store.commit(answered("request", "a", end)).await.unwrap();
    let before = read_snapshot(&store, &[]).await;
    let again = store.commit(answered("request", "b", end)).await;
    assert!(matches!(again, Err(CommitError::AlreadyAnswered)));
    // Also where the retry would conflict: it already has its reply.
    let same = store.commit(answered("request", "a", end)).await;
    assert!(matches!(same, Err(CommitError::AlreadyAnswered)));
    assert_eq!(read_snapshot(&store, &[]).await, before);
    let reply = store.reply("request", now).await.unwrap().unwrap();
    assert_eq!(reply.sealed, b"a");
    store.commit(answered("other", "b", end)).await.unwrap();
}

pub(crate) async fn many_equal_requests_at_once_are_answered_once<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let now = fixture.clock().now();
    let end = now.plus_seconds(60);
    let commits = (0..100).map(|n| answered("request", &format!("t-{n}"), end));
    let outcomes = at_once(&store, commits.collect()).await;
    let winners: Vec<usize> = (0..100).filter(|n| outcomes[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    for outcome in outcomes.iter().filter(|outcome| outcome.is_err()) {
        assert!(matches!(outcome, Err(CommitError::AlreadyAnswered)));
    }
    let made = format!("t-{}", winners[0]);
    assert_eq!(find_ids(&store, &[]).await, [&*made]);
    let reply = store.reply("request", now).await.unwrap().unwrap();
    assert_eq!(reply.sealed, made.as_bytes());
}

pub(crate) async fn an_expired_request_may_be_asked_again<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let end = fixture.clock().now().plus_seconds(60);
    store.commit(answered("request", "a", end)).await.unwrap();
    fixture.clock().advance_ms(60_000);
    // It has not been deleted yet, but has expired.
    let now = fixture.clock().now();
    assert_eq!(store.reply("request", now).await.unwrap(), None);
    let later = now.plus_seconds(60);
    store.commit(answered("request", "b", later)).await.unwrap();
    let reply = store.reply("request", now).await.unwrap().unwrap();
    assert_eq!((&*reply.sealed, reply.expires_at), (&b"b"[..], later));
    let again = store.commit(answered("request", "c", later)).await;
    assert!(matches!(again, Err(CommitError::AlreadyAnswered)));
}

pub(crate) async fn expired_replies_are_forgotten<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let now = fixture.clock().now();
    for (request, seconds) in [("short", 60), ("long", 120)] {
        let end = now.plus_seconds(seconds);
        store.commit(answered(request, request, end)).await.unwrap();
    }
    store.forget_replies(now.plus_seconds(60)).await.unwrap();
    // Queried at a moment when neither had expired.
    assert_eq!(store.reply("short", now).await.unwrap(), None);
    assert!(store.reply("long", now).await.unwrap().is_some());
    // Deleting replies removes no record and creates no revision.
    assert_eq!(find_ids(&store, &[]).await, ["long", "short"]);
    assert_eq!(store.revision().await.unwrap(), 2);
}

pub(crate) async fn a_refused_commit_leaves_no_reply<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    let now = fixture.clock().now();
    commit_writes(&store, vec![create("a")]).await;
    let end = now.plus_seconds(60);
    let refused = store.commit(answered("request", "a", end)).await;
    assert_conflict(refused, "a", 0, 1);
    assert_eq!(store.reply("request", now).await.unwrap(), None);
    store.commit(answered("request", "b", end)).await.unwrap();
}

pub(crate) async fn the_latest_use_is_kept<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let at = Timestamp::from_unix_ms;
    let used = |id: &str, ms| (id.to_owned(), at(ms));
    let mark = async |uses: &[(String, Timestamp)]| {
        store.mark_used(RecordKind::Key, uses).await.unwrap();
    };
    mark(&[]).await;
    mark(&[used("a", 5), used("b", 7), used("it's \"c\"", 1)]).await;
    mark(&[used("a", 3), used("b", 9)]).await;
    // Out of order within one call, too.
    mark(&[used("d", 8), used("d", 6)]).await;
    let wanted = texts(&["a", "b", "it's \"c\"", "d", "never"]);
    let actual = store.last_used(RecordKind::Key, &wanted).await.unwrap();
    let expected = [("a", 5), ("b", 9), ("it's \"c\"", 1), ("d", 8)];
    assert_eq!(actual, expected.map(|(id, ms)| used(id, ms)).into());
    // Only the requested ids, of the requested kind.
    let one = store
        .last_used(RecordKind::Key, &texts(&["b"]))
        .await
        .unwrap();
    assert_eq!(one, [used("b", 9)].into());
    let none = store.last_used(RecordKind::Token, &wanted).await.unwrap();
    assert_eq!(none, BTreeMap::new());
    let none = store.last_used(RecordKind::Key, &[]).await.unwrap();
    assert_eq!(none, BTreeMap::new());
}

pub(crate) async fn a_use_is_no_change<F: Fixture>() {
    let (fixture, store) = start::<F>().await;
    commit_writes(&store, vec![create("a")]).await;
    let before = read_snapshot(&store, &[]).await;
    let uses = [("a".to_owned(), fixture.clock().now())];
    store.mark_used(RecordKind::Tenant, &uses).await.unwrap();
    assert_eq!(read_snapshot(&store, &[]).await, before);
}
