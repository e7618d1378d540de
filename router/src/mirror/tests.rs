//! Tests of synchronous replication.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ballast_domain::VoterId;
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::{MigrationId, MigrationToken};
use ballast_vote_shard::{FencedSlice, VoteShard};
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
async fn has_row(town: &Town, shard: &str, poll: &str, name: &str) -> bool {
    let poll = poll.trim_start_matches("/polls/").parse().unwrap();
    let voter = VoterId::new(name).unwrap();
    let row = town.shard(shard).voter(&slice(), poll, &voter).await;
    row.is_ok_and(|row| row.is_some())
}

#[tokio::test]
async fn an_acknowledged_write_is_on_both_shards() {
    let (town, poll, vote) = in_window().await;
    for name in ["bob", "cid"] {
        assert_eq!(cast(&town, &vote, name).await.body["outcome"], "counted");
        assert!(has_row(&town, "shard-1", &poll, name).await, "{name}");
        assert!(has_row(&town, "shard-2", &poll, name).await, "{name}");
    }
    // Polls too, and what is voted in them.
    let (poll, vote) = town.near.poll().await;
    cast(&town, &vote, "bob").await;
    assert!(has_row(&town, "shard-1", &poll, "bob").await);
    let closed = town.near.ask("POST", &format!("{poll}/close"), "").await;
    assert_eq!(closed.status, 200, "{closed:?}");
    let id = poll.trim_start_matches("/polls/").parse().unwrap();
    let copy = town.shard("shard-1").poll(&slice(), id).await.unwrap();
    assert!(copy.closed_at.is_some());
    // Concurrent votes share a round.
    let (poll, vote) = town.near.poll().await;
    let names: Vec<String> = (0..50).map(|number| format!("v-{number}")).collect();
    let votes = names.iter().map(|name| cast(&town, &vote, name));
    for (answer, name) in join_all(votes).await.into_iter().zip(&names) {
        assert_eq!(answer.body["outcome"], "counted", "{answer:?}");
        assert!(has_row(&town, "shard-1", &poll, name).await, "{name}");
    }
}

#[tokio::test]
async fn a_write_without_its_replica_is_not_acknowledged() {
    let (town, poll, vote) = in_window().await;
    town.shards.set_away("shard-1", true);
    let refused = cast(&town, &vote, "bob").await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(has_row(&town, "shard-2", &poll, "bob").await);
    assert!(!has_row(&town, "shard-1", &poll, "bob").await);
    // Reads do not wait for it.
    let found = town
        .near
        .ask("GET", &format!("{poll}/voters/ada"), "")
        .await;
    assert_eq!(found.status, 200, "{found:?}");
    // A retry is answered only when both shards have the vote.
    town.shards.set_away("shard-1", false);
    let again = cast(&town, &vote, "bob").await;
    assert_eq!(again.body["outcome"], "already", "{again:?}");
    assert!(has_row(&town, "shard-1", &poll, "bob").await);
}

#[tokio::test]
async fn a_replica_that_is_taken_back_refuses_changes() {
    let (town, poll, vote) = in_window().await;
    assert_eq!(cast(&town, &vote, "bob").await.body["outcome"], "counted");
    // The slice is taken back without its owner. No router knows it yet, and the
    // owner still accepts votes.
    let copy = town.shard("shard-1");
    let key = copy.slice_key(&slice()).await.unwrap();
    let at = FencedSlice {
        slice: slice(),
        epoch: Epoch(town.route().spent.0 + 1),
    };
    let order = MigrationToken {
        move_id: MigrationId("move-1-back".to_owned()),
        token: 9,
    };
    copy.prepare(&at, &order, key, HashRange::WHOLE)
        .await
        .unwrap();
    for name in ["bob", "cid"] {
        let refused = cast(&town, &vote, name).await;
        assert_eq!(refused.status, 503, "{name}: {refused:?}");
    }
    assert!(has_row(&town, "shard-1", &poll, "bob").await);
    assert!(!has_row(&town, "shard-1", &poll, "cid").await);
}

#[tokio::test]
async fn the_owner_alone_acknowledges_once_the_record_says_so() {
    let (town, poll, vote) = in_window().await;
    town.shards.set_away("shard-1", true);
    assert_eq!(cast(&town, &vote, "bob").await.status, 503);
    // The router gets no notification: it reads the record by itself.
    town.source.change_route(|tenant| {
        let moving = tenant.slices[0].moving.as_mut().unwrap();
        moving.sync = false;
    });
    assert_eq!(cast(&town, &vote, "cid").await.body["outcome"], "counted");
    assert!(has_row(&town, "shard-2", &poll, "cid").await);
}
