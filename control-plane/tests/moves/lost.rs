//! A target that is lost in the window: the slice comes back without what only the
//! target has, but only if an operator accepts the loss.

use ballast_control_plane::change::IfMatch;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::migrations::certificate_signer::verify;
use ballast_control_plane::migrations::commands::{MigrationCommand, apply_command};
use ballast_domain::migration::{LeftoverState, MigrationStatus};
use ballast_domain::moving::MigrationId;
use ballast_domain::{Actor, ErrorCode, ShardId};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::Holding;

use crate::fixture::{TestFleet, poll_id, slice};
use crate::window::open_window;

const VOTED: [&str; 3] = ["ann", "bob", "cid"];
const SINCE: [&str; 2] = ["dan", "eve"];
const LOST: [&str; 2] = ["fay", "gus"];

/// A migration in its window, with votes from before and during the window on both
/// sides. Then the target becomes unreachable and takes two more votes that are lost.
async fn cut_off(fleet: &TestFleet) -> (ShardId, ShardId, MigrationId) {
    fleet.vote(&VOTED).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = open_window(fleet, &to).await;
    let noted = fleet
        .until(&id, "streamed back", |shown| {
            shown.migration.value.figures.streamed_back.is_some()
        })
        .await;
    let noted = noted.migration.value.figures.streamed_back;
    fleet.vote(&SINCE).await;
    while fleet.row(&from, SINCE[1]).await.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    fleet.shards.set_away(Some(to.as_str()));
    let epoch = fleet.route().await.epoch;
    fleet.vote_on(&to, epoch, &LOST).await.unwrap();
    // The start of the loss is recorded then, not only once a minute.
    fleet
        .until(&id, "how far it has come", |shown| {
            let now = shown.migration.value.figures.streamed_back;
            now.map(|now| now.before) > noted.map(|noted| noted.before)
        })
        .await;
    (from, to, id)
}

