//! Moves of a slice that is being voted on, through everything but HTTP: asked
//! for, worked on, looked after, called off, brought back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archived;
mod house;
mod left;
mod lost;
mod stuck;
mod synced;
mod window;

use ballast_control_plane::migrations::ask::Ask;
use ballast_control_plane::migrations::begin::NewMove;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::notary::{Disbelief, verify};
use ballast_domain::ErrorCode;
use ballast_domain::VoterId;
use ballast_domain::migration::Status;
use house::{House, id, poll_id, slice};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_moves_while_it_is_voted_on() {
    let house = House::new().await;
    let voting = house.voting(4);
    voting.more(200).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let begun = house.begin(&House::to(&to)).await.unwrap();
    let id = begun.migration.value.migration_id.clone();
    // A second one is refused, wherever to.
    for shard in house.others().await {
        let busy = house.begin(&House::to(&shard)).await.unwrap_err();
        assert_eq!(busy.code(), ErrorCode::MoveInProgress);
    }
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    assert_eq!(ended.phase, "CleanupOldShard");
    assert!(ended.pause_ms.is_some());
    voting.more(50).await;
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
    // There it is already.
    let there = house.begin(&House::to(&to)).await.unwrap_err();
    assert_eq!(there.code(), ErrorCode::AlreadyThere);
    // What it proves can be believed, and nothing of it can be changed.
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
    assert_eq!(verify(&forged, None), Err(Disbelief::Forged));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_and_back_again_many_times() {
    let house = House::new().await;
    let voting = house.voting(4);
    for round in 0..6 {
        voting.more(20).await;
        let shard = house.others().await[round % 2].clone();
        let begun = house.begin(&House::to(&shard)).await.unwrap();
        let ended = house.ended(&begun.migration.value.migration_id).await;
        assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    }
    let votes = voting.stop().await;
    house.holds(&house.owner().await, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_that_nobody_has_voted_in_moves_too() {
    let house = House::new().await;
    let [to, _] = house.others().await;
    let begun = house.begin(&House::to(&to)).await.unwrap();
    let ended = house.ended(&begun.migration.value.migration_id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    house.holds(&to, &Default::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_in_its_window_is_brought_back() {
    let house = House::new().await;
    let voting = house.voting(4);
    voting.more(50).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let new = NewMove {
        window_ms: Some(3_600_000),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    let early = house.ask(&id, Ask::Reverse).await.unwrap_err();
    assert_eq!(early.code(), ErrorCode::WrongPhase);
    house.until_cut_over(&id).await;
    assert_eq!(house.owner().await, to);
    voting.more(50).await;
    let late = house.ask(&id, Ask::Cancel).await.unwrap_err();
    assert_eq!(late.code(), ErrorCode::WrongPhase);
    house.ask(&id, Ask::Reverse).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(
        (ended.status, ended.phase.as_str()),
        (Status::Reversed, "Rollback")
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
    house.holds(&from, &votes).await;
    let over = house.ask(&id, Ask::Complete).await.unwrap_err();
    assert_eq!(over.code(), ErrorCode::WrongPhase);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_is_ended_early() {
    let house = House::new().await;
    let voting = house.voting(2);
    let [to, _] = house.others().await;
    let new = NewMove {
        window_ms: Some(3_600_000),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    house.until_cut_over(&id).await;
    house.ask(&id, Ask::Complete).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Completed);
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_waits_for_an_approval_and_can_be_called_off() {
    let house = House::with(|moves| moves.approval_above_rows = Some(10)).await;
    let voting = house.voting(2);
    voting.more(30).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = house.begun(&House::to(&to)).await;
    let waiting = house
        .until(&id, "waiting", |shown| shown.status == Status::Waiting)
        .await;
    assert_eq!(waiting.phase, "PlanMove");
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(why.contains("approve"), "{why}");
    house.ask(&id, Ask::Cancel).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(
        (ended.status, ended.phase.as_str()),
        (Status::Cancelled, "Rollback")
    );
    // The next one is approved.
    let id = house.begun(&House::to(&to)).await;
    house.ask(&id, Ask::Approve).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Completed);
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
    assert_ne!(from, to);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_paused_and_resumed() {
    let house = House::with(|moves| moves.approval_above_rows = Some(0)).await;
    let voting = house.voting(2);
    voting.more(10).await;
    let [to, _] = house.others().await;
    let id = house.begun(&House::to(&to)).await;
    // What it waits for is told at once, before anybody has looked at it.
    let waits = |shown: &MigrationBody| shown.migration.value.waiting_for.clone();
    let shown = house.ask(&id, Ask::Pause).await.unwrap();
    assert_eq!(waits(&shown).as_deref(), Some("somebody to resume it"));
    let shown = house.ask(&id, Ask::Approve).await.unwrap();
    assert_eq!(waits(&shown).as_deref(), Some("somebody to resume it"));
    let paused = house
        .until(&id, "paused", |shown| {
            let why = shown.migration.value.waiting_for.as_deref();
            why.is_some_and(|why| why.contains("resume"))
        })
        .await;
    assert_eq!(paused.status, Status::Waiting);
    let shown = house.ask(&id, Ask::Resume).await.unwrap();
    assert_eq!(waits(&shown), None);
    assert_eq!(house.ended(&id).await.status, Status::Completed);
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
}

/// A copy takes as long as its limit makes it, also one of a single page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_bytes_is_kept_however_low() {
    let limit = 10_000;
    let house = House::with(|moves| moves.bytes_per_second = Some(limit)).await;
    let voting = house.voting(4);
    voting.more(200).await;
    voting.stop().await;
    let [to, _] = house.others().await;
    let ended = house.ended(&house.begun(&House::to(&to)).await).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    let figures = ended.migration.value.figures;
    let [from, until] = [figures.copying_since, figures.cut_over_at].map(Option::unwrap);
    let took_ms = (until.unix_ms() - from.unix_ms()).unsigned_abs();
    assert!(figures.bytes > limit / 2, "{figures:?}");
    assert!(took_ms >= figures.bytes * 1_000 / limit, "{figures:?}");
}

/// Nobody can promise less than a millisecond: it waits, says for what, and
/// votes are taken meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cutover_that_would_take_too_long_waits() {
    let house = House::new().await;
    let voting = house.voting(2);
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let new = NewMove {
        max_pause_ms: Some(1),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    let waiting = house
        .until(&id, "put off", |shown| {
            shown.migration.value.figures.put_off > 0
        })
        .await;
    assert_eq!(waiting.phase, "UpdateTenantRouting");
    assert_eq!(waiting.status, Status::Waiting);
    let why = waiting.migration.value.waiting_for.unwrap();
    assert!(
        why.contains("quieter moment") && why.contains("1 ms"),
        "{why}"
    );
    voting.more(50).await;
    house.ask(&id, Ask::Cancel).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Cancelled);
    let votes = voting.stop().await;
    house.holds(&from, &votes).await;
}

/// A row that rots on the target before the cutover is named and copied anew;
/// when it rots again, there is no cutover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_rots_on_the_target_is_named_and_never_cut_over_to() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    // It is verified again and again, and never quiet enough.
    let new = NewMove {
        max_pause_ms: Some(1),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    house
        .until(&id, "verified", |shown| {
            shown.migration.value.figures.put_off > 0
        })
        .await;
    let rotten = VoterId::new("v1-3").unwrap();
    let target = house.cellar.embedded(&to);
    target.rot(&slice(), poll_id(), &rotten).await.unwrap();
    house
        .until(&id, "repaired", |shown| {
            shown.migration.value.figures.repaired > 0
        })
        .await;
    let put_off = house.show(&id).await.migration.value.figures.put_off;
    house
        .until(&id, "verified again", |shown| {
            shown.migration.value.figures.put_off > put_off
        })
        .await;
    // It was copied anew: the row is right.
    let row = house.row(&to, "v1-3").await;
    assert_eq!(row.unwrap().items, [0]);
    target.rot(&slice(), poll_id(), &rotten).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::RolledBack, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("v1-3"), "{why}");
    house.holds(&from, &votes).await;
}

/// A row that rots on the new owner while the window is open: it is noticed
/// before the source's copy is removed, and the slice goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_rots_in_the_window_brings_the_slice_back() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let new = NewMove {
        window_ms: Some(3_600_000),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    house.until_cut_over(&id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    let target = house.cellar.embedded(&to);
    target.rot(&slice(), poll_id(), &rotten).await.unwrap();
    house.ask(&id, Ask::Complete).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Reversed, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains("v0-2") && why.contains(to.as_str()), "{why}");
    house.holds(&from, &votes).await;
}

/// The same row rots on both sides, and somebody wants the slice back: nobody can
/// say what is right, so it does not go. There is a way out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_can_judge_stays_when_somebody_says_so() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    voting.stop().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let new = NewMove {
        window_ms: Some(3_600_000),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    house.until_cut_over(&id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    for shard in [&from, &to] {
        let shard = house.cellar.embedded(shard);
        shard.rot(&slice(), poll_id(), &rotten).await.unwrap();
    }
    house.ask(&id, Ask::Reverse).await.unwrap();
    let waits = |shown: &MigrationBody| {
        let waits = shown.migration.value.waiting_for.as_deref();
        waits.is_some_and(|waits| waits.contains("nobody can say"))
    };
    house.until(&id, "nobody can say", waits).await;
    let cancel = house.ask(&id, Ask::Cancel).await.unwrap_err();
    assert_eq!(cancel.code(), ErrorCode::WrongPhase);
    house.ask(&id, Ask::Complete).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    assert_eq!(house.owner().await, to);
}

/// The same on the source's copy: it is made anew, and the move goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_rots_on_the_source_in_the_window_is_mended() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let new = NewMove {
        window_ms: Some(3_600_000),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    house.until_cut_over(&id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    let source = house.cellar.embedded(&from);
    source.rot(&slice(), poll_id(), &rotten).await.unwrap();
    house.ask(&id, Ask::Complete).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    assert_eq!(ended.migration.value.figures.differences, 1);
    house.holds(&to, &votes).await;
}

/// Whatever becomes of the execution, the move is gone on with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_nobody_works_on_is_taken_over() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let [to, _] = house.others().await;
    let begun = house.begin(&House::to(&to)).await.unwrap();
    let id = begun.migration.value.migration_id;
    let why = Some("on purpose".to_owned());
    let _ = house.engine.cancel(&begun.execution_id, None, why).await;
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
}

/// A target that is away for a while delays the move, and fails no vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_away_is_waited_for() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let [to, _] = house.others().await;
    house.cellar.set_away(Some(to.as_str()));
    let id = house.begun(&House::to(&to)).await;
    voting.more(50).await;
    house.cellar.set_away(None);
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_is_refused_and_changes_nothing() {
    let house = House::new().await;
    let before = house.owner().await;
    let unknown = house.begin(&House::to(&id("shard-9"))).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::ShardNotFound);
    let [to, other] = house.others().await;
    let elsewhere = NewMove {
        from: Some(other),
        ..House::to(&to)
    };
    let refused = house.begin(&elsewhere).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MoveRefused);
    let part = NewMove {
        slice: 3,
        ..House::to(&to)
    };
    assert_eq!(
        house.begin(&part).await.unwrap_err().code(),
        ErrorCode::NotFound
    );
    assert_eq!(house.owner().await, before);
    house.holds(&before, &Default::default()).await;
}
