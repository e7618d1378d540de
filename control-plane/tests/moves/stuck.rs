//! Moves that do not get on: they say why, keep what they must, and stop
//! nobody else.

use ballast_control_plane::drains::rebalance;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::migrations::ask::Ask;
use ballast_control_plane::migrations::begin::begin;
use ballast_control_plane::migrations::plan::plan;
use ballast_control_plane::tenants::{self, NewTenant};
use ballast_domain::migration::{Stage, Status};
use ballast_domain::tenant::Epoch;
use ballast_domain::{Clock, ShardId, TenantId};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::Holding;
use serde_json::json;

use crate::house::{House, WallClock, slice};

/// A row that only the old side has should not be: its copy is not removed
/// until somebody has looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_straggler_stops_the_cleanup() {
    let house = House::new().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    house.told.straggle(1);
    let begun = house.begin(&House::to(&to)).await.unwrap();
    let id = begun.migration.value.migration_id;
    // Its window has no length at all, and yet it does not end.
    let waiting = house
        .until(&id, "waiting", |shown| {
            let record = &shown.migration.value;
            record.stage == Stage::CutOver && record.waiting_for.is_some()
        })
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("somebody to look"), "{why}");
    let fence = house.cellar.embedded(&from).fence(&slice()).await.unwrap();
    assert_eq!(fence.unwrap().holding, Holding::Retired);
    house.ask(&id, Ask::Complete).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Completed);
}

async fn tenant(house: &House, name: &str) -> (TenantId, ShardId) {
    let new: NewTenant = serde_json::from_value(json!({ "tenantID": name })).unwrap();
    let intent = Intent::ballast("test", "one more");
    let made = tenants::create(&house.plane, &intent, new).await.unwrap();
    let made = made.value;
    (made.tenant_id, made.slices[0].shard_id.clone())
}

/// Whoever may be taken for dead before a seal is over does not seal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sealed_on_a_lease_that_is_too_short() {
    let house = House::with(|moves| moves.seal_max_ms = 3_600_000).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = house.begun(&House::to(&to)).await;
    let waiting = house
        .until(&id, "waiting", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.contains("lease lasts"))
        })
        .await;
    assert_eq!(waiting.status, Status::Waiting);
    assert_eq!(waiting.phase, "UpdateTenantRouting");
    let fence = house.cellar.embedded(&from).fence(&slice()).await.unwrap();
    assert_eq!(fence.unwrap().epoch, Epoch::FIRST);
    house.ask(&id, Ask::Cancel).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Cancelled);
}

/// Whoever only wants to know is told what it would wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_what_would_be_waited_for() {
    let house = House::with(|moves| {
        // One minute in a week, and not this day.
        let today = (WallClock.now().unix_ms() / 86_400_000 + 3) % 7;
        let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let day = days[usize::try_from((today + 3) % 7).unwrap()];
        moves.maintenance = vec![format!("{day} 02:00-02:01").parse().unwrap()];
    })
    .await;
    let [to, _] = house.others().await;
    house.cellar.set_away(Some(to.as_str()));
    let new = House::to(&to);
    let planned = plan(&house.plane, &slice().tenant_id, &new).await.unwrap();
    let says = |phase: &str| {
        let action = planned.actions.iter().find(|one| one.phase == phase);
        action.unwrap().action.clone()
    };
    let waits = says("PlanMove");
    assert!(waits.contains("the maintenance window"), "{waits}");
    assert!(waits.ends_with("then for a turn"), "{waits}");
    let prepares = says("CreateDataSyncTask");
    assert!(prepares.contains("cannot be reached now"), "{prepares}");
}

/// One that waits for a shard that is away stops no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_stuck_stops_no_other() {
    let house = House::new().await;
    let [away, other] = house.others().await;
    let here = house.owner().await;
    house.cellar.set_away(Some(away.as_str()));
    let stuck = house.begin(&House::to(&away)).await.unwrap();
    let stuck = stuck.migration.value.migration_id;
    let mut moved = 0;
    for number in 0..6 {
        let (tenant_id, at) = tenant(&house, &format!("tenant-{number}")).await;
        let to = match at {
            at if at == away => continue,
            at if at == here => other.clone(),
            _ => here.clone(),
        };
        let intent = Intent::ballast("test", "because");
        let new = House::to(&to);
        let begun = begin(&house.plane, &intent, &tenant_id, &new).await;
        let begun = begun.unwrap().migration.value.migration_id;
        assert_eq!(house.ended(&begun).await.status, Status::Completed);
        moved += 1;
    }
    assert!(moved > 0, "none of them could be moved");
    let shown = house.show(&stuck).await;
    assert!(!shown.migration.value.is_over(), "{shown:#?}");
    house.cellar.set_away(None);
    assert_eq!(house.ended(&stuck).await.status, Status::Completed);
}

/// Who places and who moves use one score: what was just placed is where it
/// belongs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_just_placed_is_never_moved() {
    let house = House::new().await;
    for number in 0..40 {
        tenant(&house, &format!("tenant-{number}")).await;
        let plan = rebalance::show(&house.plane).await.unwrap().plan;
        assert_eq!(plan.totals.moves, 0, "{plan}");
    }
}
