//! Windows in which both sides acknowledge: a target that is away is done without,
//! and nothing that was acknowledged is lost.

use ballast_control_plane::migrations::ask::Ask;
use ballast_control_plane::migrations::begin::NewMove;
use ballast_control_plane::migrations::notary::verify;
use ballast_domain::ShardId;
use ballast_domain::migration::{LeftBehind, Status};
use ballast_domain::moving::MoveId;
use ballast_vote_shard::VoteShard as _;

use crate::house::{House, poll_id, slice};
use crate::window::in_window_of;

const VOTED: [&str; 3] = ["ann", "bob", "cid"];

/// A move in such a window, with some votes from before it.
async fn both(house: &House) -> (ShardId, ShardId, MoveId) {
    house.vote(&VOTED).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let new = NewMove {
        window_ms: Some(3_600_000),
        sync: true,
        ..House::to(&to)
    };
    let id = in_window_of(house, &new).await;
    let figures = house.show(&id).await.migration.value.figures;
    assert!(
        figures.streamed_back.is_some(),
        "routers know where to begin"
    );
    (from, to, id)
}

/// The target is away, with a vote that nobody was told of.
async fn cut_off(house: &House, to: &ShardId) {
    house.cellar.set_away(Some(to.as_str()));
    let epoch = house.route().await.epoch;
    house.vote_on(to, epoch, &["fay"]).await.unwrap();
}

async fn is_back(house: &House, (from, to, id): &(ShardId, ShardId, MoveId)) {
    let ended = house.ended(id).await;
    assert_eq!(ended.status, Status::Reversed, "{ended:#?}");
    let route = house.route().await;
    assert_eq!((&route.owner, &route.moving), (from, &None));
    house.vote(&["hal"]).await;
    let tally = house.cellar.embedded(from).tally(&slice(), poll_id()).await;
    assert_eq!(tally.unwrap().total(), 4);
    let record = &ended.migration.value;
    let left = record.given_up.clone().unwrap();
    assert!(left.synced, "{left:?}");
    assert_eq!((&left.shard, left.epoch), (to, route.epoch));
    assert_eq!(record.asked.accept_loss, None);
    let signed = record.certificate.clone().unwrap();
    verify(&signed, Some(&signed.public_key)).unwrap();
    assert_eq!(
        signed.certificate.doubt(),
        None,
        "it proves that all is there"
    );
    // The target is told as ever, and keeps what nobody was told of.
    house.cellar.set_away(None);
    house
        .until(id, "it is told", |shown| {
            shown.migration.value.left_behind == Some(LeftBehind::Kept)
        })
        .await;
    assert!(house.row(to, "fay").await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_comes_back_without_its_target_when_somebody_wants_it() {
    let house = House::with(|set| set.budget.away_ms = None).await;
    let cut = both(&house).await;
    cut_off(&house, &cut.1).await;
    let waiting = house
        .until(&cut.2, "it waits", |shown| shown.status == Status::Waiting)
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("migration reverse brings it back"), "{why}");
    house.ask(&cut.2, Ask::Reverse).await.unwrap();
    is_back(&house, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_comes_back_by_itself_when_its_target_is_away_for_long() {
    let house = House::with(|set| set.budget.away_ms = Some(1)).await;
    let cut = both(&house).await;
    cut_off(&house, &cut.1).await;
    is_back(&house, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wants_the_window_to_end_has_votes_taken_without_the_source() {
    let house = House::with(|set| set.budget.away_ms = Some(1)).await;
    let (from, to, id) = both(&house).await;
    let sync = async || house.route().await.moving.is_some_and(|moving| moving.sync);
    house.cellar.set_away(Some(from.as_str()));
    let waiting = house
        .until(&id, "it waits", |shown| shown.status == Status::Waiting)
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("migration complete"), "{why}");
    assert!(sync().await, "nobody has said otherwise");
    house.ask(&id, Ask::Complete).await.unwrap();
    while sync().await {
        tokio::task::yield_now().await;
    }
    // From now on it is like any other: what only the target has is not given up.
    house.cellar.set_away(Some(to.as_str()));
    house
        .until(&id, "it waits for the target", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.starts_with(to.as_str()) && why.contains("--accept-loss"))
        })
        .await;
    house.cellar.set_away(None);
    assert_eq!(house.ended(&id).await.status, Status::Completed);
    let votes = VOTED.map(str::to_owned).into_iter().collect();
    house.holds(&to, &votes).await;
}
