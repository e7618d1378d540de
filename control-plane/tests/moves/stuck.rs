//! Migrations that are stuck: they say why, keep what they must, and block no others.

use ballast_control_plane::drains::{MigrationOptions, rebalance};
use ballast_control_plane::intent::Intent;
use ballast_control_plane::migrations::begin::begin;
use ballast_control_plane::migrations::commands::MigrationCommand;
use ballast_control_plane::migrations::plan::plan;
use ballast_control_plane::tenants::{self, NewTenant};
use ballast_domain::migration::{MigrationStage, MigrationStatus};
use ballast_domain::tenant::Epoch;
use ballast_domain::{Clock, ShardId, TenantId};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::Holding;
use serde_json::json;

use crate::fixture::{TestFleet, WallClock, slice};

/// A straggler must not exist: the source's copy is kept until an operator has looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_straggler_stops_the_cleanup() {
    let fleet = TestFleet::new().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    fleet.readers.set_stragglers(1);
    let begun = fleet.begin(&TestFleet::to(&to)).await.unwrap();
    let id = begun.migration.value.migration_id;
    // Its window has no length, and still does not end.
    let waiting = fleet
        .until(&id, "waiting", |shown| {
            let record = &shown.migration.value;
            record.stage == MigrationStage::CutOver && record.waiting_for.is_some()
        })
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("an operator to check"), "{why}");
    let fence = fleet.shards.embedded(&from).fence(&slice()).await.unwrap();
    assert_eq!(fence.unwrap().holding, Holding::Retired);
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Completed);
}

async fn tenant(fleet: &TestFleet, name: &str) -> (TenantId, ShardId) {
    let new: NewTenant = serde_json::from_value(json!({ "tenantID": name })).unwrap();
    let intent = Intent::ballast("test", "one more");
    let made = tenants::create(&fleet.plane, &intent, new).await.unwrap();
    let made = made.value;
    (made.tenant_id, made.slices[0].shard_id.clone())
}

/// A worker whose lease may expire during a seal must not seal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sealed_on_a_lease_that_is_too_short() {
    let fleet = TestFleet::with(|moves| moves.seal_max_ms = 3_600_000).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = fleet.begun(&TestFleet::to(&to)).await;
    let waiting = fleet
        .until(&id, "waiting", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.contains("lease expires"))
        })
        .await;
    assert_eq!(waiting.status, MigrationStatus::Waiting);
    assert_eq!(waiting.phase, "UpdateTenantRouting");
    let fence = fleet.shards.embedded(&from).fence(&slice()).await.unwrap();
    assert_eq!(fence.unwrap().epoch, Epoch::FIRST);
    fleet.command(&id, MigrationCommand::Cancel).await.unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Cancelled);
}

/// A dry run lists what the migration would wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_lists_the_expected_waits() {
    let fleet = TestFleet::with(|moves| {
        // One minute a week, and not today.
        let today = (WallClock.now().unix_ms() / 86_400_000 + 3) % 7;
        let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let day = days[usize::try_from((today + 3) % 7).unwrap()];
        moves.maintenance = vec![format!("{day} 02:00-02:01").parse().unwrap()];
    })
    .await;
    let [to, _] = fleet.others().await;
    fleet.shards.set_away(Some(to.as_str()));
    let new = TestFleet::to(&to);
    let planned = plan(&fleet.plane, &slice().tenant_id, &new).await.unwrap();
    let says = |phase: &str| {
        let action = planned.actions.iter().find(|one| one.phase == phase);
        action.unwrap().action.clone()
    };
    let waits = says("PlanMove");
    assert!(waits.contains("the maintenance window"), "{waits}");
    assert!(waits.ends_with("then for a free slot"), "{waits}");
    let prepares = says("CreateDataSyncTask");
    assert!(prepares.contains("cannot be reached now"), "{prepares}");
}

/// A migration that waits for an unreachable shard blocks no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_migration_blocks_no_other() {
    let fleet = TestFleet::new().await;
    let [away, other] = fleet.others().await;
    let here = fleet.owner().await;
    fleet.shards.set_away(Some(away.as_str()));
    let stuck = fleet.begin(&TestFleet::to(&away)).await.unwrap();
    let stuck = stuck.migration.value.migration_id;
    let mut moved = 0;
    for number in 0..6 {
        let (tenant_id, at) = tenant(&fleet, &format!("tenant-{number}")).await;
        let to = match at {
            at if at == away => continue,
            at if at == here => other.clone(),
            _ => here.clone(),
        };
        let intent = Intent::ballast("test", "because");
        let new = TestFleet::to(&to);
        let begun = begin(&fleet.plane, &intent, &tenant_id, &new).await;
        let begun = begun.unwrap().migration.value.migration_id;
        assert_eq!(fleet.ended(&begun).await.status, MigrationStatus::Completed);
        moved += 1;
    }
    assert!(moved > 0, "none of them could be moved");
    let shown = fleet.show(&stuck).await;
    assert!(!shown.migration.value.is_over(), "{shown:#?}");
    fleet.shards.set_away(None);
    assert_eq!(fleet.ended(&stuck).await.status, MigrationStatus::Completed);
}

/// Placement and rebalancing use the same score, so a fresh placement is never moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn freshly_placed_slices_are_never_moved() {
    let fleet = TestFleet::new().await;
    for number in 0..40 {
        tenant(&fleet, &format!("tenant-{number}")).await;
        let plan = rebalance::show(&fleet.plane, &MigrationOptions::default())
            .await
            .unwrap()
            .plan;
        assert_eq!(plan.totals.moves, 0, "{plan}");
    }
}
