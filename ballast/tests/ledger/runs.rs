//! The ledger test: nothing acknowledged is ever lost or counted twice.
//!
//! Hundreds of clients vote over HTTP in fifteen polls of three tenants: one by
//! one and in streams, again after lost answers, twice on purpose, for another
//! item, too late, and with invalid requests; others read results and watch them. Meanwhile
//! the process is killed with SIGKILL at random moments, its logs are
//! torn behind the last group, and it is restarted on the same files. At
//! the end every vote is accounted for, see `support/ledger`.
//!
//! ```sh
//! cargo test -p ballast --test ledger                        # 10 kills
//! BALLAST_TEST_LONG=1 cargo test -p ballast --test ledger    # 100 kills
//! BALLAST_LEDGER_SEED=1 …                                    # the same random decisions
//! ```
//! Planted bugs prove that it finds violations, see `ballast/tests/faults/planted.rs`.

use std::time::Duration;

use crate::ledger::random::SeededRandom;
use crate::ledger::{LedgerPlan, run};
use crate::support::InstanceOptions;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_counted_twice() {
    let long = std::env::var("BALLAST_TEST_LONG").is_ok_and(|value| value == "1");
    let plan = LedgerPlan {
        seed: SeededRandom::seed(),
        kills: if long { 100 } else { 10 },
        votes: if long { 200_000 } else { 50_000 },
        between: if long { (500, 3_000) } else { (3_000, 7_000) },
        clients: (192, 48),
        think: Duration::ZERO,
        expires_in_ms: 20_000,
        tears_one_in: 2,
        recovery: Duration::from_secs(60),
        options: InstanceOptions::default(),
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

/// Which histories the audit accepts.
mod histories {
    use crate::ledger::history::{Attempt, Moment, VoteOutcome, VoteRequest};
    use crate::ledger::register::{Rules, Step, explains};

    const CHANGEABLE: Rules = Rules {
        choices: 1,
        changeable: true,
    };
    const SINGLE: Rules = Rules {
        choices: 1,
        changeable: false,
    };

    /// A vote for an item with a request id, sent and answered at these ticks.
    fn step(item: usize, request: u32, (sent, until): (u64, u64), outcome: VoteOutcome) -> Step {
        let moment = |tick| Moment { tick, ms: 0 };
        Step {
            attempt: Attempt {
                ask: VoteRequest {
                    item,
                    withdraw: false,
                    request: Some(request),
                },
                sent: moment(sent),
                answered: Some(moment(until)),
                outcome,
            },
            until,
            may_be_open: true,
            may_be_closed: false,
        }
    }

    const COUNTED: VoteOutcome = VoteOutcome::Applied(None);

    #[test]
    fn acknowledged_votes_must_be_present() {
        let counted = [step(0, 1, (1, 2), COUNTED)];
        assert!(explains(SINGLE, &counted, Some((&[0], 1))));
        assert!(!explains(SINGLE, &counted, None), "lost");
        assert!(!explains(SINGLE, &counted, Some((&[1], 1))), "another item");
        assert!(!explains(SINGLE, &counted, Some((&[0], 2))), "twice");
        assert!(!explains(SINGLE, &[], Some((&[0], 1))), "without a vote");
    }

    #[test]
    fn refused_votes_must_be_absent() {
        let refused = [
            step(0, 1, (1, 2), COUNTED),
            step(1, 2, (3, 4), VoteOutcome::AlreadyVoted),
        ];
        assert!(explains(SINGLE, &refused, Some((&[0], 1))));
        assert!(!explains(SINGLE, &refused, Some((&[1], 1))));
        let closed = [step(0, 1, (1, 2), VoteOutcome::Closed)];
        assert!(!explains(SINGLE, &closed, None), "it was open");
    }

    #[test]
    fn unanswered_votes_may_be_present_once_and_in_time() {
        let lost = [step(0, 1, (1, 9), VoteOutcome::Unknown)];
        assert!(explains(SINGLE, &lost, None));
        assert!(explains(SINGLE, &lost, Some((&[0], 1))));
        let then = |until| {
            [
                step(0, 1, (1, until), VoteOutcome::Unknown),
                step(1, 2, (5, 6), COUNTED),
            ]
        };
        let late = Some((&[0][..], 2));
        assert!(explains(CHANGEABLE, &then(9), late), "it took effect later");
        assert!(
            !explains(CHANGEABLE, &then(4), late),
            "its process was gone"
        );
    }

    #[test]
    fn a_repeated_request_changes_nothing() {
        let repeated = [
            step(0, 1, (1, 2), COUNTED),
            step(1, 2, (3, 4), COUNTED),
            step(0, 1, (5, 6), COUNTED),
        ];
        assert!(explains(CHANGEABLE, &repeated, Some((&[1], 2))));
        assert!(!explains(CHANGEABLE, &repeated, Some((&[0], 3))));
    }

    #[test]
    fn concurrent_votes_may_take_either_order() {
        let both = [
            step(0, 1, (1, 4), COUNTED),
            step(1, 2, (2, 3), VoteOutcome::AlreadyVoted),
        ];
        assert!(explains(SINGLE, &both, Some((&[0], 1))));
        assert!(!explains(SINGLE, &both, Some((&[1], 1))));
        let changed = [step(0, 1, (1, 4), COUNTED), step(1, 2, (2, 3), COUNTED)];
        assert!(explains(CHANGEABLE, &changed, Some((&[0], 2))));
        assert!(explains(CHANGEABLE, &changed, Some((&[1], 2))));
    }
}
