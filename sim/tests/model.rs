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

use ballast_sim::model::{Bounds, Claim, Faults, MoveModel, Rule};
use stateright::{Checker, HasDiscoveries, Model};

/// One voter, one router, a worker and another that takes over while the first
/// one still works, and somebody who calls the move off, or back.
const PLAIN: Bounds = Bounds {
    clients: 1,
    choices: 1,
    routers: 1,
    workers: 2,
    moves: 1,
    faults: Faults {
        takeovers: 1,
        copies: 0,
        losses: 0,
        wishes: 1,
    },
};

const fn with(bounds: Bounds, copies: u8, losses: u8) -> Bounds {
    Bounds {
        faults: Faults {
            copies,
            losses,
            ..bounds.faults
        },
        ..bounds
    }
}

/// A voter who changes its mind, and a router that is behind.
const CHANGING: Bounds = Bounds {
    choices: 2,
    routers: 2,
    ..PLAIN
};

/// Two voters.
const CROWDED: Bounds = Bounds {
    clients: 2,
    routers: 2,
    ..PLAIN
};

/// There and back again, and each may be called off.
const TWICE: Bounds = Bounds {
    moves: 2,
    faults: Faults {
        wishes: 2,
        ..PLAIN.faults
    },
    ..PLAIN
};

/// One worker alone.
const ALONE: Bounds = Bounds {
    workers: 1,
    faults: Faults {
        takeovers: 0,
        ..TWICE.faults
    },
    ..TWICE
};

/// All worlds within these bounds keep every claim.
fn exhausted(name: &str, bounds: Bounds) {
    let rule = Rule::Kept;
    let model = MoveModel { bounds, rule };
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (worlds, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: {worlds} worlds, {depth} deep");
    assert!(checker.is_done(), "{name}: it was not exhausted");
    checker.assert_properties();
}

#[test]
fn the_protocol_keeps_its_claims() {
    exhausted("changing, a letter twice", with(CHANGING, 1, 0));
    exhausted("changing, a letter lost or late", with(CHANGING, 0, 1));
    exhausted("two voters", CROWDED);
    exhausted("there and back", TWICE);
    exhausted("there and back, a letter twice", with(ALONE, 1, 0));
}

#[test]
fn the_protocol_keeps_its_claims_within_wider_bounds() {
    if std::env::var("BALLAST_TEST_LONG").as_deref() != Ok("1") {
        println!("skipped: BALLAST_TEST_LONG=1 tries it");
        return;
    }
    exhausted("twice, and lost or late", with(PLAIN, 1, 1));
    exhausted("two voters, a letter lost or late", with(CROWDED, 0, 1));
    exhausted("two voters, a letter twice", with(CROWDED, 1, 0));
    exhausted("there and back, a letter lost or late", with(TWICE, 0, 1));
    exhausted("there and back, a letter twice", with(TWICE, 1, 0));
}

/// Where each broken rule is noticed, and by what.
const TEETH: [(Rule, Claim, Bounds); 12] = [
    (Rule::NoFence, Claim::NothingLost, PLAIN),
    (Rule::PositionBeforeSeal, Claim::NothingLost, PLAIN),
    (Rule::PublishBeforeCommit, Claim::NothingLost, CHANGING),
    (
        Rule::CleanupWithoutFence,
        Claim::NothingLost,
        with(ALONE, 1, 0),
    ),
    (Rule::UnsealWithoutAbort, Claim::OneOwner, PLAIN),
    (Rule::EpochReused, Claim::EndsCalm, PLAIN),
    (Rule::DecideFromNotes, Claim::OwnerIsRecorded, PLAIN),
    (Rule::NoToken, Claim::WayBack, TWICE),
    (Rule::NoVersions, Claim::NothingLost, with(CHANGING, 0, 1)),
    (Rule::HistoryLeftBehind, Claim::NothingDoubled, CHANGING),
    (Rule::SealIsNoBarrier, Claim::NothingLost, PLAIN),
    (Rule::NoGravestone, Claim::EndsCalm, PLAIN),
];

#[test]
fn every_broken_rule_is_noticed() {
    let tried = TEETH.map(|(rule, ..)| rule);
    assert_eq!(tried, Rule::BROKEN, "each of them is tried");
    let mut unnoticed = Vec::new();
    for (rule, claim, bounds) in TEETH {
        let model = MoveModel { bounds, rule };
        let found = HasDiscoveries::AnyOf([claim.name()].into());
        let checker = model.checker().threads(2).finish_when(found);
        let checker = checker.spawn_bfs().join();
        println!("{rule:?}: {} worlds", checker.unique_state_count());
        if checker.discovery(claim.name()).is_none() {
            unnoticed.push((rule, claim));
        }
    }
    assert_eq!(unnoticed, []);
}
