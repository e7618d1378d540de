//! Tests of synchronous replication.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ballast_domain::VoterId;
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::{MigrationId, MigrationToken};
use ballast_vote_shard::{FencedSlice, VoteShard};
use futures::future::join_all;

use crate::testing::{TestFleet, TestResponse, slice};

fn voter(name: &str) -> String {
    format!(r#"{{"voterID":"{name}"}}"#)
}

/// A poll whose slice is in a window in which both sides acknowledge.
async fn in_window() -> (TestFleet, String, String) {
    let fleet = TestFleet::new(|settings| settings.hold_max = Duration::from_millis(200));
    fleet.sync.store(true, Ordering::SeqCst);
    let (poll, vote) = fleet.near.poll().await;
    fleet.near.ask("PATCH", &vote, &voter("ada")).await;
    fleet.move_to("shard-2").await;
    (fleet, poll, vote)
}

async fn cast(fleet: &TestFleet, vote: &str, name: &str) -> TestResponse {
    fleet.near.ask("PATCH", vote, &voter(name)).await
}

/// Whether a shard has a voter's row.
async fn has_row(fleet: &TestFleet, shard: &str, poll: &str, name: &str) -> bool {
    let poll = poll.trim_start_matches("/polls/").parse().unwrap();
    let voter = VoterId::new(name).unwrap();
    let row = fleet.shard(shard).voter(&slice(), poll, &voter).await;
    row.is_ok_and(|row| row.is_some())
}

#[tokio::test]
async fn an_acknowledged_write_is_on_both_shards() {
    let (fleet, poll, vote) = in_window().await;
    for name in ["bob", "cid"] {
        assert_eq!(cast(&fleet, &vote, name).await.body["outcome"], "counted");
        assert!(has_row(&fleet, "shard-1", &poll, name).await, "{name}");
        assert!(has_row(&fleet, "shard-2", &poll, name).await, "{name}");
    }
    // Polls too, and what is voted in them.
    let (poll, vote) = fleet.near.poll().await;
    cast(&fleet, &vote, "bob").await;
    assert!(has_row(&fleet, "shard-1", &poll, "bob").await);
    let closed = fleet.near.ask("POST", &format!("{poll}/close"), "").await;
    assert_eq!(closed.status, 200, "{closed:?}");
    let id = poll.trim_start_matches("/polls/").parse().unwrap();
    let copy = fleet.shard("shard-1").poll(&slice(), id).await.unwrap();
    assert!(copy.closed_at.is_some());
    // Concurrent votes share a round.
    let (poll, vote) = fleet.near.poll().await;
    let names: Vec<String> = (0..50).map(|number| format!("v-{number}")).collect();
    let votes = names.iter().map(|name| cast(&fleet, &vote, name));
    for (answer, name) in join_all(votes).await.into_iter().zip(&names) {
        assert_eq!(answer.body["outcome"], "counted", "{answer:?}");
        assert!(has_row(&fleet, "shard-1", &poll, name).await, "{name}");
    }
}

#[tokio::test]
async fn a_write_without_its_replica_is_not_acknowledged() {
    let (fleet, poll, vote) = in_window().await;
    fleet.shards.set_away("shard-1", true);
    let refused = cast(&fleet, &vote, "bob").await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(has_row(&fleet, "shard-2", &poll, "bob").await);
    assert!(!has_row(&fleet, "shard-1", &poll, "bob").await);
    // Reads do not wait for it.
    let found = fleet
        .near
        .ask("GET", &format!("{poll}/voters/ada"), "")
        .await;
    assert_eq!(found.status, 200, "{found:?}");
    // A retry is answered only when both shards have the vote.
    fleet.shards.set_away("shard-1", false);
    let again = cast(&fleet, &vote, "bob").await;
    assert_eq!(again.body["outcome"], "already", "{again:?}");
    assert!(has_row(&fleet, "shard-1", &poll, "bob").await);
}

#[tokio::test]
async fn a_replica_that_is_taken_back_refuses_changes() {
    let (fleet, poll, vote) = in_window().await;
    assert_eq!(cast(&fleet, &vote, "bob").await.body["outcome"], "counted");
    // The slice is taken back without its owner. No router knows it yet, and the
    // owner still accepts votes.
    let copy = fleet.shard("shard-1");
    let key = copy.slice_key(&slice()).await.unwrap();
    let at = FencedSlice {
        slice: slice(),
        epoch: Epoch(fleet.route().spent.0 + 1),
    };
    let token = MigrationToken {
        migration_id: MigrationId("move-1-back".to_owned()),
        token: 9,
    };
    copy.prepare(&at, &token, key, HashRange::WHOLE)
        .await
        .unwrap();
    for name in ["bob", "cid"] {
        let refused = cast(&fleet, &vote, name).await;
        assert_eq!(refused.status, 503, "{name}: {refused:?}");
    }
    assert!(has_row(&fleet, "shard-1", &poll, "bob").await);
    assert!(!has_row(&fleet, "shard-1", &poll, "cid").await);
}

#[tokio::test]
async fn the_owner_alone_acknowledges_once_the_record_says_so() {
    let (fleet, poll, vote) = in_window().await;
    fleet.shards.set_away("shard-1", true);
    assert_eq!(cast(&fleet, &vote, "bob").await.status, 503);
    // The router gets no notification: it reads the record by itself.
    fleet.source.change_route(|tenant| {
        let moving = tenant.slices[0].moving.as_mut().unwrap();
        moving.sync = false;
    });
    assert_eq!(cast(&fleet, &vote, "cid").await.body["outcome"], "counted");
    assert!(has_row(&fleet, "shard-2", &poll, "cid").await);
}
