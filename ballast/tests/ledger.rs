//! The ledger test: nothing acknowledged is ever lost or counted twice.
//!
//! Hundreds of clients vote over HTTP in fifteen polls of three tenants: one by
//! one and in streams, again after lost answers, twice on purpose, for another
//! item, too late, and nonsense; others read results and watch them. Meanwhile
//! the process is killed with SIGKILL at moments chosen by chance, its logs are
//! torn behind the last group, and it is started again on the same files. At
//! the end every vote is accounted for, see `support/ledger`.
//!
//! ```sh
//! cargo test -p ballast --test ledger                        # 10 kills
//! BALLAST_TEST_LONG=1 cargo test -p ballast --test ledger    # 100 kills
//! BALLAST_LEDGER_SEED=1 …                                    # that very chance
//! ```
//! That it would find something is proved with planted bugs, see `planted.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "support/ledger/mod.rs"]
mod ledger;

use std::time::Duration;

use ledger::chance::Chance;
use ledger::{Plan, run};
use support::Options;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_counted_twice() {
    let long = std::env::var("BALLAST_TEST_LONG").is_ok_and(|value| value == "1");
    let plan = Plan {
        seed: Chance::seed(),
        kills: if long { 100 } else { 10 },
        votes: if long { 200_000 } else { 50_000 },
        between: if long { (500, 3_000) } else { (3_000, 7_000) },
        clients: (192, 48),
        expires_in_ms: 20_000,
        tears_one_in: 2,
        recovery: Duration::from_secs(60),
        options: Options::default(),
    };
    let (kills, votes) = (plan.kills, plan.votes);
    let report = run(plan).await;
    assert!(
        report.findings.is_empty(),
        "{}\n{}",
        report.done,
        report.findings.join("\n")
    );
    assert!(report.kills >= kills && report.acknowledged >= votes);
}
