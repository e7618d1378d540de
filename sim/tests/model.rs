//! Every world that the protocol of a move can come to, within bounds; and
//! every way to break it, noticed.
//!
//! ```sh
//! cargo test -p ballast-sim --test model -- --nocapture   # with the counts
//! BALLAST_TEST_LONG=1 … --test-threads 1                  # wider bounds too
//! ```
//! Each run tells its bounds, how many worlds there are and how deep they go,
//! and fails if there was one that it did not come to.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::time::Instant;

use ballast_sim::model::{Bounds, Claim, MoveModel, Rule};
use stateright::{Checker, HasDiscoveries, Model};

/// Everything at once: two voters, two workers of whom one is late and whose
/// looks take time, two moves, a seal put off, and a letter whose sender has
/// crashed and which arrives as often as it likes. (Routers are stale, votes
/// are repeated, and moves are called off and turned round in all of them.)
const EVERYTHING: Bounds = Bounds {
    clients: 2,
    choices: 1,
    workers: 2,
    watchman: false,
    torn: true,
    moves: 2,
    retreats: 1,
    strays: 1,
    repairs: 0,
    give_ups: 0,
    leaves: 0,
    sync: false,
};

/// Voters who change their minds.
const CHANGED: Bounds = Bounds {
    choices: 2,
    torn: false,
    retreats: 0,
    ..EVERYTHING
};

/// A watchman beside them, who undoes seals that last.
const WATCHED: Bounds = Bounds {
    workers: 3,
    watchman: true,
    torn: false,
    strays: 0,
    ..EVERYTHING
};

/// Three workers, each taken for dead.
const FOLLOWED: Bounds = Bounds {
    clients: 1,
    workers: 3,
    torn: false,
    retreats: 0,
    ..EVERYTHING
};

/// Called off, there, and back; or any other three.
const THRICE: Bounds = Bounds {
    clients: 1,
    torn: false,
    moves: 3,
    retreats: 0,
    ..EVERYTHING
};

/// A copy that is found wrong and made anew, by any worker, however late; with
/// a seal put off in between.
const MENDED: Bounds = Bounds {
    clients: 1,
    moves: 1,
    repairs: 2,
    ..EVERYTHING
};

/// An owner that is given up in the window, or on the way back, though it may
/// be there: any router and any worker may still reach it.
const LOST: Bounds = Bounds {
    torn: false,
    retreats: 0,
    give_ups: 1,
    ..EVERYTHING
};

/// The same, by somebody who finds a seal that was put off.
const LOST_PUT_OFF: Bounds = Bounds {
    clients: 1,
    retreats: 1,
    ..LOST
};

/// The same where both sides acknowledge: then nothing at all is lost by it.
const SYNCED: Bounds = Bounds { sync: true, ..LOST };

/// Both sides acknowledge, and nobody is given up.
const BOTH: Bounds = Bounds {
    sync: true,
    torn: false,
    retreats: 0,
    ..EVERYTHING
};

/// Copies that are left to be removed later, whoever removes them and whenever.
const LEFT: Bounds = Bounds {
    clients: 1,
    torn: false,
    retreats: 1,
    leaves: 1,
    ..EVERYTHING
};

/// For broken rules: one voter, one move.
const PLAIN: Bounds = Bounds {
    clients: 1,
    choices: 1,
    workers: 2,
    watchman: false,
    torn: false,
    moves: 1,
    retreats: 0,
    strays: 0,
    repairs: 0,
    give_ups: 0,
    leaves: 0,
    sync: false,
};

/// For broken rules: a copy that is made anew.
const MENDING: Bounds = Bounds {
    repairs: 1,
    ..PLAIN
};

/// For broken rules: a voter who changes its mind.
const CHANGING: Bounds = Bounds {
    choices: 2,
    ..PLAIN
};

/// For broken rules: a second move, and a letter without a sender.
const TWICE: Bounds = Bounds {
    moves: 2,
    strays: 1,
    ..PLAIN
};

