//! Windows in which both sides acknowledge: an unreachable target is not needed, and no
//! acknowledged vote is lost.

use ballast_control_plane::migrations::begin::NewMigration;
use ballast_control_plane::migrations::certificate_signer::verify;
use ballast_control_plane::migrations::commands::MigrationCommand;
use ballast_domain::ShardId;
use ballast_domain::migration::{LeftoverState, MigrationStatus};
use ballast_domain::moving::MigrationId;
use ballast_vote_shard::VoteShard as _;

use crate::fixture::{TestFleet, poll_id, slice};
use crate::window::start_in_window;

const VOTED: [&str; 3] = ["ann", "bob", "cid"];

/// A migration in such a window, with some votes from before it.
async fn both(fleet: &TestFleet) -> (ShardId, ShardId, MigrationId) {
    fleet.vote(&VOTED).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(3_600_000),
        sync: true,
        ..TestFleet::to(&to)
    };
    let id = start_in_window(fleet, &new).await;
    let figures = fleet.show(&id).await.migration.value.figures;
    assert!(
        figures.streamed_back.is_some(),
        "routers know where to begin"
    );
    (from, to, id)
}

/// Makes the target unreachable, with a vote that was never acknowledged.
async fn cut_off(fleet: &TestFleet, to: &ShardId) {
    fleet.shards.set_away(Some(to.as_str()));
    let epoch = fleet.route().await.epoch;
    fleet.vote_on(to, epoch, &["fay"]).await.unwrap();
}

async fn is_back(fleet: &TestFleet, (from, to, id): &(ShardId, ShardId, MigrationId)) {
    let ended = fleet.ended(id).await;
    assert_eq!(ended.status, MigrationStatus::Reversed, "{ended:#?}");
    let route = fleet.route().await;
    assert_eq!((&route.owner, &route.moving), (from, &None));
    fleet.vote(&["hal"]).await;
    let tally = fleet.shards.embedded(from).tally(&slice(), poll_id()).await;
    assert_eq!(tally.unwrap().total(), 4);
    let record = &ended.migration.value;
    let left = record.given_up.clone().unwrap();
    assert!(left.synced, "{left:?}");
    assert_eq!((&left.shard, left.epoch), (to, route.epoch));
    assert_eq!(record.asked.accept_loss, None);
    let signed = record.certificate.clone().unwrap();
    verify(&signed, Some(&signed.public_key)).unwrap();
    assert_eq!(
        signed.certificate.describe_doubt(),
        None,
        "it proves that all is there"
    );
    // The target still knows that it was abandoned, and keeps the unacknowledged vote.
    fleet.shards.set_away(None);
    fleet
        .until(id, "it is told", |shown| {
            shown.migration.value.left_behind == Some(LeftoverState::Kept)
        })
        .await;
    assert!(fleet.row(to, "fay").await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synced_slice_comes_back_without_its_target_on_request() {
    let fleet = TestFleet::with(|set| set.budget.away_ms = None).await;
    let cut = both(&fleet).await;
    cut_off(&fleet, &cut.1).await;
    let waiting = fleet
        .until(&cut.2, "it waits", |shown| {
            shown.status == MigrationStatus::Waiting
        })
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("migration reverse brings the"), "{why}");
    fleet
        .command(&cut.2, MigrationCommand::Reverse)
        .await
        .unwrap();
    is_back(&fleet, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synced_slice_comes_back_automatically_from_a_lost_target() {
    let fleet = TestFleet::with(|set| set.budget.away_ms = Some(1)).await;
    let cut = both(&fleet).await;
    cut_off(&fleet, &cut.1).await;
    is_back(&fleet, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ending_the_window_lets_votes_be_taken_without_the_source() {
    let fleet = TestFleet::with(|set| set.budget.away_ms = Some(1)).await;
    let (from, to, id) = both(&fleet).await;
    let sync = async || fleet.route().await.moving.is_some_and(|moving| moving.sync);
    fleet.shards.set_away(Some(from.as_str()));
    let waiting = fleet
        .until(&id, "it waits", |shown| {
            shown.status == MigrationStatus::Waiting
        })
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("migration complete"), "{why}");
    assert!(sync().await, "both sides still acknowledge");
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    while sync().await {
        tokio::task::yield_now().await;
    }
    // From now on it is a normal window: the target is not abandoned with what only it has.
    fleet.shards.set_away(Some(to.as_str()));
    fleet
        .until(&id, "it waits for the target", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.starts_with(to.as_str()) && why.contains("--accept-loss"))
        })
        .await;
    fleet.shards.set_away(None);
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Completed);
    let votes = VOTED.map(str::to_owned).into_iter().collect();
    fleet.holds(&to, &votes).await;
}
