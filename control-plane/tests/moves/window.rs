//! What happens in a move's window: shards that are away, tenants that are
//! worse off.

use ballast_control_plane::migrations::ask::Ask;
use ballast_control_plane::migrations::begin::NewMove;
use ballast_domain::ShardId;
use ballast_domain::migration::{Stage, Status};
use ballast_domain::moving::MoveId;

use crate::house::House;

/// A move whose window stays open.
pub(crate) async fn in_window(house: &House, to: &ShardId) -> MoveId {
    let new = NewMove {
        window_ms: Some(3_600_000),
        ..House::to(to)
    };
    in_window_of(house, &new).await
}

pub(crate) async fn in_window_of(house: &House, new: &NewMove) -> MoveId {
    let begun = house.begin(new).await.unwrap();
    let id = begun.migration.value.migration_id;
    house
        .until(&id, "cut over", |shown| {
            shown.migration.value.stage == Stage::CutOver && shown.phase == "MonitorDualRead"
        })
        .await;
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_away_is_waited_for_and_nothing_goes_back_by_itself() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = in_window(&house, &to).await;
    for shard in [&to, &from] {
        house.cellar.set_away(Some(shard.as_str()));
        let waiting = house
            .until(&id, "it waits", |shown| shown.status == Status::Waiting)
            .await;
        let why = waiting.migration.value.waiting_for.unwrap();
        assert!(why.starts_with(shard.as_str()), "{why}");
        assert_eq!(waiting.phase, "MonitorDualRead");
        assert_eq!(house.owner().await, to);
        house.cellar.set_away(None);
        house
            .until(&id, "it goes on", |shown| shown.status == Status::Running)
            .await;
    }
    voting.more(20).await;
    house.ask(&id, Ask::Complete).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Completed);
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wants_it_back_from_a_shard_that_is_away_is_told_and_waits() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = in_window(&house, &to).await;
    voting.more(20).await;
    house.cellar.set_away(Some(to.as_str()));
    house.ask(&id, Ask::Reverse).await.unwrap();
    let waiting = house
        .until(&id, "it waits on its way back", |shown| {
            shown.status == Status::Waiting && shown.phase == "Rollback"
        })
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains(to.as_str()), "{why}");
    house.cellar.set_away(None);
    assert_eq!(house.ended(&id).await.status, Status::Reversed);
    let votes = voting.stop().await;
    house.holds(&from, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_is_worse_off_at_the_target_is_brought_back() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = in_window(&house, &to).await;
    let ended = house
        .until(&id, "over", |shown| {
            house.told.failed(100);
            shown.migration.value.is_over()
        })
        .await;
    assert_eq!(ended.status, Status::Reversed, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("worse off"), "{why}");
    let votes = voting.stop().await;
    house.holds(&from, &votes).await;
}
