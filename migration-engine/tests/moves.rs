//! Migrations between real engines during votes, by workers that are stopped at any
//! moment and whose answers get lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod world;

use std::time::Duration;

use ballast_domain::migration::Migration;
use ballast_domain::moving::{MigrationId, MigrationPhase};
use ballast_domain::tenant::Epoch;
use ballast_migration_engine::ports::RouteStore;
use ballast_migration_engine::protocol::route;
use ballast_migration_engine::worker::{
    AbandonOutcome, MigrationClaimError, MigrationError, MigrationProgress, WorkGoal, WorkOutcome,
    claim_slice,
};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::{Fence, Holding, MigrationToken};
use serde_json::json;
use world::{SOURCE, TARGET, TwoShardWorld, fenced_slice, id, slice};

const MOVED: WorkOutcome = WorkOutcome::Ended {
    moved: true,
    back: false,
};
const BACK: WorkOutcome = WorkOutcome::Ended {
    moved: true,
    back: true,
};
const UNDONE: WorkOutcome = WorkOutcome::Ended {
    moved: false,
    back: false,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_moves_while_it_is_voted_on() {
    let world = TwoShardWorld::start().await;
    let voting = world.voting(8);
    world.acknowledged(200).await;
    world.claim("m1", TARGET).await.unwrap();
    let reached = world.work("m1", 1, WorkGoal::CutOver).await.unwrap();
    assert_eq!(reached, WorkOutcome::GoalReached);
    let more = voting.acknowledged() + 200;
    world.acknowledged(more).await;
    assert_eq!(
        world.work("m1", 1, WorkGoal::Finished).await.unwrap(),
        MOVED
    );
    let votes = voting.stop().await;
    world.holds(TARGET, &votes).await;
    world.is_gone(SOURCE).await;
    assert!(votes.len() >= 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_called_off_leaves_nothing() {
    let world = TwoShardWorld::start().await;
    let voting = world.voting(4);
    world.acknowledged(50).await;
    // Before the first command, and after the target was prepared.
    for (name, goal) in [("m1", None), ("m2", Some(WorkGoal::Prepared))] {
        world.claim(name, TARGET).await.unwrap();
        if let Some(goal) = goal {
            assert_eq!(
                world.work(name, 1, goal).await.unwrap(),
                WorkOutcome::GoalReached
            );
        }
        assert_eq!(
            world.work(name, 2, WorkGoal::RolledBack).await.unwrap(),
            UNDONE
        );
        // Working on it again has the same outcome.
        assert_eq!(
            world.work(name, 2, WorkGoal::RolledBack).await.unwrap(),
            UNDONE
        );
        world.is_gone(TARGET).await;
    }
    let more = voting.acknowledged() + 50;
    world.acknowledged(more).await;
    let votes = voting.stop().await;
    world.holds(SOURCE, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_goes_back_with_what_was_voted_meanwhile() {
    let world = TwoShardWorld::start().await;
    let voting = world.voting(4);
    world.acknowledged(50).await;
    world.claim("m1", TARGET).await.unwrap();
    world.work("m1", 1, WorkGoal::CutOver).await.unwrap();
    let more = voting.acknowledged() + 50;
    world.acknowledged(more).await;
    // The reverse migration has reached its target, which was the source.
    assert_eq!(
        world.work("m1", 2, WorkGoal::RolledBack).await.unwrap(),
        BACK
    );
    let more = voting.acknowledged() + 50;
    world.acknowledged(more).await;
    let votes = voting.stop().await;
    world.holds(SOURCE, &votes).await;
    world.is_gone(TARGET).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_stopped_at_any_moment_lose_nothing() {
    let world = TwoShardWorld::start().await;
    world.lose_every_third_answer();
    let voting = world.voting(6);
    world.acknowledged(50).await;
    let (mut at, mut away) = (SOURCE, TARGET);
    for round in 0..8_u64 {
        let name = format!("m{round}");
        while world.claim(&name, away).await.is_err() {}
        let goal = match round % 4 {
            3 => WorkGoal::RolledBack,
            _ => WorkGoal::Finished,
        };
        let mut lease = 0;
        let reached = loop {
            lease += 1;
            // Each worker gets a little more time than the one before.
            let patience = Duration::from_micros(300 * (lease + round));
            let work = world.work(&name, lease, goal);
            match tokio::time::timeout(patience, work).await {
                Ok(Ok(reached)) => break reached,
                // The answer was lost, or the time was up: the next worker continues.
                Ok(Err(MigrationError::Records(_))) | Err(_) => {}
                Ok(Err(other)) => panic!("{other}"),
            }
        };
        match goal {
            WorkGoal::Finished => {
                assert_eq!(reached, MOVED);
                (at, away) = (away, at);
            }
            _ => assert_eq!(reached, UNDONE),
        }
        let more = voting.acknowledged() + 20;
        world.acknowledged(more).await;
    }
    let votes = voting.stop().await;
    world.holds(at, &votes).await;
    world.is_gone(away).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_differs_is_not_cut_over_to() {
    let world = TwoShardWorld::start().await;
    let voting = world.voting(2);
    world.acknowledged(20).await;
    world.claim("m1", TARGET).await.unwrap();
    world.work("m1", 1, WorkGoal::Prepared).await.unwrap();
    // Add a row that was never cast.
    let fence = world.shard(TARGET).fence(&slice()).await.unwrap().unwrap();
    let order = MigrationToken {
        migration_id: MigrationId("m1".to_owned()),
        token: fence.token,
    };
    let rows = world.strange_rows();
    world
        .shard(TARGET)
        .import(&slice(), &order, &rows)
        .await
        .unwrap();
    let refused = world.work("m1", 1, WorkGoal::CutOver).await.unwrap_err();
    assert!(
        matches!(refused, MigrationError::Different { polls: 1, .. }),
        "{refused}"
    );
    assert_eq!(
        world.work("m1", 2, WorkGoal::RolledBack).await.unwrap(),
        UNDONE
    );
    let more = voting.acknowledged() + 20;
    world.acknowledged(more).await;
    let votes = voting.stop().await;
    world.holds(SOURCE, &votes).await;
    world.is_gone(TARGET).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_is_claimed_by_one_move() {
    let world = TwoShardWorld::start().await;
    world.claim("m1", TARGET).await.unwrap();
    // Claiming again with the same id succeeds.
    world.claim("m1", TARGET).await.unwrap();
    let other = world.claim("m2", TARGET).await.unwrap_err();
    assert!(matches!(other, MigrationClaimError::Refused(_)), "{other}");
    assert_eq!(
        world.work("m1", 1, WorkGoal::Finished).await.unwrap(),
        MOVED
    );
    let there = world.claim("m3", TARGET).await.unwrap_err();
    assert_eq!(there.to_string(), "the target owns the slice already");
    let unknown = world.work("m9", 1, WorkGoal::Finished).await.unwrap();
    assert_eq!(unknown, WorkOutcome::Unknown);
    let records = world.records();
    let missing = ballast_domain::tenant::SliceId {
        slice: 7,
        ..slice()
    };
    let none = claim_slice(
        &*records,
        &missing,
        &MigrationId("m4".to_owned()),
        &id(SOURCE),
        false,
    )
    .await;
    assert!(matches!(none, Err(MigrationClaimError::NoSlice(_))));
}

/// Shards that know the newer lease refuse a late worker with an older one. The newer
/// worker takes over what the late one did elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_worker_is_refused() {
    let world = TwoShardWorld::start().await;
    world.claim("m1", TARGET).await.unwrap();
    world.work("m1", 5, WorkGoal::Prepared).await.unwrap();
    let late = world.work("m1", 4, WorkGoal::CutOver).await;
    assert!(
        matches!(late, Err(MigrationError::Shard { .. })),
        "{late:?}"
    );
    let reached = world.worker();
    let job = world.job("m1", 6);
    let reached = reached
        .work(&job, WorkGoal::CutOver, &mut MigrationProgress::default())
        .await;
    assert_eq!(reached.unwrap(), WorkOutcome::GoalReached);
    let fence = world.shard(SOURCE).fence(&slice()).await.unwrap().unwrap();
    assert_eq!(fence.holding, Holding::Retired);
}

/// A caller that takes the slice for freed must not be wrong: the migration would end
/// while the record still names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_slice_that_cannot_be_freed_is_an_error() {
    let world = TwoShardWorld::start().await;
    world.claim("m1", TARGET).await.unwrap();
    world.work("m1", 1, WorkGoal::CutOver).await.unwrap();
    world.set_away(Some(TARGET));
    let (worker, job) = (world.worker(), world.job("m1", 1));
    let taken_back = worker.take_back_without_owner(&job, true).await.unwrap();
    assert!(matches!(taken_back, AbandonOutcome::Abandoned { .. }));
    world.set_contended(true);
    let refused = worker.release_abandoned(&job).await.unwrap_err();
    assert_eq!(refused.to_string(), "free the slice's record");
    let is_freed = async || {
        world
            .worker()
            .read_route(&slice())
            .await
            .unwrap()
            .moving
            .is_none()
    };
    assert!(!is_freed().await);
    world.set_contended(false);
    worker.release_abandoned(&job).await.unwrap();
    assert!(is_freed().await);
}

async fn fence(world: &TwoShardWorld, name: &str) -> Fence {
    let found = world.shard(name).fence(&slice()).await.unwrap();
    found.unwrap()
}

/// A cutover that takes too long is undone: votes are taken again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cutover_that_takes_too_long_is_postponed() {
    let world = TwoShardWorld::start().await;
    let voting = world.voting(2);
    world.acknowledged(20).await;
    world.claim("m1", TARGET).await.unwrap();
    let mut job = world.job("m1", 1);
    job.seal_max_ms = Some(0);
    let mut notes = MigrationProgress::default();
    let reached = world
        .worker()
        .work(&job, WorkGoal::CutOver, &mut notes)
        .await;
    assert_eq!(reached.unwrap(), WorkOutcome::Postponed);
    let seen = world.records().read(&slice()).await.unwrap().unwrap();
    assert_eq!(seen.route.owner, id(SOURCE));
    let phase = seen.route.moving.map(|moving| moving.phase);
    assert_eq!(phase, Some(MigrationPhase::Copying));
    let owner = fence(&world, SOURCE).await;
    assert_eq!(
        (owner.holding, owner.epoch),
        (Holding::Owner, seen.route.epoch)
    );
    assert!(owner.epoch > Epoch::FIRST);
    let more = voting.acknowledged() + 20;
    world.acknowledged(more).await;
    // With enough time it continues where it was.
    assert_eq!(
        world.work("m1", 1, WorkGoal::Finished).await.unwrap(),
        MOVED
    );
    let votes = voting.stop().await;
    world.holds(TARGET, &votes).await;
}

/// The worker that sealed is gone: any process can let the slice take votes again,
/// without a lease, and the old worker's delayed commands are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overdue_seal_is_undone_without_a_lease() {
    let world = TwoShardWorld::start().await;
    let voting = world.voting(2);
    world.acknowledged(20).await;
    world.claim("m1", TARGET).await.unwrap();
    world.work("m1", 3, WorkGoal::Prepared).await.unwrap();
    let records = world.records();
    let m1 = MigrationId("m1".to_owned());
    let seen = records.read(&slice()).await.unwrap().unwrap();
    let sealing = route::seal(&seen.route, &m1).unwrap();
    assert!(records.swap(&slice(), &seen, &sealing).await.unwrap());
    let order = MigrationToken {
        token: fence(&world, TARGET).await.token,
        migration_id: m1,
    };
    let sealed_at = fenced_slice(sealing.spent);
    world.shard(SOURCE).seal(&sealed_at, &order).await.unwrap();

    let migration: Migration = serde_json::from_value(json!({
        "migrationID": "m1",
        "tenantID": "acme",
        "slice": 0,
        "fromShardID": SOURCE,
        "toShardID": TARGET,
        "regions": [],
        "actor": { "name": "watchman" },
        "requestedAt": "2026-11-16T09:30:00Z",
        "terms": { "windowMs": 1 },
        "stage": "admitted",
    }))
    .unwrap();
    let watch = async || {
        let worker = world.worker();
        worker.unseal_overdue(&migration, 1_000).await.unwrap();
        fence(&world, SOURCE).await.holding
    };
    assert_eq!(watch().await, Holding::Sealed, "its time is not over");
    world.pass(1_000);
    // An unreachable target does not prevent it.
    world.set_away(Some(TARGET));
    assert_eq!(watch().await, Holding::Owner);
    world.set_away(None);
    let late = world.shard(SOURCE).seal(&sealed_at, &order).await;
    assert!(late.is_err(), "a seal that comes late seals nothing");
    let more = voting.acknowledged() + 20;
    world.acknowledged(more).await;
    // The worker that sealed is not locked out.
    assert_eq!(
        world.work("m1", 3, WorkGoal::Finished).await.unwrap(),
        MOVED
    );
    let votes = voting.stop().await;
    world.holds(TARGET, &votes).await;
}
