//! A shard that is away and of which nothing is wanted but that it removes a copy:
//! the move ends without it, and the copy goes when it answers again.

use ballast_control_plane::migrations::ask::Ask;
use ballast_control_plane::migrations::begin::NewMove;
use ballast_domain::migration::{LeftBehind, Status};
use ballast_domain::moving::MoveId;
use ballast_domain::{ErrorCode, ShardId};
use ballast_vote_shard::VoteShard as _;
use ballast_vote_shard::shard::Holding;

use crate::house::{House, slice};
use crate::window::{in_window, in_window_of};

/// A copy waits on this shard to be removed, and nothing comes there meanwhile;
/// then the shard is back.
async fn is_removed(house: &House, id: &MoveId, shard: &ShardId) {
    let record = house.show(id).await.migration.value;
    assert_eq!(record.left_behind, Some(LeftBehind::Away));
    assert_eq!(record.copy_left().unwrap().0, shard);
    let refused = house.begin(&House::to(shard)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MoveRefused, "{refused}");
    assert!(
        refused.to_string().contains("could not remove"),
        "{refused}"
    );
    house.cellar.set_away(None);
    house
        .until(id, "it is removed", |shown| {
            shown.migration.value.left_behind == Some(LeftBehind::Gone)
        })
        .await;
    let fence = house.cellar.embedded(shard).fence(&slice()).await.unwrap();
    assert_eq!(fence.unwrap().holding, Holding::Gone);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_ends_without_its_source_when_somebody_says_so() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let from = house.owner().await;
    let [to, third] = house.others().await;
    let id = in_window(&house, &to).await;
    house.cellar.set_away(Some(from.as_str()));
    house.ask(&id, Ask::Complete).await.unwrap();
    let waiting = house
        .until(&id, "it waits", |shown| shown.status == Status::Waiting)
        .await;
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("--without-source"), "{why}");
    voting.more(20).await;
    house.ask(&id, Ask::WithoutSource).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed);
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("its copy is removed when it answers"), "{why}");
    assert_eq!(house.route().await.moving, None);
    // It goes on to live: here, elsewhere, and where it was.
    voting.more(20).await;
    let moved = house.begun(&House::to(&third)).await;
    assert_eq!(house.ended(&moved).await.status, Status::Completed);
    is_removed(&house, &id, &from).await;
    voting.more(20).await;
    let moved = house.begun(&House::to(&from)).await;
    assert_eq!(house.ended(&moved).await.status, Status::Completed);
    let votes = voting.stop().await;
    house.holds(&from, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_called_off_though_its_target_is_away() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(50).await;
    let from = house.owner().await;
    let [to, third] = house.others().await;
    // It is never quiet enough, so it stays before its cutover.
    let new = NewMove {
        max_pause_ms: Some(1),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    house
        .until(&id, "put off", |shown| {
            shown.migration.value.figures.put_off > 0
        })
        .await;
    house.cellar.set_away(Some(to.as_str()));
    house.ask(&id, Ask::Cancel).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Cancelled);
    assert_eq!(house.route().await.owner, from);
    voting.more(20).await;
    let moved = house.begun(&House::to(&third)).await;
    assert_eq!(house.ended(&moved).await.status, Status::Completed);
    is_removed(&house, &id, &to).await;
    let votes = voting.stop().await;
    house.holds(&third, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_back_to_a_shard_that_is_away_can_be_called_off() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let from = house.owner().await;
    let [to, third] = house.others().await;
    let new = NewMove {
        window_ms: Some(3_600_000),
        sync: true,
        ..House::to(&to)
    };
    let id = in_window_of(&house, &new).await;
    house.cellar.set_away(Some(from.as_str()));
    house.ask(&id, Ask::Reverse).await.unwrap();
    let waiting = house
        .until(&id, "it waits on its way back", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.contains("migration complete calls the way back off"))
        })
        .await;
    assert_eq!(waiting.phase, "Rollback");
    // That is no reason to give up what the target has.
    let refused = house.ask(&id, Ask::AcceptLoss).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::LossNotNeeded, "{refused}");
    house.ask(&id, Ask::Complete).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    assert_eq!(house.route().await.owner, to);
    voting.more(20).await;
    let moved = house.begun(&House::to(&third)).await;
    assert_eq!(house.ended(&moved).await.status, Status::Completed);
    is_removed(&house, &id, &from).await;
    let votes = voting.stop().await;
    house.holds(&third, &votes).await;
}
