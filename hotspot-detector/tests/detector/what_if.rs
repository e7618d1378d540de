//! What-if simulations with known results.

use std::collections::BTreeMap;

use ballast_hotspot_detector::plan::{MigrationCause, PlanTerms, plan};
use ballast_hotspot_detector::resources::Dimension;
use ballast_hotspot_detector::whatif::{BadChange, FleetChange, PlanOutcome, simulate_changes};

use crate::fleets::{NOW, fleet, shard, shard_id, slice, votes};

fn four_shards() -> ballast_hotspot_detector::plan::FleetSnapshot {
    let slices = (0..200).map(|n| slice(&format!("t-{n}"), n % 4, votes(1.0, 1.0)));
    fleet((0..4).map(shard).collect(), slices.collect())
}

#[test]
fn draining_a_shard_moves_only_its_own_tenants() {
    let now = four_shards();
    let change = FleetChange::Drain {
        shard_id: shard_id(2),
    };
    let answer = simulate_changes(&now, &PlanTerms::default(), &[change]).unwrap();
    assert_eq!(answer.without.moves, 0);
    assert_eq!(answer.plan.moves.len(), 50);
    assert!(
        answer
            .plan
            .moves
            .iter()
            .all(|step| step.from == shard_id(2))
    );
    let drained = answer.plan.shards.iter();
    let after = drained.filter(|shard| shard.shard_id == shard_id(2));
    assert_eq!(
        after.map(|shard| shard.after.slices).collect::<Vec<_>>(),
        [0]
    );
    assert_eq!(now, four_shards(), "the fleet itself is untouched");
    let text = answer.to_string();
    let first: Vec<&str> = text.lines().take(2).collect();
    assert_eq!(
        first,
        [
            "What if shard-2 were drained?",
            "Without the change: 0 migrations, 0 shards over a limit afterwards. \
             With the change: 50 migrations, 0 shards over a limit afterwards."
        ]
    );
}

#[test]
fn a_new_shard_and_a_weight_draw_tenants_by_score_alone() {
    let mut placed = four_shards();
    // As placement prefers them: otherwise migrations have other reasons too.
    let first = plan(
        &placed,
        &PlanTerms {
            follow_weights: true,
            settle_seconds: 0,
            ..PlanTerms::default()
        },
    );
    placed = first.applied_to(&placed);
    for slice in &mut placed.slices {
        slice.placed_at = NOW.plus_seconds(-900_000);
    }
    let add = FleetChange::AddShard {
        shard_id: shard_id(9),
        like: shard_id(0),
        region: None,
    };
    let answer =
        simulate_changes(&placed, &PlanTerms::default(), std::slice::from_ref(&add)).unwrap();
    let moves = &answer.plan.moves;
    // A fifth of 200, within what chance allows.
    assert!((20..=60).contains(&moves.len()), "{}", moves.len());
    for step in moves {
        assert_eq!(step.to, shard_id(9));
        assert_eq!(step.cause, MigrationCause::Weights);
    }
    let again = simulate_changes(&placed, &PlanTerms::default(), &[add.clone(), add]);
    assert_eq!(again, Err(BadChange::Exists(shard_id(9))));
    let weight = FleetChange::Weight {
        shard_id: shard_id(1),
        weight: 2.0,
    };
    let answer = simulate_changes(&placed, &PlanTerms::default(), &[weight]).unwrap();
    assert!(!answer.plan.moves.is_empty());
    assert!(answer.plan.moves.iter().all(|step| step.to == shard_id(1)));
}

