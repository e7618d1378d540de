//! Every world that the protocol of a move can come to, within bounds; and
//! every way to break it, noticed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ballast_sim::model::{Bounds, Faults, MoveModel, Rule};
use stateright::report::WriteReporter;
use stateright::{Checker, HasDiscoveries, Model};

fn small() -> Bounds {
    Bounds {
        clients: 1,
        choices: 1,
        routers: 1,
        workers: 2,
        moves: 1,
        faults: Faults {
            takeovers: 1,
            copies: 1,
            losses: 1,
            wishes: 1,
        },
    }
}

#[test]
fn the_protocol_keeps_its_claims() {
    let model = MoveModel {
        bounds: small(),
        rule: Rule::Kept,
    };
    let mut progress = std::io::stderr();
    let checker = model.checker().threads(2).spawn_bfs();
    let checker = checker.join_and_report(&mut WriteReporter::new(&mut progress));
    println!(
        "{} worlds, depth {}",
        checker.unique_state_count(),
        checker.max_depth()
    );
    assert!(checker.is_done(), "it was not exhausted");
    checker.assert_properties();
}

#[test]
fn every_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    for rule in Rule::BROKEN {
        let model = MoveModel {
            bounds: small(),
            rule,
        };
        let checker = model.checker().threads(2);
        let checker = checker.finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.spawn_bfs().join();
        let found: Vec<_> = checker.discoveries().into_keys().collect();
        println!(
            "{rule:?}: {found:?}, {} worlds",
            checker.unique_state_count()
        );
        if found.is_empty() {
            unnoticed.push(rule);
        }
    }
    assert_eq!(unnoticed, []);
}
