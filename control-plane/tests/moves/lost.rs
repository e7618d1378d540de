//! A target that is away for good, in the window: the slice comes back without
//! what only it has, if somebody accepts that, and never otherwise.

use ballast_control_plane::change::IfMatch;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::migrations::ask::{Ask, ask};
use ballast_control_plane::migrations::notary::verify;
use ballast_domain::migration::{LeftBehind, Status};
use ballast_domain::moving::MoveId;
use ballast_domain::{Actor, ErrorCode, ShardId};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::Holding;

use crate::house::{House, poll_id, slice};
use crate::window::in_window;

const VOTED: [&str; 3] = ["ann", "bob", "cid"];
const SINCE: [&str; 2] = ["dan", "eve"];
const LOST: [&str; 2] = ["fay", "gus"];

/// A move in its window: some voted before it, some since, and what these did is
/// on both sides; then its target is away, and takes two votes more that nobody
/// can bring back.
async fn cut_off(house: &House) -> (ShardId, ShardId, MoveId) {
    house.vote(&VOTED).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = in_window(house, &to).await;
    let noted = house
        .until(&id, "streamed back", |shown| {
            shown.migration.value.figures.streamed_back.is_some()
        })
        .await;
    let noted = noted.migration.value.figures.streamed_back;
    house.vote(&SINCE).await;
    while house.row(&from, SINCE[1]).await.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    house.cellar.set_away(Some(to.as_str()));
    let epoch = house.route().await.epoch;
    house.vote_on(&to, epoch, &LOST).await.unwrap();
    // Where the loss begins is noted then, not only once a minute.
    house
        .until(&id, "how far it has come", |shown| {
            let now = shown.migration.value.figures.streamed_back;
            now.map(|now| now.before) > noted.map(|noted| noted.before)
        })
        .await;
    (from, to, id)
}

