//! Tests of live results while the poll's slice moves.

use axum::body::BodyDataStream;
use futures::StreamExt;
use serde_json::Value;

use crate::testing::{TestFleet, TestRouter, TwoShards};

/// A client that watches a poll.
struct TestViewer {
    body: BodyDataStream,
    total: u64,
    id: u128,
    as_of: String,
}

impl TestViewer {
    async fn connect(server: &TestRouter<TwoShards>, poll: &str) -> Self {
        let body = server.open("GET", &format!("{poll}/votes/live")).await;
        Self {
            body,
            total: 0,
            id: 0,
            as_of: String::new(),
        }
    }

    /// Watches until this many votes are shown. Counts must never fall.
    async fn sees(&mut self, total: u64) {
        while self.total < total {
            let event = self.body.next().await.expect("the events go on").unwrap();
            let text = std::str::from_utf8(&event).unwrap();
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            let (Some(id), Some(data)) = (field("id: "), field("data: ")) else {
                continue;
            };
            let id: u128 = id.parse().unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            let shown = data["total"].as_u64().unwrap();
            let as_of = data["asOf"].as_str().unwrap().to_owned();
            assert!(id > self.id && shown >= self.total, "{text}");
            assert!(as_of >= self.as_of, "{text}");
            (self.id, self.total, self.as_of) = (id, shown, as_of);
        }
        assert_eq!(self.total, total);
    }
}

async fn vote(fleet: &TestFleet, path: &str, voters: std::ops::Range<u32>) {
    for number in voters {
        let body = format!(r#"{{"voterID":"v-{number}"}}"#);
        let counted = fleet.near.ask("PATCH", path, &body).await;
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    }
}

#[tokio::test]
async fn viewers_go_on_when_their_slice_moves() {
    let fleet = TestFleet::new(|_| {});
    let (poll, path) = fleet.near.poll().await;
    let mut near = TestViewer::connect(&fleet.near, &poll).await;
    let mut far = TestViewer::connect(&fleet.far, &poll).await;
    vote(&fleet, &path, 0..5).await;
    near.sees(5).await;
    far.sees(5).await;
    let (mut voted, mut shown) = (5, Vec::new());
    for to in ["shard-2", "shard-1", "shard-2"] {
        fleet.move_to(to).await;
        fleet.far.invalidate_route();
        vote(&fleet, &path, voted..voted + 3).await;
        voted += 3;
        near.sees(voted.into()).await;
        far.sees(voted.into()).await;
        shown.push(near.id);
        fleet.finish();
    }
    assert!(shown.is_sorted());
}

/// Results that were shown before a slice moved are shown at once afterwards, without waiting for
/// a feed, and without counts from an earlier stay at that shard.
#[tokio::test]
async fn results_never_go_back_when_a_slice_comes_and_goes() {
    let fleet = TestFleet::new(|_| {});
    let (poll, path) = fleet.near.poll().await;
    let results = format!("{poll}/votes");
    let mut last_tag = 0;
    for (round, to) in (1..).zip(["shard-2", "shard-1", "shard-2", "shard-1"]) {
        vote(&fleet, &path, (round - 1) * 10..round * 10 - 2).await;
        fleet.begin(to).await;
        // The view has counts of the copy, and reads them again after a while.
        vote(&fleet, &path, round * 10 - 2..round * 10).await;
        let newest = fleet.near.ask_newest(&results).await;
        assert_eq!(newest.body["total"], round * 10);
        fleet.seal().await;
        fleet.commit();
        fleet.activate().await;
        fleet.near.invalidate_route();
        // At once, from the cached counts.
        let now = fleet.near.ask("GET", &results, "").await;
        assert_eq!(now.body["total"], round * 10, "{to}: {now:?}");
        let tag = now.header("etag").trim_matches(['W', '/', '"']);
        let tag: u128 = tag.parse().unwrap();
        assert!(tag > last_tag);
        assert!(now.body["asOf"].as_str() >= newest.body["asOf"].as_str());
        last_tag = tag;
        fleet.finish();
    }
}
