//! A shard that is unreachable while it only has to remove a copy: the migration ends
//! without it, and the copy is removed when it answers again.

use ballast_control_plane::migrations::begin::NewMigration;
use ballast_control_plane::migrations::commands::MigrationCommand;
use ballast_domain::migration::{LeftoverState, MigrationStatus};
use ballast_domain::moving::MigrationId;
use ballast_domain::{ErrorCode, ShardId};
use ballast_vote_shard::VoteShard as _;
use ballast_vote_shard::shard::Holding;

use crate::fixture::{TestFleet, slice};
use crate::window::{open_window, start_in_window};

/// Asserts that a copy on this shard waits to be removed and blocks moves there; then
/// makes the shard reachable and waits for the removal.
async fn is_removed(fleet: &TestFleet, id: &MigrationId, shard: &ShardId) {
    let record = fleet.show(id).await.migration.value;
    assert_eq!(record.left_behind, Some(LeftoverState::Away));
    assert_eq!(record.copy_left().unwrap().0, shard);
    let refused = fleet.begin(&TestFleet::to(shard)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MoveRefused, "{refused}");
    assert!(
        refused.to_string().contains("could not remove"),
        "{refused}"
    );
    fleet.shards.set_away(None);
    fleet
        .until(id, "it is removed", |shown| {
            shown.migration.value.left_behind == Some(LeftoverState::Gone)
        })
        .await;
    let fence = fleet.shards.embedded(shard).fence(&slice()).await.unwrap();
    assert_eq!(fence.unwrap().holding, Holding::Gone);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_can_end_a_window_without_its_source() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let from = fleet.owner().await;
    let [to, third] = fleet.others().await;
    let id = open_window(&fleet, &to).await;
    fleet.shards.set_away(Some(from.as_str()));
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let waiting = fleet
        .until(&id, "it waits", |shown| {
            shown.status == MigrationStatus::Waiting
        })
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("--without-source"), "{why}");
    voting.more(20).await;
    fleet
        .command(&id, MigrationCommand::WithoutSource)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed);
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("its copy is removed when it answers"), "{why}");
    assert_eq!(fleet.route().await.moving, None);
    // It continues here, elsewhere, and where it was.
    voting.more(20).await;
    let moved = fleet.begun(&TestFleet::to(&third)).await;
    assert_eq!(fleet.ended(&moved).await.status, MigrationStatus::Completed);
    is_removed(&fleet, &id, &from).await;
    voting.more(20).await;
    let moved = fleet.begun(&TestFleet::to(&from)).await;
    assert_eq!(fleet.ended(&moved).await.status, MigrationStatus::Completed);
    let votes = voting.stop().await;
    fleet.holds(&from, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_is_cancelled_while_its_target_is_unreachable() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(50).await;
    let from = fleet.owner().await;
    let [to, third] = fleet.others().await;
    // No pause is short enough, so it never cuts over.
    let new = NewMigration {
        max_pause_ms: Some(1),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    fleet
        .until(&id, "put off", |shown| {
            shown.migration.value.figures.put_off > 0
        })
        .await;
    fleet.shards.set_away(Some(to.as_str()));
    fleet.command(&id, MigrationCommand::Cancel).await.unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Cancelled);
    assert_eq!(fleet.route().await.owner, from);
    voting.more(20).await;
    let moved = fleet.begun(&TestFleet::to(&third)).await;
    assert_eq!(fleet.ended(&moved).await.status, MigrationStatus::Completed);
    is_removed(&fleet, &id, &to).await;
    let votes = voting.stop().await;
    fleet.holds(&third, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reversal_to_an_unreachable_shard_can_be_cancelled() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let from = fleet.owner().await;
    let [to, third] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(3_600_000),
        sync: true,
        ..TestFleet::to(&to)
    };
    let id = start_in_window(&fleet, &new).await;
    fleet.shards.set_away(Some(from.as_str()));
    fleet.command(&id, MigrationCommand::Reverse).await.unwrap();
    let waiting = fleet
        .until(&id, "it waits on its way back", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.contains("migration complete cancels the reverse migration"))
        })
        .await;
    assert_eq!(waiting.phase, "Rollback");
    // An unreachable source is no reason to abandon the target.
    let refused = fleet
        .command(&id, MigrationCommand::AcceptLoss)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::LossNotNeeded, "{refused}");
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    assert_eq!(fleet.route().await.owner, to);
    voting.more(20).await;
    let moved = fleet.begun(&TestFleet::to(&third)).await;
    assert_eq!(fleet.ended(&moved).await.status, MigrationStatus::Completed);
    is_removed(&fleet, &id, &from).await;
    let votes = voting.stop().await;
    fleet.holds(&third, &votes).await;
}
