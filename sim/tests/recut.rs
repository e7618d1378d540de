//! Explores every world of the recut protocol within bounds, and checks that every
//! broken rule is noticed. `BALLAST_TEST_LONG=1` explores wider bounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use ballast_sim::recut::{RecutBounds, RecutInvariant, RecutModel, RecutRule};
use stateright::{Checker, HasDiscoveries, Model};

/// An exploration allocates and frees millions of small states.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One recut, aborted or not.
const ONE: RecutBounds = RecutBounds {
    voters: 2,
    cuts: 1,
    calls_off: 1,
    copies: 1,
    repeats: 1,
};

/// A split and a merge, or a split that is aborted and tried again.
const TWO: RecutBounds = RecutBounds {
    voters: 1,
    cuts: 2,
    calls_off: 1,
    copies: 0,
    repeats: 0,
};

/// Checks that every world within these bounds satisfies every invariant.
fn check_exhaustively(name: &str, bounds: RecutBounds) {
    let rule = RecutRule::None;
    let model = RecutModel { bounds, rule };
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (worlds, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: {worlds} worlds, {depth} deep");
    assert!(checker.is_done(), "{name}: it was not exhausted");
    checker.assert_properties();
}

#[test]
fn a_recut_keeps_its_invariants() {
    check_exhaustively("one cut, a letter twice", ONE);
    check_exhaustively("two cuts", TWO);
    if std::env::var("BALLAST_TEST_LONG").as_deref() == Ok("1") {
        check_exhaustively("two cuts, two voters", RecutBounds { voters: 2, ..TWO });
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    for (rule, claims) in [
        (RecutRule::CutBeforeSeal, &[RecutInvariant::EndsCalm][..]),
        (RecutRule::NoFence, &[RecutInvariant::NothingLost]),
        (RecutRule::AbortAtSameEpoch, &[RecutInvariant::EndsCalm]),
        (RecutRule::UnsealWithoutAbort, &[RecutInvariant::EndsCalm]),
    ] {
        let model = RecutModel { bounds: ONE, rule };
        let checker = model
            .checker()
            .threads(2)
            .finish_when(HasDiscoveries::Any)
            .spawn_bfs()
            .join();
        let found = checker.discoveries();
        let found: Vec<&str> = found.keys().copied().collect();
        println!("{rule:?}: {found:?}");
        let noticed = claims.iter().any(|claim| found.contains(&claim.name()));
        assert!(noticed, "{rule:?} was not noticed by {claims:?}: {found:?}");
    }
}
