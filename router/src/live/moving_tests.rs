//! Viewers of a poll whose slice moves.

use axum::body::BodyDataStream;
use futures::StreamExt;
use serde_json::Value;

use crate::testing::{Pair, TestRouter, Town};

/// Somebody who watches a poll.
struct Viewer {
    body: BodyDataStream,
    total: u64,
    id: u128,
    as_of: String,
}

impl Viewer {
    async fn of(house: &TestRouter<Pair>, poll: &str) -> Self {
        let body = house.open("GET", &format!("{poll}/votes/live")).await;
        Self {
            body,
            total: 0,
            id: 0,
            as_of: String::new(),
        }
    }

    /// Watches until so many votes are shown. Nothing ever falls.
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

async fn vote(town: &Town, path: &str, voters: std::ops::Range<u32>) {
    for number in voters {
        let body = format!(r#"{{"voterID":"v-{number}"}}"#);
        let counted = town.near.ask("PATCH", path, &body).await;
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    }
}

#[tokio::test]
async fn viewers_go_on_when_their_slice_moves() {
    let town = Town::new(|_| {});
    let (poll, path) = town.near.poll().await;
    let mut near = Viewer::of(&town.near, &poll).await;
    let mut far = Viewer::of(&town.far, &poll).await;
    vote(&town, &path, 0..5).await;
    near.sees(5).await;
    far.sees(5).await;
    let (mut voted, mut shown) = (5, Vec::new());
    for to in ["shard-2", "shard-1", "shard-2"] {
        town.move_to(to).await;
        town.far.hears_of_route();
        vote(&town, &path, voted..voted + 3).await;
        voted += 3;
        near.sees(voted.into()).await;
        far.sees(voted.into()).await;
        shown.push(near.id);
        town.finish();
    }
    assert!(shown.is_sorted());
}

/// What was shown of a poll before its slice moved is shown after it, at once:
/// there is no wait for a feed, and no count of an earlier stay.
#[tokio::test]
async fn results_never_go_back_when_a_slice_comes_and_goes() {
    let town = Town::new(|_| {});
    let (poll, path) = town.near.poll().await;
    let results = format!("{poll}/votes");
    let mut last_tag = 0;
    for (round, to) in (1..).zip(["shard-2", "shard-1", "shard-2", "shard-1"]) {
        vote(&town, &path, (round - 1) * 10..round * 10 - 2).await;
        town.begin(to).await;
        // The view has heard of the copy, and will look again after a while.
        vote(&town, &path, round * 10 - 2..round * 10).await;
        let newest = town.near.ask_newest(&results).await;
        assert_eq!(newest.body["total"], round * 10);
        town.seal().await;
        town.commit();
        town.activate().await;
        town.near.hears_of_route();
        // At once, from whatever is kept.
        let now = town.near.ask("GET", &results, "").await;
        assert_eq!(now.body["total"], round * 10, "{to}: {now:?}");
        let tag = now.header("etag").trim_matches(['W', '/', '"']);
        let tag: u128 = tag.parse().unwrap();
        assert!(tag > last_tag);
        assert!(now.body["asOf"].as_str() >= newest.body["asOf"].as_str());
        last_tag = tag;
        town.finish();
    }
}
