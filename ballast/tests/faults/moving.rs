//! The ledger test with migrations: nothing acknowledged is lost or counted twice while tenants
//! move from shard to shard and the process dies at any point.
//!
//! First the process keeps running: no request may fail. Then it dies at each of a list of crash
//! points of a migration, and at random moments. At the end every vote is accounted for, every
//! migration has ended, and no lock is left.
//!
//! ```sh
//! cargo test -p ballast --features faults --test faults moving
//! BALLAST_TEST_LONG=1 …                          # 500 migrations, every crash point twice
//! BALLAST_LEDGER_SEED=1 …                        # the same random decisions
//! ```

#![allow(clippy::print_stdout, reason = "a run prints what it did")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ledger::movers::{AdminClient, keep_moving};
use crate::ledger::random::SeededRandom;
use crate::ledger::{LedgerPlan, Run, TENANTS};
use crate::support::InstanceOptions;
use tokio::task::JoinSet;

/// Crash points: before and after each change of the record, each command to a shard, and each step
/// of the workflow.
const PLACES: [&str; 52] = [
    "order Prepare",
    "ordered Prepare",
    "swap Sealing",
    "swapped Sealing",
    "order Ready",
    "ordered Ready",
    "order Seal",
    "ordered Seal",
    "swap Window",
    "swapped Window",
    "order Activate",
    "ordered Activate",
    "order Retire",
    "ordered Retire",
    "swap Cleaning",
    "swapped Cleaning",
    "order Purge",
    "ordered Purge",
    "swap moving: None",
    "swapped moving: None",
    "swap Aborting",
    "swapped Aborting",
    "swap -back",
    "swapped -back",
    "paced archiving",
    "archived polls",
    "paced copying files",
    "brought files",
    "page Changes",
    "paged Changes",
    "begin DetectHotspot",
    "end DetectHotspot",
    "begin PlanMove",
    "end PlanMove",
    "begin EnsureParquetBackfill",
    "end EnsureParquetBackfill",
    "begin CreateDataSyncTask",
    "end CreateDataSyncTask",
    "begin WaitForSync",
    "end WaitForSync",
    "begin VerifyConsistency",
    "end VerifyConsistency",
    "begin UpdateTenantRouting",
    "end UpdateTenantRouting",
    "begin EnableDualRead",
    "end EnableDualRead",
    "begin MonitorDualRead",
    "end MonitorDualRead",
    "begin CleanupOldShard",
    "end CleanupOldShard",
    "begin Rollback",
    "end Rollback",
];
/// Crash points that are reached only if a poll has just closed, and there may be none left. Only
/// the long form tries them.
const RARE: [&str; 4] = [
    "paced archiving",
    "archived polls",
    "paced copying files",
    "brought files",
];
/// How long the process may take to reach a crash point.
const PATIENCE: Duration = Duration::from_secs(60);

fn long() -> bool {
    std::env::var("BALLAST_TEST_LONG").is_ok_and(|value| value == "1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_tenants_move_and_the_process_dies() {
    let plan = LedgerPlan {
        seed: SeededRandom::seed(),
        kills: usize::MAX,
        votes: u64::MAX,
        between: (500, 1_500),
        clients: (160, 8),
        // Slow voters: with full speed for so many migrations, each takes longer than the one
        // before.
        think: Duration::from_millis(if long() { 1_000 } else { 100 }),
        expires_in_ms: 20_000,
        tears_one_in: 4,
        recovery: Duration::from_secs(60),
        options: InstanceOptions::default(),
    };
    let mut random = SeededRandom::new(plan.seed, 77);
    let mut run = Run::start(plan).await;
    let instance = run.world.instance();
    let admin = AdminClient {
        http: instance.http().clone(),
        admin: instance.admin.clone(),
        token: instance.token.clone(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut movers = JoinSet::new();
    for tenant in TENANTS {
        let random = SeededRandom::new(random.number(), 7);
        movers.spawn(keep_moving(admin.clone(), tenant, stop.clone(), random));
    }

    // Without crashes, no request is refused.
    let calm = if long() { 100 } else { 20 };
    while admin.count_with_status("completed").await < calm && !run.shared.history.has_findings() {
        run.await_votes().await;
    }
    let unavailable_answers = run.shared.unavailable_answers.load(Ordering::SeqCst);
    assert_eq!(
        unavailable_answers,
        0,
        "a request failed while the process ran: {:?}",
        run.shared.first_unavailable.get()
    );

    // Crash at the listed points.
    let mut places: Vec<&str> = PLACES.to_vec();
    random.shuffle(&mut places);
    if !long() {
        places.retain(|place| !RARE.contains(place));
        places.truncate(20);
    }
    for place in places {
        if run.shared.history.has_findings() {
            break;
        }
        let died = run.kill_and_die_at(place, PATIENCE).await;
        if !died {
            println!("the process never reached {place:?}");
        }
        assert!(
            died || RARE.contains(&place),
            "the process never reached {place:?}"
        );
    }
    // Crash at random moments.
    let enough = if long() { 500 } else { 40 };
    loop {
        let restarted = run.kill_and_restart().await;
        run.await_votes().await;
        let ended: usize = admin.count_by_status().await.values().sum();
        if !restarted || run.shared.history.has_findings() || ended >= enough {
            break;
        }
    }
    stop.store(true, Ordering::SeqCst);
    println!("findings: {:?}", run.shared.history.findings());
    for finding in movers.join_all().await.into_iter().flatten() {
        run.shared.history.record_finding(finding);
    }
    for finding in admin.wait_until_idle().await {
        run.shared.history.record_finding(finding);
    }
    println!("moves: {:?}", admin.count_by_status().await);
    let report = run.end().await;
    assert!(
        report.findings.is_empty(),
        "{}\n{}",
        report.done,
        report.findings.join("\n")
    );
}
