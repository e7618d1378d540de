//! Every world that the protocol of a move can come to, within bounds; and
//! every way to break it, noticed.
//!
//! `BALLAST_TEST_LONG=1` tries the wider bounds: half an hour on two cores.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::time::Instant;

use ballast_sim::model::{Bounds, Claim, MoveModel, Rule};
use stateright::{Checker, HasDiscoveries, Model};

/// Everything at once: two voters, two workers of whom one is late, two moves,
/// a letter that loses its sender.
const ALL: Bounds = Bounds {
    clients: 2,
    choices: 1,
    workers: 2,
    watchman: false,
    torn: false,
    moves: 2,
    retreats: 0,
    strays: 1,
};

/// One voter and one move.
const PLAIN: Bounds = Bounds {
    clients: 1,
    moves: 1,
    strays: 0,
    ..ALL
};

/// A voter who changes its mind.
const CHANGING: Bounds = Bounds {
    choices: 2,
    ..PLAIN
};

/// Called off, there, and back.
const THRICE: Bounds = Bounds { moves: 3, ..PLAIN };

/// All worlds within these bounds keep every claim.
#[allow(clippy::disallowed_methods, reason = "it tells its own pace")]
fn exhausted(name: &str, bounds: Bounds) {
    let began = Instant::now();
    let model = MoveModel::new(bounds, Rule::Kept);
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (worlds, depth) = (checker.unique_state_count(), checker.max_depth());
    let took = began.elapsed().as_secs_f64();
    let is_done = checker.is_done();
    let how = if is_done { "exhausted" } else { "NOT exhausted" };
    println!("{name}: {bounds:?}: {worlds} worlds, {depth} deep, {took:.1} s, {how}");
    checker.assert_properties();
    assert!(is_done, "{name}: it was not exhausted");
}

#[test]
fn the_protocol_keeps_its_claims() {
    if let Ok(text) = std::env::var("EXPLORE") {
        for one in text.split(' ') {
            let n: Vec<u8> = one.split(',').map(|n| n.parse().unwrap()).collect();
            let bounds = Bounds {
                clients: n[0],
                choices: n[1],
                workers: n[2],
                watchman: n[3] > 0,
                torn: n[4] > 0,
                moves: n[5],
                retreats: n[6],
                strays: n[7],
            };
            exhausted(one, bounds);
        }
        return;
    }
    exhausted("all", ALL);
}

/// Where each broken rule is noticed, and by what.
const TEETH: [(Rule, Claim, Bounds); 21] = [
    (Rule::NoFence, Claim::NothingLost, PLAIN),
    (Rule::PositionBeforeSeal, Claim::NothingLost, PLAIN),
    (Rule::SealBeforeRecord, Claim::EndsCalm, PLAIN),
    (Rule::PublishBeforeCommit, Claim::NothingLost, PLAIN),
    (Rule::ActivateBeforeCommit, Claim::OwnerIsRecorded, PLAIN),
    (Rule::CleanupWithoutFence, Claim::NothingLost, ALL),
    (Rule::UnsealWithoutAbort, Claim::OneOwner, PLAIN),
    (Rule::UnsealByClock, Claim::OneOwner, PLAIN),
    (Rule::EpochReused, Claim::EndsCalm, PLAIN),
    (Rule::SpentForgotten, Claim::EndsCalm, ALL),
    (Rule::ReverseAtOldEpoch, Claim::EndsCalm, ALL),
    (Rule::AbortAfterCommit, Claim::NothingLost, ALL),
    (Rule::DecideFromNotes, Claim::OwnerIsRecorded, PLAIN),
    (Rule::SwapWithoutCompare, Claim::NothingLost, PLAIN),
    (Rule::NoToken, Claim::WayBack, THRICE),
    (Rule::NoVersions, Claim::NothingLost, CHANGING),
    (Rule::CountForDigest, Claim::NothingLost, CHANGING),
    (Rule::HistoryLeftBehind, Claim::NothingDoubled, CHANGING),
    (Rule::RetryIsNew, Claim::NothingLost, CHANGING),
    (Rule::SealIsNoBarrier, Claim::NothingLost, PLAIN),
    (Rule::NoGravestone, Claim::EndsCalm, PLAIN),
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