/// Migrations that are due anyway are not attributed to the change.
#[test]
fn a_change_that_changes_nothing_moves_nothing_more() {
    // Placed by number, not as placement would have them.
    let now = four_shards();
    let same = FleetChange::Weight {
        shard_id: shard_id(1),
        weight: 1.0,
    };
    let answer = simulate_changes(&now, &PlanTerms::default(), &[same]).unwrap();
    assert_eq!((answer.without.moves, answer.plan.totals.moves), (0, 0));
    let add = FleetChange::AddShard {
        shard_id: shard_id(9),
        like: shard_id(0),
        region: None,
    };
    let answer = simulate_changes(&now, &PlanTerms::default(), &[add]).unwrap();
    let moves = &answer.plan.moves;
    let elsewhere = moves.iter().filter(|step| step.to != shard_id(9)).count();
    assert!(answer.without.moves >= elsewhere, "{answer}");
    assert!(answer.follows_weights && answer.without.moves > 0);
}

#[test]
fn stricter_limits_find_overloaded_shards() {
    let now = four_shards();
    let rules = |limit, goal| FleetChange::Rules {
        shard_id: Some(shard_id(0)),
        limit,
        goal,
    };
    let answer = simulate_changes(&now, &PlanTerms::default(), &[rules(0.45, 0.40)]).unwrap();
    assert_eq!(answer.plan.totals.over_before, 1);
    assert_eq!(answer.plan.moves.len(), 10);
    let answer = simulate_changes(&now, &PlanTerms::default(), &[rules(0.4, 0.5)]);
    assert!(matches!(answer, Err(BadChange::Rules { .. })));
    let nowhere = FleetChange::Drain {
        shard_id: shard_id(77),
    };
    let refused = simulate_changes(&now, &PlanTerms::default(), &[nowhere]).unwrap_err();
    assert_eq!(refused.to_string(), "there is no shard shard-77");
}

/// A few bytes instead of hardly any are no error of 2,168 %.
#[test]
fn next_to_nothing_is_not_compared() {
    let now = four_shards();
    let drain = FleetChange::Drain {
        shard_id: shard_id(2),
    };
    let mut made = simulate_changes(&now, &PlanTerms::default(), &[drain])
        .unwrap()
        .plan;
    made.shards.retain(|shard| shard.shard_id == shard_id(0));
    made.shards[0].after.load.storage = 0.01;
    let mut load = made.shards[0].after.load;
    load.storage = 0.2268;
    let outcome = |load| PlanOutcome::compare(&made, &BTreeMap::from([(shard_id(0), load)]), NOW);
    assert_eq!(outcome(load).worst_error, Some(0.0));
    // What was not predicted at all, and is there, is compared with a hundredth of the capacity.
    load.storage = 3.0;
    let error = outcome(load).worst_error.unwrap();
    assert!((error - 2.99).abs() < 1e-9, "{error}");
}

#[test]
fn predictions_are_compared_with_measurements() {
    let now = four_shards();
    let drain = FleetChange::Drain {
        shard_id: shard_id(2),
    };
    let made = simulate_changes(&now, &PlanTerms::default(), &[drain])
        .unwrap()
        .plan;
    let mut measured: BTreeMap<_, _> = made
        .shards
        .iter()
        .map(|shard| (shard.shard_id.clone(), shard.after.load))
        .collect();
    let exact = PlanOutcome::compare(&made, &measured, NOW);
    assert_eq!(
        (exact.mean_error, exact.worst_error),
        (Some(0.0), Some(0.0))
    );
    measured.get_mut(&shard_id(0)).unwrap().votes *= 1.5;
    measured.remove(&shard_id(1));
    let off = PlanOutcome::compare(&made, &measured, NOW);
    assert!((off.worst_error.unwrap() - 0.5).abs() < 1e-9);
    let shard = off
        .shards
        .iter()
        .find(|shard| shard.shard_id == shard_id(0));
    assert!((shard.unwrap().errors[&Dimension::Votes] - 0.5).abs() < 1e-9);
    // shard-2 is predicted to be empty, so it has no relative error.
    assert!((off.mean_error.unwrap() - 0.5 / 4.0).abs() < 1e-9);
    let json = serde_json::to_value(&off).unwrap();
    assert_eq!(json["shards"][0]["errors"]["votes"], 0.5);
}
