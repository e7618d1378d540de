//! Migrations of a slice under load, through everything but HTTP: requested, run,
//! reconciled, cancelled, reversed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archived;
mod fixture;
mod left;
mod lost;
mod stuck;
mod synced;
mod window;

use ballast_control_plane::migrations::begin::NewMigration;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::certificate_signer::{CertificateVerifyError, verify};
use ballast_control_plane::migrations::commands::MigrationCommand;
use ballast_domain::ErrorCode;
use ballast_domain::VoterId;
use ballast_domain::migration::MigrationStatus;
use fixture::{TestFleet, id, poll_id, slice};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_moves_while_it_is_voted_on() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(4);
    voting.more(200).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let begun = fleet.begin(&TestFleet::to(&to)).await.unwrap();
    let id = begun.migration.value.migration_id.clone();
    // A second migration is rejected, whatever its target.
    for shard in fleet.others().await {
        let busy = fleet.begin(&TestFleet::to(&shard)).await.unwrap_err();
        assert_eq!(busy.code(), ErrorCode::MoveInProgress);
    }
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    assert_eq!(ended.phase, "CleanupOldShard");
    assert!(ended.pause_ms.is_some());
    voting.more(50).await;
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
    // The slice is already there.
    let there = fleet.begin(&TestFleet::to(&to)).await.unwrap_err();
    assert_eq!(there.code(), ErrorCode::AlreadyThere);
    // The certificate verifies, and any change invalidates it.
    let signed = ended.migration.value.certificate.unwrap();
    verify(&signed, Some(&signed.public_key)).unwrap();
    let proved = signed.certificate.votes.clone().unwrap();
    assert_eq!(proved.acknowledged, proved.present);
    assert_eq!((proved.duplicates, proved.polls), (0, 1));
    assert_eq!(proved.source_digest, proved.target_digest);
    assert!(proved.acknowledged >= 200);
    assert_eq!(signed.certificate.owner, to);
    assert_eq!(signed.certificate.from, from);
    let mut forged = signed.clone();
    forged.certificate.pause_ms = Some(1_000_000);
    assert_eq!(verify(&forged, None), Err(CertificateVerifyError::Forged));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_and_back_again_many_times() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(4);
    for round in 0..6 {
        voting.more(20).await;
        let shard = fleet.others().await[round % 2].clone();
        let begun = fleet.begin(&TestFleet::to(&shard)).await.unwrap();
        let ended = fleet.ended(&begun.migration.value.migration_id).await;
        assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    }
    let votes = voting.stop().await;
    fleet.holds(&fleet.owner().await, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_without_votes_moves_too() {
    let fleet = TestFleet::new().await;
    let [to, _] = fleet.others().await;
    let begun = fleet.begin(&TestFleet::to(&to)).await.unwrap();
    let ended = fleet.ended(&begun.migration.value.migration_id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    fleet.holds(&to, &Default::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_in_its_window_is_brought_back() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(4);
    voting.more(50).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(3_600_000),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    let early = fleet
        .command(&id, MigrationCommand::Reverse)
        .await
        .unwrap_err();
    assert_eq!(early.code(), ErrorCode::WrongPhase);
    fleet.until_cut_over(&id).await;
    assert_eq!(fleet.owner().await, to);
    voting.more(50).await;
    let late = fleet
        .command(&id, MigrationCommand::Cancel)
        .await
        .unwrap_err();
    assert_eq!(late.code(), ErrorCode::WrongPhase);
    fleet.command(&id, MigrationCommand::Reverse).await.unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(
        (ended.status, ended.phase.as_str()),
        (MigrationStatus::Reversed, "Rollback")
    );
    let signed = ended.migration.value.certificate.unwrap();
    let (there, back) = (
        signed.certificate.votes.unwrap(),
        signed.certificate.votes_back.unwrap(),
    );
    assert!(
        back.acknowledged > there.acknowledged,
        "those that were cast in the window too"
    );
    assert_eq!(back.acknowledged, back.present);
    assert_eq!(back.source_digest, back.target_digest);
    assert!(back.sealed_position.is_some() && there.sealed_position.is_some());
    voting.more(50).await;
    let votes = voting.stop().await;
    fleet.holds(&from, &votes).await;
    let over = fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap_err();
    assert_eq!(over.code(), ErrorCode::WrongPhase);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_is_ended_early() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(3_600_000),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    fleet.until_cut_over(&id).await;
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Completed);
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_approval_and_can_be_cancelled() {
    let fleet = TestFleet::with(|moves| moves.approval_above_rows = Some(10)).await;
    let voting = fleet.voting(2);
    voting.more(30).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = fleet.begun(&TestFleet::to(&to)).await;
    let waiting = fleet
        .until(&id, "waiting", |shown| {
            shown.status == MigrationStatus::Waiting
        })
        .await;
    assert_eq!(waiting.phase, "PlanMove");
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("approve"), "{why}");
    fleet.command(&id, MigrationCommand::Cancel).await.unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(
        (ended.status, ended.phase.as_str()),
        (MigrationStatus::Cancelled, "Rollback")
    );
    // The next one is approved.
    let id = fleet.begun(&TestFleet::to(&to)).await;
    fleet.command(&id, MigrationCommand::Approve).await.unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Completed);
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
    assert_ne!(from, to);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_paused_and_resumed() {
    let fleet = TestFleet::with(|moves| moves.approval_above_rows = Some(0)).await;
    let voting = fleet.voting(2);
    voting.more(10).await;
    let [to, _] = fleet.others().await;
    let id = fleet.begun(&TestFleet::to(&to)).await;
    // The wait reason is shown at once, before the worker reacts.
    let waits = |shown: &MigrationBody| shown.migration.value.waiting_for.clone();
    let shown = fleet.command(&id, MigrationCommand::Pause).await.unwrap();
    assert_eq!(waits(&shown).as_deref(), Some("an operator to resume it"));
    let shown = fleet.command(&id, MigrationCommand::Approve).await.unwrap();
    assert_eq!(waits(&shown).as_deref(), Some("an operator to resume it"));
    let paused = fleet
        .until(&id, "paused", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.contains("resume"))
        })
        .await;
    assert_eq!(paused.status, MigrationStatus::Waiting);
    let shown = fleet.command(&id, MigrationCommand::Resume).await.unwrap();
    assert_eq!(waits(&shown), None);
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Completed);
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
}

