//! Explores every world of the migration protocol within bounds, and checks that every
//! broken rule is noticed.
//!
//! ```sh
//! cargo test -p ballast-sim --test model -- --nocapture   # with the counts
//! BALLAST_TEST_LONG=1 … --test-threads 1                  # wider bounds too
//! ```
//! Each run prints its bounds, the number of worlds and their depth, and fails if it did
//! not reach every world.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::time::Instant;

use ballast_sim::model::{BrokenRule, Invariant, MigrationModel, ModelBounds};
use stateright::{Checker, HasDiscoveries, Model};

/// An exploration allocates and frees millions of small states.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Everything at once: two voters, two workers, one of which is late, observations that
/// take time, two migrations, a postponed seal, and a stray message that arrives any
/// number of times. (In all bounds routers are stale, votes are repeated, and migrations
/// are aborted and reversed.)
const EVERYTHING: ModelBounds = ModelBounds {
    clients: 2,
    choices: 1,
    workers: 2,
    reconciler: false,
    torn: true,
    moves: 2,
    retreats: 1,
    strays: 1,
    repairs: 0,
    abandonments: 0,
    leaves: 0,
    sync: false,
};

/// Voters that change their choice.
const CHANGED: ModelBounds = ModelBounds {
    choices: 2,
    torn: false,
    retreats: 0,
    ..EVERYTHING
};

/// In addition, the reconciler that undoes seals that last too long.
const WITH_RECONCILER: ModelBounds = ModelBounds {
    workers: 3,
    reconciler: true,
    torn: false,
    strays: 0,
    ..EVERYTHING
};

/// Three workers, each declared dead while it still runs.
const FOLLOWED: ModelBounds = ModelBounds {
    clients: 1,
    workers: 3,
    torn: false,
    retreats: 0,
    ..EVERYTHING
};

/// Three migrations: aborted, forward and reverse, or any other three.
const THRICE: ModelBounds = ModelBounds {
    clients: 1,
    torn: false,
    moves: 3,
    retreats: 0,
    ..EVERYTHING
};

/// A damaged copy that is repaired by any worker, however late, with a postponed seal in
/// between.
const MENDED: ModelBounds = ModelBounds {
    clients: 1,
    moves: 1,
    repairs: 2,
    ..EVERYTHING
};

/// An owner that is abandoned in the window or during a reverse migration, although any
/// router and any worker may still reach it.
const LOST: ModelBounds = ModelBounds {
    torn: false,
    retreats: 0,
    abandonments: 1,
    ..EVERYTHING
};

/// The same, by a worker that finds a postponed seal.
const LOST_PUT_OFF: ModelBounds = ModelBounds {
    clients: 1,
    retreats: 1,
    ..LOST
};

/// The same where both sides acknowledge: then nothing is lost.
const SYNCED: ModelBounds = ModelBounds { sync: true, ..LOST };

/// Both sides acknowledge, and no owner is abandoned.
const BOTH: ModelBounds = ModelBounds {
    sync: true,
    torn: false,
    retreats: 0,
    ..EVERYTHING
};

/// Copies that are left to be removed later, by any worker at any time.
const LEFT: ModelBounds = ModelBounds {
    clients: 1,
    torn: false,
    retreats: 1,
    leaves: 1,
    ..EVERYTHING
};

/// For broken rules: one voter, one migration.
const PLAIN: ModelBounds = ModelBounds {
    clients: 1,
    choices: 1,
    workers: 2,
    reconciler: false,
    torn: false,
    moves: 1,
    retreats: 0,
    strays: 0,
    repairs: 0,
    abandonments: 0,
    leaves: 0,
    sync: false,
};

/// For broken rules: a copy that is repaired.
const MENDING: ModelBounds = ModelBounds {
    repairs: 1,
    ..PLAIN
};

/// For broken rules: a voter that changes its choice.
const CHANGING: ModelBounds = ModelBounds {
    choices: 2,
    ..PLAIN
};

/// For broken rules: a second migration, and a stray.
const TWICE: ModelBounds = ModelBounds {
    moves: 2,
    strays: 1,
    ..PLAIN
};

