//! Proves that the ledger test finds bugs: it fails on each of these, planted in the embedded
//! engine (`vote-shard/src/embedded/faults.rs`) and active only if `BALLAST_FAULT` names one:
//!
//! ```text
//!   acknowledged-first  a group is acknowledged 30 ms before it reaches the file: kill -9 in
//!                       between loses acknowledged votes
//!   requests-forgotten  recovery loses the requests of rows: a repeated request counts as a new
//!                       one
//!   voters-forgotten    recovery loses the voters: a repeated vote counts again
//!   torn-accepted       recovery accepts a group with a wrong checksum as far as it is readable:
//!                       the torn tail's votes are counted
//! ```
//! `scripts/planted-bugs` and `scripts/test --long` run these. They need the feature `faults`.
//!
//! Observed findings: `acknowledged-first` after one or two kills, "has 188 votes, expected at
//! least 302"; `requests-forgotten` in the audit, "which nothing explains"; `voters-forgotten` in
//! an export, "has 497 votes, expected at least 499"; `torn-accepted` in the audit, "cannot be
//! exported" and counts that differ from those "in rows", or a shard that is "not ready" because it
//! cannot read a group.

#![allow(clippy::print_stdout, reason = "a run prints its seed")]

use std::time::Duration;

use crate::ledger::random::SeededRandom;
use crate::ledger::{LedgerPlan, LedgerReport, run};
use crate::support::InstanceOptions;

/// A short run, with this fault if any.
async fn run_with(fault: Option<&str>) -> LedgerReport {
    // Requests to a broken shard fail quickly.
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

/// Checks that the run has a finding with one of the expected signs.
async fn is_found(fault: &str, signs: &[&str]) {
    let report = run_with(Some(fault)).await;
    let findings = report.findings.join("\n");
    println!("{fault}: {}", findings.lines().next().unwrap_or_default());
    let seen = signs.iter().any(|sign| findings.contains(sign));
    assert!(
        seen,
        "{fault} was not detected: {}\n{findings}",
        report.done
    );
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
