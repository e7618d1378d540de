//! The dual-read window: unreachable shards, and tenants that are worse off.

use ballast_control_plane::migrations::begin::NewMigration;
use ballast_control_plane::migrations::commands::MigrationCommand;
use ballast_domain::ShardId;
use ballast_domain::migration::{MigrationStage, MigrationStatus};
use ballast_domain::moving::MigrationId;

use crate::fixture::TestFleet;

/// Begins a migration whose window stays open.
pub(crate) async fn open_window(fleet: &TestFleet, to: &ShardId) -> MigrationId {
    let new = NewMigration {
        window_ms: Some(3_600_000),
        ..TestFleet::to(to)
    };
    start_in_window(fleet, &new).await
}

pub(crate) async fn start_in_window(fleet: &TestFleet, new: &NewMigration) -> MigrationId {
    let begun = fleet.begin(new).await.unwrap();
    let id = begun.migration.value.migration_id;
    fleet
        .until(&id, "cut over", |shown| {
            shown.migration.value.stage == MigrationStage::CutOver
                && shown.phase == "MonitorDualRead"
        })
        .await;
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_shard_is_waited_for_without_going_back() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = open_window(&fleet, &to).await;
    for shard in [&to, &from] {
        fleet.shards.set_away(Some(shard.as_str()));
        let waiting = fleet
            .until(&id, "it waits", |shown| {
                shown.status == MigrationStatus::Waiting
            })
            .await;
        let why = waiting.migration.value.waiting_for.unwrap();
        assert!(why.starts_with(shard.as_str()), "{why}");
        assert_eq!(waiting.phase, "MonitorDualRead");
        assert_eq!(fleet.owner().await, to);
        fleet.shards.set_away(None);
        fleet
            .until(&id, "it goes on", |shown| {
                shown.status == MigrationStatus::Running
            })
            .await;
    }
    voting.more(20).await;
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Completed);
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reversal_waits_for_an_unreachable_target_and_says_so() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = open_window(&fleet, &to).await;
    voting.more(20).await;
    fleet.shards.set_away(Some(to.as_str()));
    fleet.command(&id, MigrationCommand::Reverse).await.unwrap();
    let waiting = fleet
        .until(&id, "it waits on its way back", |shown| {
            shown.status == MigrationStatus::Waiting && shown.phase == "Rollback"
        })
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains(to.as_str()), "{why}");
    fleet.shards.set_away(None);
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Reversed);
    let votes = voting.stop().await;
    fleet.holds(&from, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_is_worse_off_at_the_target_is_brought_back() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = open_window(&fleet, &to).await;
    let ended = fleet
        .until(&id, "over", |shown| {
            fleet.readers.add_failed_calls(100);
            shown.migration.value.is_over()
        })
        .await;
    assert_eq!(ended.status, MigrationStatus::Reversed, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("got worse"), "{why}");
    let votes = voting.stop().await;
    fleet.holds(&from, &votes).await;
}