/// For broken rules: an owner that is given up.
const LOSING: Bounds = Bounds {
    moves: 2,
    give_ups: 1,
    ..PLAIN
};

/// For broken rules: an owner that is given up, where both sides acknowledge.
const SYNCING: Bounds = Bounds {
    choices: 2,
    sync: true,
    ..LOSING
};

/// For broken rules: a copy that is left to be removed later.
const LEAVING: Bounds = Bounds { leaves: 1, ..PLAIN };

/// All worlds within these bounds keep every claim.
#[allow(clippy::disallowed_methods, reason = "it tells its own pace")]
fn exhausted(name: &str, bounds: Bounds) {
    let began = Instant::now();
    let model = MoveModel::new(bounds, Rule::Kept);
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (worlds, depth) = (checker.unique_state_count(), checker.max_depth());
    let took = began.elapsed().as_secs_f64();
    let is_done = checker.is_done();
    let how = if is_done {
        "exhausted"
    } else {
        "NOT exhausted"
    };
    println!("{name}: {bounds:?}: {worlds} worlds, {depth} deep, {took:.1} s, {how}");
    checker.assert_properties();
    assert!(is_done, "{name}: it was not exhausted");
}

#[test]
fn the_protocol_keeps_its_claims() {
    exhausted("everything", EVERYTHING);
    exhausted("changed minds", CHANGED);
    exhausted("a watchman", WATCHED);
    exhausted("three workers", FOLLOWED);
    exhausted("three moves", THRICE);
    exhausted("a copy made anew", MENDED);
    exhausted("an owner given up", LOST);
    exhausted("an owner given up, put off", LOST_PUT_OFF);
    exhausted("a copy left for later", LEFT);
    exhausted("both sides acknowledge", BOTH);
    exhausted("an owner given up, both sides acknowledge", SYNCED);
}

/// The claims within wider bounds: hours in all, so each can be run alone.
mod wider {
    use super::*;

    fn exhausted_at_length(name: &str, bounds: Bounds) {
        if std::env::var("BALLAST_TEST_LONG").as_deref() == Ok("1") {
            exhausted(name, bounds);
        } else {
            println!("skipped: BALLAST_TEST_LONG=1 tries it");
        }
    }

    #[test]
    fn everything_and_changed_minds() {
        let bounds = Bounds {
            choices: 2,
            ..EVERYTHING
        };
        exhausted_at_length("everything, and changed minds", bounds);
    }

    #[test]
    fn two_letters_without_a_sender() {
        let bounds = Bounds {
            torn: false,
            strays: 2,
            ..EVERYTHING
        };
        exhausted_at_length("two letters without a sender", bounds);
    }

    #[test]
    fn a_watchman_torn_looks_and_a_letter() {
        let bounds = Bounds {
            torn: true,
            strays: 1,
            ..WATCHED
        };
        exhausted_at_length("a watchman, torn looks, a letter", bounds);
    }

    #[test]
    fn three_workers_and_two_voters() {
        let bounds = Bounds {
            clients: 2,
            retreats: 1,
            ..FOLLOWED
        };
        exhausted_at_length("three workers, two voters, put off", bounds);
    }

    #[test]
    fn three_moves_and_changed_minds() {
        let bounds = Bounds {
            clients: 2,
            choices: 2,
            retreats: 1,
            ..THRICE
        };
        exhausted_at_length("three moves, changed minds, put off", bounds);
    }

    #[test]
    fn copies_made_anew_in_two_moves() {
        let bounds = Bounds {
            clients: 2,
            moves: 2,
            ..MENDED
        };
        exhausted_at_length("copies made anew, two moves", bounds);
    }

    #[test]
    fn an_owner_given_up() {
        let bounds = Bounds {
            choices: 2,
            retreats: 1,
            ..LOST
        };
        exhausted_at_length("an owner given up, changed minds, put off", bounds);
    }