async fn abandoned(fleet: &TestFleet, (from, to, id): &(ShardId, ShardId, MigrationId)) {
    let ended = fleet.ended(id).await;
    assert_eq!(ended.status, MigrationStatus::Reversed, "{ended:#?}");
    assert_eq!(ended.phase, "Rollback");
    // Votes that were streamed back are there; later ones are not.
    let route = fleet.route().await;
    assert_eq!((&route.owner, &route.moving), (from, &None));
    for voter in VOTED.iter().chain(&SINCE) {
        assert!(fleet.row(from, voter).await.is_some(), "{voter}");
    }
    for voter in LOST {
        assert!(fleet.row(from, voter).await.is_none(), "{voter}");
    }
    fleet.vote(&["hal"]).await;
    let tally = fleet.shards.embedded(from).tally(&slice(), poll_id()).await;
    assert_eq!(tally.unwrap().total(), 6);
    // The record says who accepted the loss, why, and what it is.
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
    assert!(finding.what.contains(&lost.describe()), "{}", finding.what);
    let signed = record.certificate.clone().unwrap();
    verify(&signed, Some(&signed.public_key)).unwrap();
    assert_eq!(signed.certificate.given_up, Some(lost));
    assert!(
        signed
            .certificate
            .describe_doubt()
            .unwrap()
            .contains("abandoned")
    );
    // The lost copy is kept, and takes no more votes when it is back.
    let epoch = record
        .certificate
        .as_ref()
        .unwrap()
        .certificate
        .votes
        .clone();
    let epoch = epoch.unwrap().sealed_epoch;
    fleet.vote_on(to, epoch, &["ida"]).await.unwrap();
    fleet.shards.set_away(None);
    let back = fleet
        .until(id, "it is told", |shown| {
            shown.migration.value.left_behind != Some(LeftoverState::Away)
        })
        .await;
    let left = back.migration.value.left_behind;
    assert_eq!(left, Some(LeftoverState::Kept));
    let fence = fleet.shards.embedded(to).fence(&slice()).await.unwrap();
    let fence = fence.unwrap();
    assert_eq!(
        (fence.holding, fence.epoch),
        (Holding::Retired, route.epoch)
    );
    assert!(fleet.vote_on(to, epoch, &["joe"]).await.is_err());
    for voter in LOST {
        assert!(fleet.row(to, voter).await.is_some(), "{voter}");
    }
    // Histories are not mixed: the slice may move elsewhere, and to that shard only
    // after the copy was discarded.
    let refused = fleet.begin(&TestFleet::to(to)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MoveRefused, "{refused}");
    let [one, two] = fleet.others().await;
    let other = if one == *to { two } else { one };
    let moved = fleet.begun(&TestFleet::to(&other)).await;
    assert_eq!(fleet.ended(&moved).await.status, MigrationStatus::Completed);
    fleet.command(id, MigrationCommand::Discard).await.unwrap();
    fleet
        .until(id, "it is removed", |shown| {
            shown.migration.value.left_behind == Some(LeftoverState::Gone)
        })
        .await;
    let moved = fleet.begun(&TestFleet::to(to)).await;
    assert_eq!(fleet.ended(&moved).await.status, MigrationStatus::Completed);
    let there = [&VOTED[..], &SINCE, &["hal"]].concat();
    let there = there.into_iter().map(str::to_owned).collect();
    fleet.holds(to, &there).await;
    let again = fleet
        .command(id, MigrationCommand::Discard)
        .await
        .unwrap_err();
    assert_eq!(again.code(), ErrorCode::WrongPhase, "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_only_on_a_lost_target_are_abandoned_after_acceptance() {
    let fleet = TestFleet::new().await;
    let cut = cut_off(&fleet).await;
    fleet
        .command(&cut.2, MigrationCommand::AcceptLoss)
        .await
        .unwrap();
    abandoned(&fleet, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_reversal_can_continue_without_the_target() {
    let fleet = TestFleet::new().await;
    let cut = cut_off(&fleet).await;
    fleet
        .command(&cut.2, MigrationCommand::Reverse)
        .await
        .unwrap();
    fleet
        .until(&cut.2, "it waits on its way back", |shown| {
            shown.status == MigrationStatus::Waiting && shown.phase == "Rollback"
        })
        .await;
    assert_eq!(fleet.owner().await, cut.1);
    fleet
        .command(&cut.2, MigrationCommand::AcceptLoss)
        .await
        .unwrap();
    abandoned(&fleet, &cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_is_not_accepted_without_need_or_reason() {
    let fleet = TestFleet::new().await;
    fleet.vote(&VOTED).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = fleet.begun(&TestFleet::to(&to)).await;
    fleet.ended(&id).await;
    let over = fleet
        .command(&id, MigrationCommand::AcceptLoss)
        .await
        .unwrap_err();
    assert_eq!(over.code(), ErrorCode::WrongPhase, "{over}");
    let id = open_window(&fleet, &from).await;
    let fit = fleet
        .command(&id, MigrationCommand::AcceptLoss)
        .await
        .unwrap_err();
    assert_eq!(fit.code(), ErrorCode::LossNotNeeded, "{fit}");
    fleet.shards.set_away(Some(from.as_str()));
    let silent = Intent {
        reason: None,
        ..Intent::ballast("test", "")
    };
    let silent = apply_command(
        &fleet.plane,
        &silent,
        &id,
        &IfMatch::Any,
        MigrationCommand::AcceptLoss,
    )
    .await;
    assert_eq!(silent.unwrap_err().code(), ErrorCode::InvalidField);
    let asked = fleet.show(&id).await.migration.value.asked;
    assert!(asked.is_empty(), "{asked:?}");
    fleet.shards.set_away(None);
    // Even if the loss was accepted, nothing is lost that can still be read.
    fleet.command(&id, MigrationCommand::Reverse).await.unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Reversed);
    assert_eq!(ended.migration.value.given_up, None);
    let votes = VOTED.map(str::to_owned).into_iter().collect();
    fleet.holds(&to, &votes).await;
}
