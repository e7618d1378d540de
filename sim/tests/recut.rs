//! Every world that a cut of slices can come to, within bounds; and every way
//! to break it, noticed. `BALLAST_TEST_LONG=1` tries wider bounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use ballast_sim::recut::{Bounds, Claim, RecutModel, Rule};
use stateright::{Checker, HasDiscoveries, Model};

/// One cut, called off or not.
const ONE: Bounds = Bounds {
    voters: 2,
    cuts: 1,
    calls_off: 1,
    copies: 1,
    repeats: 1,
};

/// A split and a merge, or a split that is called off and tried again.
const TWO: Bounds = Bounds {
    voters: 1,
    cuts: 2,
    calls_off: 1,
    copies: 0,
    repeats: 0,
};

/// All worlds within these bounds keep every claim.
fn exhausted(name: &str, bounds: Bounds) {
    let rule = Rule::Kept;
    let model = RecutModel { bounds, rule };
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (worlds, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: {worlds} worlds, {depth} deep");
    assert!(checker.is_done(), "{name}: it was not exhausted");
    checker.assert_properties();
}

#[test]
fn a_cut_keeps_its_claims() {
    exhausted("one cut, a letter twice", ONE);
    exhausted("two cuts", TWO);
    if std::env::var("BALLAST_TEST_LONG").as_deref() == Ok("1") {
        exhausted("two cuts, two voters", Bounds { voters: 2, ..TWO });
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    for (rule, claims) in [
        (Rule::CutBeforeSeal, &[Claim::EndsCalm][..]),
        (Rule::NoFence, &[Claim::NothingLost]),
        (Rule::AbortAtSameEpoch, &[Claim::EndsCalm]),
        (Rule::UnsealWithoutAbort, &[Claim::EndsCalm]),
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