/// The bandwidth limit holds even for a copy of a single page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bandwidth_limit_holds_however_low() {
    let limit = 10_000;
    let fleet = TestFleet::with(|moves| moves.bytes_per_second = Some(limit)).await;
    let voting = fleet.voting(4);
    voting.more(200).await;
    voting.stop().await;
    let [to, _] = fleet.others().await;
    let ended = fleet.ended(&fleet.begun(&TestFleet::to(&to)).await).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    let figures = ended.migration.value.figures;
    let [from, until] = [figures.copying_since, figures.cut_over_at].map(Option::unwrap);
    let took_ms = (until.unix_ms() - from.unix_ms()).unsigned_abs();
    assert!(figures.bytes > limit / 2, "{figures:?}");
    assert!(took_ms >= figures.bytes * 1_000 / limit, "{figures:?}");
}

/// A pause below a millisecond cannot be achieved: the migration waits, says why, and
/// votes continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cutover_that_would_take_too_long_waits() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        max_pause_ms: Some(1),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    let waiting = fleet
        .until(&id, "put off", |shown| {
            shown.migration.value.figures.put_off > 0
        })
        .await;
    assert_eq!(waiting.phase, "UpdateTenantRouting");
    assert_eq!(waiting.status, MigrationStatus::Waiting);
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(
        why.contains("quieter moment") && why.contains("1 ms"),
        "{why}"
    );
    voting.more(50).await;
    fleet.command(&id, MigrationCommand::Cancel).await.unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Cancelled);
    let votes = voting.stop().await;
    fleet.holds(&from, &votes).await;
}