    #[test]
    fn an_owner_given_up_where_both_acknowledge() {
        let bounds = Bounds {
            choices: 2,
            ..SYNCED
        };
        exhausted_at_length(
            "an owner given up, both sides acknowledge, changed minds",
            bounds,
        );
    }

    #[test]
    fn copies_left_for_later() {
        let bounds = Bounds { clients: 2, ..LEFT };
        exhausted_at_length("copies left for later, two voters", bounds);
    }
}

/// Where each broken rule is noticed, and by what.
const TEETH: [(Rule, Claim, Bounds); 31] = [
    (Rule::NoFence, Claim::NothingLost, PLAIN),
    (Rule::PositionBeforeSeal, Claim::NothingLost, PLAIN),
    (Rule::SealBeforeRecord, Claim::EndsCalm, PLAIN),
    (Rule::PublishBeforeCommit, Claim::NothingLost, PLAIN),
    (Rule::ActivateBeforeCommit, Claim::OwnerIsRecorded, PLAIN),
    (Rule::CleanupWithoutFence, Claim::NothingLost, TWICE),
    (Rule::UnsealWithoutAbort, Claim::OneOwner, PLAIN),
    (Rule::UnsealByClock, Claim::OneOwner, PLAIN),
    (Rule::EpochReused, Claim::EndsCalm, PLAIN),
    (Rule::SpentForgotten, Claim::EndsCalm, TWICE),
    (Rule::ReverseAtOldEpoch, Claim::EndsCalm, TWICE),
    (Rule::AbortAfterCommit, Claim::NothingLost, TWICE),
    (Rule::DecideFromNotes, Claim::OwnerIsRecorded, PLAIN),
    (Rule::SwapWithoutCompare, Claim::NothingLost, PLAIN),
    (
        Rule::NoToken,
        Claim::WayBack,
        Bounds {
            strays: 0,
            ..THRICE
        },
    ),
    (Rule::NoVersions, Claim::NothingLost, CHANGING),
    (Rule::CountForDigest, Claim::NothingLost, CHANGING),
    (Rule::HistoryLeftBehind, Claim::NothingDoubled, CHANGING),
    (Rule::RetryIsNew, Claim::NothingLost, CHANGING),
    (Rule::SealIsNoBarrier, Claim::NothingLost, PLAIN),
    (Rule::NoGravestone, Claim::EndsCalm, PLAIN),
    (Rule::NeverReady, Claim::NothingLost, MENDING),
    (Rule::DiscardAtAnyTime, Claim::NothingLost, MENDING),
    (Rule::SealedIsTrusted, Claim::ReadsAreTrue, PLAIN),
    (Rule::GiveUpAtOldEpoch, Claim::EndsCalm, LOSING),
    (Rule::GiveUpForth, Claim::LossIsBounded, LOSING),
    (Rule::LostIsPurged, Claim::LossIsBounded, LOSING),
    (Rule::ForsakenIsReturnedTo, Claim::EndsCalm, LOSING),
    (Rule::AckAlone, Claim::NothingLost, SYNCING),
    (Rule::MirrorAnywhere, Claim::NothingLost, SYNCING),
    (Rule::LeftUnburied, Claim::EndsCalm, LEAVING),
];

#[test]
fn every_broken_rule_is_noticed() {
    let tried = TEETH.map(|(rule, ..)| rule);
    assert_eq!(tried, Rule::BROKEN, "each of them is tried");
    let mut unnoticed = Vec::new();
    for (rule, claim, bounds) in TEETH {
        let model = MoveModel::new(bounds, rule);
        let found = HasDiscoveries::AnyOf([claim.name()].into());
        let checker = model.checker().threads(2).finish_when(found);
        let checker = checker.spawn_bfs().join();
        let worlds = checker.unique_state_count();
        let names: Vec<_> = checker.discoveries().into_keys().collect();
        println!("{rule:?}: {worlds} worlds, {names:?}");
        if checker.discovery(claim.name()).is_none() {
            unnoticed.push((rule, claim));
        }
    }
    assert_eq!(unnoticed, []);
}
