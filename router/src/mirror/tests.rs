//! Votes that count when both sides have them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ballast_domain::VoterId;
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::{MoveId, Order};
use ballast_vote_shard::{At, VoteShard};
use futures::future::join_all;

use crate::testing::{Answered, Town, slice};

fn voter(name: &str) -> String {
    format!(r#"{{"voterID":"{name}"}}"#)
}

/// A poll whose slice is in a window in which both sides acknowledge.
async fn in_window() -> (Town, String, String) {
    let town = Town::new(|settings| settings.hold_max = Duration::from_millis(200));
    town.sync.store(true, Ordering::SeqCst);
    let (poll, vote) = town.near.poll().await;
    town.near.ask("PATCH", &vote, &voter("ada")).await;
    town.move_to("shard-2").await;
    (town, poll, vote)
}

async fn cast(town: &Town, vote: &str, name: &str) -> Answered {
    town.near.ask("PATCH", vote, &voter(name)).await
}

/// Whether a shard has a voter's row.
async fn has(town: &Town, shard: &str, poll: &str, name: &str) -> bool {
    let poll = poll.trim_start_matches("/polls/").parse().unwrap();
    let voter = VoterId::new(name).unwrap();
    let row = town.shard(shard).voter(&slice(), poll, &voter).await;
    row.is_ok_and(|row| row.is_some())
}

#[tokio::test]
async fn what_is_answered_is_on_both_sides() {
    let (town, poll, vote) = in_window().await;
    for name in ["bob", "cid"] {
        assert_eq!(cast(&town, &vote, name).await.body["outcome"], "counted");
        assert!(has(&town, "shard-1", &poll, name).await, "{name}");
        assert!(has(&town, "shard-2", &poll, name).await, "{name}");
    }
    // Polls too, and what is voted in them.
    let (poll, vote) = town.near.poll().await;
    cast(&town, &vote, "bob").await;
    assert!(has(&town, "shard-1", &poll, "bob").await);
    let closed = town.near.ask("POST", &format!("{poll}/close"), "").await;
    assert_eq!(closed.status, 200, "{closed:?}");
    let id = poll.trim_start_matches("/polls/").parse().unwrap();
    let copy = town.shard("shard-1").poll(&slice(), id).await.unwrap();
    assert!(copy.closed_at.is_some());
    // Who votes at the same time is carried together.
    let (poll, vote) = town.near.poll().await;
    let names: Vec<String> = (0..50).map(|number| format!("v-{number}")).collect();
    let votes = names.iter().map(|name| cast(&town, &vote, name));
    for (answer, name) in join_all(votes).await.into_iter().zip(&names) {
        assert_eq!(answer.body["outcome"], "counted", "{answer:?}");
        assert!(has(&town, "shard-1", &poll, name).await, "{name}");
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_that_only_one_side_has() {
    let (town, poll, vote) = in_window().await;
    town.shards.set_away("shard-1", true);
    let refused = cast(&town, &vote, "bob").await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(has(&town, "shard-2", &poll, "bob").await);
    assert!(!has(&town, "shard-1", &poll, "bob").await);
    // Reads do not wait for it.
    let found = town
        .near
        .ask("GET", &format!("{poll}/voters/ada"), "")
        .await;
    assert_eq!(found.status, 200, "{found:?}");
    // Whoever tries again is told the truth, and only when both have it.
    town.shards.set_away("shard-1", false);
    let again = cast(&town, &vote, "bob").await;
    assert_eq!(again.body["outcome"], "already", "{again:?}");
    assert!(has(&town, "shard-1", &poll, "bob").await);
}

#[tokio::test]
async fn a_copy_that_is_taken_back_acknowledges_nothing_more() {
    let (town, poll, vote) = in_window().await;
    assert_eq!(cast(&town, &vote, "bob").await.body["outcome"], "counted");
    // Somebody takes the slice back without its owner; no router has heard of it,
    // and the owner still takes whatever comes.
    let copy = town.shard("shard-1");
    let key = copy.slice_key(&slice()).await.unwrap();
    let at = At {
        slice: slice(),
        epoch: Epoch(town.route().spent.0 + 1),
    };
    let order = Order {
        move_id: MoveId("move-1-back".to_owned()),
        token: 9,
    };
    copy.prepare(&at, &order, key, HashRange::WHOLE)
        .await
        .unwrap();
    for name in ["bob", "cid"] {
        let refused = cast(&town, &vote, name).await;
        assert_eq!(refused.status, 503, "{name}: {refused:?}");
    }
    assert!(has(&town, "shard-1", &poll, "bob").await);
    assert!(!has(&town, "shard-1", &poll, "cid").await);
}

#[tokio::test]
async fn the_owner_alone_acknowledges_once_the_record_says_so() {
    let (town, poll, vote) = in_window().await;
    town.shards.set_away("shard-1", true);
    assert_eq!(cast(&town, &vote, "bob").await.status, 503);
    // Nobody tells the router: it finds the record by itself.
    town.source.change_route(|tenant| {
        let moving = tenant.slices[0].moving.as_mut().unwrap();
        moving.sync = false;
    });
    assert_eq!(cast(&town, &vote, "cid").await.body["outcome"], "counted");
    assert!(has(&town, "shard-2", &poll, "cid").await);
}