/// A row that becomes corrupt on the target before the cutover is reported and copied
/// again. If it becomes corrupt once more, there is no cutover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corruption_on_the_target_is_reported_and_prevents_the_cutover() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    // It is verified repeatedly, and no pause is short enough.
    let new = NewMigration {
        max_pause_ms: Some(1),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    fleet
        .until(&id, "verified", |shown| {
            shown.migration.value.figures.put_off > 0
        })
        .await;
    let rotten = VoterId::new("v1-3").unwrap();
    let target = fleet.shards.embedded(&to);
    target
        .corrupt_row(&slice(), poll_id(), &rotten)
        .await
        .unwrap();
    fleet
        .until(&id, "repaired", |shown| {
            shown.migration.value.figures.repaired > 0
        })
        .await;
    let put_off = fleet.show(&id).await.migration.value.figures.put_off;
    fleet
        .until(&id, "verified again", |shown| {
            shown.migration.value.figures.put_off > put_off
        })
        .await;
    // The row was copied again and is correct.
    let row = fleet.row(&to, "v1-3").await;
    assert_eq!(row.unwrap().items, [0]);
    target
        .corrupt_row(&slice(), poll_id(), &rotten)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::RolledBack, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("v1-3"), "{why}");
    fleet.holds(&from, &votes).await;
}

/// A row that becomes corrupt on the new owner in the window is noticed before the
/// source's copy is removed, and the slice goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corruption_in_the_window_brings_the_slice_back() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(3_600_000),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    fleet.until_cut_over(&id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    let target = fleet.shards.embedded(&to);
    target
        .corrupt_row(&slice(), poll_id(), &rotten)
        .await
        .unwrap();
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Reversed, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("v0-2") && why.contains(to.as_str()), "{why}");
    fleet.holds(&from, &votes).await;
}

/// The same row is corrupt on both sides and the slice is to go back: the checks cannot
/// tell which is right, so it stays until an operator completes the migration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecidable_difference_stays_when_an_operator_completes() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    voting.stop().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(3_600_000),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    fleet.until_cut_over(&id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    for shard in [&from, &to] {
        let shard = fleet.shards.embedded(shard);
        shard
            .corrupt_row(&slice(), poll_id(), &rotten)
            .await
            .unwrap();
    }
    fleet.command(&id, MigrationCommand::Reverse).await.unwrap();
    let waits = |shown: &MigrationBody| {
        let waits = shown.migration.value.waiting_for.as_deref();
        waits.is_some_and(|waits| waits.contains("it is unclear whether"))
    };
    fleet.until(&id, "the finding is unclear", waits).await;
    let cancel = fleet
        .command(&id, MigrationCommand::Cancel)
        .await
        .unwrap_err();
    assert_eq!(cancel.code(), ErrorCode::WrongPhase);
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    assert_eq!(fleet.owner().await, to);
}

/// A corrupt row on the source's copy is repaired, and the migration continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corruption_on_the_source_in_the_window_is_repaired() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(3_600_000),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    fleet.until_cut_over(&id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    let source = fleet.shards.embedded(&from);
    source
        .corrupt_row(&slice(), poll_id(), &rotten)
        .await
        .unwrap();
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    assert_eq!(ended.migration.value.figures.differences, 1);
    fleet.holds(&to, &votes).await;
}

/// A migration continues whatever happens to its execution.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_without_an_execution_is_restarted() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let [to, _] = fleet.others().await;
    let begun = fleet.begin(&TestFleet::to(&to)).await.unwrap();
    let id = begun.migration.value.migration_id;
    let why = Some("on purpose".to_owned());
    let _ = fleet.engine.cancel(&begun.execution_id, None, why).await;
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
}

/// An unreachable target delays the migration, and fails no vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_target_is_waited_for() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let [to, _] = fleet.others().await;
    fleet.shards.set_away(Some(to.as_str()));
    let id = fleet.begun(&TestFleet::to(&to)).await;
    voting.more(50).await;
    fleet.shards.set_away(None);
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_requests_are_rejected_and_change_nothing() {
    let fleet = TestFleet::new().await;
    let before = fleet.owner().await;
    let unknown = fleet
        .begin(&TestFleet::to(&id("shard-9")))
        .await
        .unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::ShardNotFound);
    let [to, other] = fleet.others().await;
    let elsewhere = NewMigration {
        from: Some(other),
        ..TestFleet::to(&to)
    };
    let refused = fleet.begin(&elsewhere).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MoveRefused);
    let part = NewMigration {
        slice: 3,
        ..TestFleet::to(&to)
    };
    assert_eq!(
        fleet.begin(&part).await.unwrap_err().code(),
        ErrorCode::NotFound
    );
    assert_eq!(fleet.owner().await, before);
    fleet.holds(&before, &Default::default()).await;
}