/// For broken rules: an owner that is abandoned.
const LOSING: ModelBounds = ModelBounds {
    moves: 2,
    abandonments: 1,
    ..PLAIN
};

/// For broken rules: an owner that is abandoned, where both sides acknowledge.
const SYNCING: ModelBounds = ModelBounds {
    choices: 2,
    sync: true,
    ..LOSING
};

/// For broken rules: a copy that is left to be removed later.
const LEAVING: ModelBounds = ModelBounds { leaves: 1, ..PLAIN };

/// Checks that every world within these bounds satisfies every invariant.
#[allow(clippy::disallowed_methods, reason = "it tells its own pace")]
fn check_exhaustively(name: &str, bounds: ModelBounds) {
    let began = Instant::now();
    let model = MigrationModel::new(bounds, BrokenRule::None);
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
fn the_protocol_keeps_its_invariants() {
    check_exhaustively("everything", EVERYTHING);
    check_exhaustively("changed choices", CHANGED);
    check_exhaustively("a reconciler", WITH_RECONCILER);
    check_exhaustively("three workers", FOLLOWED);
    check_exhaustively("three migrations", THRICE);
    check_exhaustively("a copy repaired twice", MENDED);
    check_exhaustively("an owner abandoned", LOST);
    check_exhaustively("an owner abandoned, postponed", LOST_PUT_OFF);
    check_exhaustively("a copy left for later", LEFT);
    check_exhaustively("both sides acknowledge", BOTH);
    check_exhaustively("both sides acknowledge, an owner abandoned", SYNCED);
}

/// The invariants within wider bounds: hours in all, so each can run alone.
mod wider {
    use super::*;

    fn check_if_long(name: &str, bounds: ModelBounds) {
        if std::env::var("BALLAST_TEST_LONG").as_deref() == Ok("1") {
            check_exhaustively(name, bounds);
        } else {
            println!("skipped: BALLAST_TEST_LONG=1 tries it");
        }
    }

    #[test]
    fn everything_and_changed_choices() {
        let bounds = ModelBounds {
            choices: 2,
            ..EVERYTHING
        };
        check_if_long("everything, changed choices", bounds);
    }

    #[test]
    fn two_strays() {
        let bounds = ModelBounds {
            torn: false,
            strays: 2,
            ..EVERYTHING
        };
        check_if_long("two strays", bounds);
    }

    #[test]
    fn a_reconciler_torn_reads_and_a_stray() {
        let bounds = ModelBounds {
            torn: true,
            strays: 1,
            ..WITH_RECONCILER
        };
        check_if_long("a reconciler, torn reads, a stray", bounds);
    }

    #[test]
    fn three_workers_and_two_voters() {
        let bounds = ModelBounds {
            clients: 2,
            retreats: 1,
            ..FOLLOWED
        };
        check_if_long("three workers, two voters, a postponed seal", bounds);
    }

    #[test]
    fn three_migrations_and_changed_choices() {
        let bounds = ModelBounds {
            clients: 2,
            choices: 2,
            retreats: 1,
            ..THRICE
        };
        check_if_long(
            "three migrations, changed choices, a postponed seal",
            bounds,
        );
    }

    #[test]
    fn copies_repaired_in_two_migrations() {
        let bounds = ModelBounds {
            clients: 2,
            moves: 2,
            ..MENDED
        };
        check_if_long("copies repaired, two migrations", bounds);
    }

    #[test]
    fn an_owner_abandoned() {
        let bounds = ModelBounds {
            choices: 2,
            retreats: 1,
            ..LOST
        };
        check_if_long(
            "an owner abandoned, changed choices, a postponed seal",
            bounds,
        );
    }

    #[test]
    fn an_owner_abandoned_where_both_acknowledge() {
        let bounds = ModelBounds {
            choices: 2,
            ..SYNCED
        };
        check_if_long(
            "an owner abandoned, both sides acknowledge, changed choices",
            bounds,
        );
    }

    #[test]
    fn copies_left_for_later() {
        let bounds = ModelBounds { clients: 2, ..LEFT };
        check_if_long("copies left for later, two voters", bounds);
    }
}

/// Each broken rule, with the invariant that notices it and the bounds that suffice.
const TEETH: [(BrokenRule, Invariant, ModelBounds); 31] = [
    (BrokenRule::NoFence, Invariant::NothingLost, PLAIN),
    (
        BrokenRule::PositionBeforeSeal,
        Invariant::NothingLost,
        PLAIN,
    ),
    (BrokenRule::SealBeforeRecord, Invariant::EndsCalm, PLAIN),
    (
        BrokenRule::PublishBeforeCommit,
        Invariant::NothingLost,
        PLAIN,
    ),
    (
        BrokenRule::ActivateBeforeCommit,
        Invariant::OwnerIsRecorded,
        PLAIN,
    ),
    (
        BrokenRule::CleanupWithoutFence,
        Invariant::NothingLost,
        TWICE,
    ),
    (BrokenRule::UnsealWithoutAbort, Invariant::OneOwner, PLAIN),
    (BrokenRule::UnsealByClock, Invariant::OneOwner, PLAIN),
    (BrokenRule::EpochReused, Invariant::EndsCalm, PLAIN),
    (BrokenRule::SpentForgotten, Invariant::EndsCalm, TWICE),
    (BrokenRule::ReverseAtOldEpoch, Invariant::EndsCalm, TWICE),
    (BrokenRule::AbortAfterCommit, Invariant::NothingLost, TWICE),
    (
        BrokenRule::DecideFromMemory,
        Invariant::OwnerIsRecorded,
        PLAIN,
    ),
    (
        BrokenRule::SwapWithoutCompare,
        Invariant::NothingLost,
        PLAIN,
    ),
    (
        BrokenRule::NoToken,
        Invariant::WayBack,
        ModelBounds {
            strays: 0,
            ..THRICE
        },
    ),
    (BrokenRule::NoVersions, Invariant::NothingLost, CHANGING),
    (
        BrokenRule::CountInsteadOfDigest,
        Invariant::NothingLost,
        CHANGING,
    ),
    (
        BrokenRule::RequestsNotCopied,
        Invariant::NothingDoubled,
        CHANGING,
    ),
    (
        BrokenRule::RetryCountedAgain,
        Invariant::NothingLost,
        CHANGING,
    ),
    (
        BrokenRule::SealWithoutBarrier,
        Invariant::NothingLost,
        PLAIN,
    ),
    (BrokenRule::NoTombstone, Invariant::EndsCalm, PLAIN),
    (BrokenRule::ReadySkipped, Invariant::NothingLost, MENDING),
    (
        BrokenRule::DiscardAtAnyTime,
        Invariant::NothingLost,
        MENDING,
    ),
    (
        BrokenRule::SealedReadsTrusted,
        Invariant::ReadsAreTrue,
        PLAIN,
    ),
    (BrokenRule::AbandonAtOldEpoch, Invariant::EndsCalm, LOSING),
    (BrokenRule::AbandonForward, Invariant::LossIsBounded, LOSING),
    (
        BrokenRule::AbandonedCopyPurged,
        Invariant::LossIsBounded,
        LOSING,
    ),
    (
        BrokenRule::RetreatToAbandonedOwner,
        Invariant::EndsCalm,
        LOSING,
    ),
    (BrokenRule::AckAlone, Invariant::NothingLost, SYNCING),
    (BrokenRule::MirrorAnywhere, Invariant::NothingLost, SYNCING),
    (BrokenRule::LeftoverNotTracked, Invariant::EndsCalm, LEAVING),
];

#[test]
fn every_broken_rule_is_noticed() {
    let tried = TEETH.map(|(rule, ..)| rule);
    assert_eq!(tried, BrokenRule::BROKEN, "each of them is tried");
    let mut unnoticed = Vec::new();
    for (rule, claim, bounds) in TEETH {
        let model = MigrationModel::new(bounds, rule);
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
