//! The ledger test has teeth: it fails on each of these bugs, planted in the
//! embedded engine (`vote-shard/src/embedded/faults.rs`) and asleep unless
//! `BALLAST_FAULT` names one:
//!
//! ```text
//!   acknowledged-first  a group is acknowledged, and reaches the file 30 ms
//!                       later: kill -9 in between loses votes that were
//!                       answered
//!   requests-forgotten  what is read back no longer says which request made
//!                       it: a repeated request is taken for a new one
//!   voters-forgotten    what is read back no longer says who voted: a vote
//!                       that is sent again counts again
//!   torn-accepted       a group whose checksum does not fit counts as far as it
//!                       can be read: the torn tail's votes are counted
//! ```
//! `scripts/planted-bugs` runs these, and so does `scripts/test --long`. They
//! need a build with the feature `faults`; without it this file is empty.
//!
//! Seen: `acknowledged-first` after one kill or two, "has 188 votes; 302 were
//! there"; `requests-forgotten` in the audit, "which nothing explains";
//! `voters-forgotten` in an export, "has 497 votes; 499 were there";
//! `torn-accepted` in the audit, "cannot be exported" and counts that are not
//! "in rows", or because a shard is "not ready" for a group it cannot read.

#![allow(clippy::print_stdout, reason = "a run tells its seed")]

use std::time::Duration;

use crate::ledger::random::SeededRandom;
use crate::ledger::{LedgerPlan, LedgerReport, run};
use crate::support::InstanceOptions;

/// A short run; with a fault, if one is named.
async fn run_with(fault: Option<&str>) -> LedgerReport {
    // What does not work is told at once.
    let mut options = InstanceOptions {
        config: Some("[router]\nhold_max = \"500ms\"\n".to_owned()),
        ..InstanceOptions::default()
    };
    if let Some(fault) = fault {
        let planted = ("BALLAST_FAULT".to_owned(), fault.to_owned());
        options.env.push(planted);
    }
    let plan = LedgerPlan {
        seed: SeededRandom::seed(),
        kills: 6,
        votes: 5_000,
        between: (500, 2_000),
        clients: (96, 24),
        think: Duration::ZERO,
        expires_in_ms: 4_000,
        tears_one_in: 1,
        recovery: Duration::from_secs(20),
        options,
    };
    run(plan).await
}

/// The run finds something, and it is one of the things to be found.
async fn is_found(fault: &str, signs: &[&str]) {
    let report = run_with(Some(fault)).await;
    let findings = report.findings.join("\n");
    println!("{fault}: {}", findings.lines().next().unwrap_or_default());
    let seen = signs.iter().any(|sign| findings.contains(sign));
    assert!(seen, "{fault} was not found: {}\n{findings}", report.done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: scripts/planted-bugs runs it"]
async fn a_short_run_without_a_planted_bug_finds_nothing() {
    let report = run_with(None).await;
    assert!(report.findings.is_empty(), "{report:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: scripts/planted-bugs runs it"]
async fn acknowledging_before_writing_is_found() {
    is_found(
        "acknowledged-first",
        &["expected at least", "nothing explains"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: scripts/planted-bugs runs it"]
async fn forgetting_requests_is_found() {
    is_found("requests-forgotten", &["nothing explains"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: scripts/planted-bugs runs it"]
async fn forgetting_voters_is_found() {
    let signs = [
        "nothing explains",
        "in rows",
        "inconsistent results",
        "expected at least",
    ];
    is_found("voters-forgotten", &signs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: scripts/planted-bugs runs it"]
async fn accepting_a_torn_group_is_found() {
    let signs = [
        "in rows",
        "nothing explains",
        "cannot be exported",
        "not ready",
    ];
    is_found("torn-accepted", &signs).await;
}