async fn given_up(house: &House, (from, to, id): &(ShardId, ShardId, MoveId)) {
    let ended = house.ended(id).await;
    assert_eq!(ended.status, Status::Reversed, "{ended:#?}");
    assert_eq!(ended.phase, "Rollback");
    // What was there, and what had come back, is there; what had not, is not.
    let route = house.route().await;
    assert_eq!((&route.owner, &route.moving), (from, &None));
    for voter in VOTED.iter().chain(&SINCE) {
        assert!(house.row(from, voter).await.is_some(), "{voter}");
    }
    for voter in LOST {
        assert!(house.row(from, voter).await.is_none(), "{voter}");
    }
    house.vote(&["hal"]).await;
    let tally = house.cellar.embedded(from).tally(&slice(), poll_id()).await;
    assert_eq!(tally.unwrap().total(), 6);
    // It is said who accepted it, why, and what it is.
    let record = &ended.migration.value;
    let lost = record.given_up.clone().unwrap();
    assert_eq!((&lost.shard, lost.epoch), (to, route.epoch));
    assert_eq!(lost.reason.as_deref(), Some("as asked"));
    assert_eq!(lost.actor, Actor::ballast("test"));
    assert_eq!(lost.present, Some(5));
    assert!(lost.after_position.is_some());
    assert!(lost.after >= record.figures.cut_over_at.unwrap());
    assert!(lost.after <= lost.accepted_at && lost.accepted_at <= lost.at);
    let finding = record.findings.last().unwrap();
    assert_eq!(finding.shard, *to);
    assert!(finding.what.contains(&lost.told()), "{}", finding.what);
    let signed = record.certificate.clone().unwrap();
    verify(&signed, Some(&signed.public_key)).unwrap();
    assert_eq!(signed.certificate.given_up, Some(lost));
    assert!(signed.certificate.doubt().unwrap().contains("given up"));
    // Nothing of it is removed, and it takes no more votes when it is back.
    let epoch = record
        .certificate
        .as_ref()
        .unwrap()
        .certificate
        .votes
        .clone();
    let epoch = epoch.unwrap().sealed_epoch;
    house.vote_on(to, epoch, &["ida"]).await.unwrap();
    house.cellar.set_away(None);
    let back = house
        .until(id, "it is told", |shown| {
            shown.migration.value.left_behind != Some(LeftBehind::Away)
        })
        .await;
    let left = back.migration.value.left_behind;
    assert_eq!(left, Some(LeftBehind::Kept));
    let fence = house.cellar.embedded(to).fence(&slice()).await.unwrap();
    let fence = fence.unwrap();
    assert_eq!(
        (fence.holding, fence.epoch),
        (Holding::Retired, route.epoch)
    );
    assert!(house.vote_on(to, epoch, &["joe"]).await.is_err());
    for voter in LOST {
        assert!(house.row(to, voter).await.is_some(), "{voter}");
    }
    // Nor are two histories mixed: it may be moved elsewhere, and there when
    // somebody has said that what was given up may go.
    let refused = house.begin(&House::to(to)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MoveRefused, "{refused}");
    let [one, two] = house.others().await;
    let other = if one == *to { two } else { one };
    let moved = house.begun(&House::to(&other)).await;
    assert_eq!(house.ended(&moved).await.status, Status::Completed);
    house.ask(id, Ask::Discard).await.unwrap();
    house
        .until(id, "it is removed", |shown| {
            shown.migration.value.left_behind == Some(LeftBehind::Gone)
        })
        .await;
    let moved = house.begun(&House::to(to)).await;
    assert_eq!(house.ended(&moved).await.status, Status::Completed);
    let there = [&VOTED[..], &SINCE, &["hal"]].concat();
    let there = there.into_iter().map(str::to_owned).collect();
    house.holds(to, &there).await;
    let again = house.ask(id, Ask::Discard).await.unwrap_err();
    assert_eq!(again.code(), ErrorCode::WrongPhase, "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_a_lost_target_has_is_given_up_when_somebody_accepts_it() {
    let house = House::new().await;
    let cut = cut_off(&house).await;
    house.ask(&cut.2, Ask::AcceptLoss).await.unwrap();
    given_up(&house, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_back_that_hangs_can_be_gone_on_with_without_the_target() {
    let house = House::new().await;
    let cut = cut_off(&house).await;
    house.ask(&cut.2, Ask::Reverse).await.unwrap();
    house
        .until(&cut.2, "it waits on its way back", |shown| {
            shown.status == Status::Waiting && shown.phase == "Rollback"
        })
        .await;
    assert_eq!(house.owner().await, cut.1);
    house.ask(&cut.2, Ask::AcceptLoss).await.unwrap();
    given_up(&house, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_given_up_that_can_be_had_or_without_a_reason() {
    let house = House::new().await;
    house.vote(&VOTED).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = house.begun(&House::to(&to)).await;
    house.ended(&id).await;
    let over = house.ask(&id, Ask::AcceptLoss).await.unwrap_err();
    assert_eq!(over.code(), ErrorCode::WrongPhase, "{over}");
    let id = in_window(&house, &from).await;
    let fit = house.ask(&id, Ask::AcceptLoss).await.unwrap_err();
    assert_eq!(fit.code(), ErrorCode::LossNotNeeded, "{fit}");
    house.cellar.set_away(Some(from.as_str()));
    let silent = Intent {
        reason: None,
        ..Intent::ballast("test", "")
    };
    let silent = ask(&house.plane, &silent, &id, &IfMatch::Any, Ask::AcceptLoss).await;
    assert_eq!(silent.unwrap_err().code(), ErrorCode::InvalidField);
    let asked = house.show(&id).await.migration.value.asked;
    assert!(asked.is_nothing(), "{asked:?}");
    house.cellar.set_away(None);
    // Accepted or not: what can be had is not given up.
    house.ask(&id, Ask::Reverse).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Reversed);
    assert_eq!(ended.migration.value.given_up, None);
    let votes = VOTED.map(str::to_owned).into_iter().collect();
    house.holds(&to, &votes).await;
}
