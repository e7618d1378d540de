//! What must hold of placement whatever the fleet and the tenant.

use proptest::prelude::*;

use super::*;
use crate::clock::Timestamp;
use crate::id::{RegionId, ShardId, TenantId, ZoneId};
use crate::residency::Residency;
use crate::shard::{Pressure, Shard, ShardState};

fn shard(n: usize, weight: f64) -> PlacementShard {
    let shard = Shard {
        shard_id: format!("shard-{n}").parse().unwrap(),
        url: format!("file:shards/shard-{n}"),
        region: "local".parse().unwrap(),
        zones: Vec::new(),
        weight,
        state: ShardState::Active,
        max_slices: 1_000_000,
        pressure: Pressure::Calm,
        created_at: Timestamp::from_unix_ms(0),
    };
    PlacementShard::new(&shard, 0)
}

fn subject(n: usize) -> PlacementSubject {
    let tenant_id: TenantId = format!("tenant-{n}").parse().unwrap();
    PlacementSubject {
        hash: slice_hash(&tenant_id, 0),
        tenant_id,
        slice: 0,
        home_region: "local".parse().unwrap(),
        residency: Residency::Strict,
        zones: Vec::new(),
        pin: None,
        current: None,
        passed_over: Vec::new(),
        closed: false,
    }
}

/// The slice after it was put where it belongs.
fn placed(fleet: &PlacementFleet, mut subject: PlacementSubject) -> PlacementSubject {
    let verdict = decide(fleet, &subject);
    subject.current = verdict.shard_id;
    subject.passed_over = verdict.passed_over;
    subject
}

fn region() -> impl Strategy<Value = RegionId> {
    prop::sample::select(vec!["local", "eu", "us"]).prop_map(|text| text.parse().unwrap())
}

fn zones() -> impl Strategy<Value = Vec<ZoneId>> {
    prop::collection::vec(
        prop::sample::select(vec!["ekb", "nsk"]).prop_map(|text| text.parse().unwrap()),
        0..2,
    )
}

prop_compose! {
    fn any_shard(n: usize)(
        weight in 0.1f64..10.0,
        region in region(),
        zones in zones(),
        state in prop::sample::select(vec![
            ShardState::Active, ShardState::Active, ShardState::Active, ShardState::Draining, ShardState::Down,
        ]),
        pressure in prop::sample::select(vec![Pressure::Calm, Pressure::Busy]),
        slices in 0u64..12,
    ) -> PlacementShard {
        PlacementShard { region, zones, state, pressure, slices, max_slices: 10, ..shard(n, weight) }
    }
}

fn any_fleet() -> impl Strategy<Value = PlacementFleet> {
    (1usize..24)
        .prop_flat_map(|count| (0..count).map(any_shard).collect::<Vec<_>>())
        .prop_map(PlacementFleet::new)
}

prop_compose! {
    fn any_subject()(
        n in 0usize..100_000,
        home_region in region(),
        zones in zones(),
        residency in prop::sample::select(vec![
            Residency::Strict,
            Residency::Deferred,
            Residency::Permitted { secondary_regions: vec!["eu".parse().unwrap()] },
        ]),
    ) -> PlacementSubject {
        PlacementSubject { home_region, zones, residency, ..subject(n) }
    }
}

proptest! {
    #[test]
    fn placing_twice_is_placing_once(fleet in any_fleet(), subject in any_subject()) {
        let once = placed(&fleet, subject);
        if once.current.is_some() {
            let again = decide(&fleet, &once);
            prop_assert_eq!(&again.shard_id, &once.current);
            prop_assert_eq!(again.why, PlacementReason::Stays);
        }
    }

    #[test]
    fn adding_a_shard_moves_only_what_goes_to_it(
        fleet in any_fleet(), subject in any_subject(), new in any_shard(99),
    ) {
        let before = placed(&fleet, subject);
        let after = decide(&fleet.with(new.clone()), &before).shard_id;
        if before.current.is_some() {
            prop_assert!(after == before.current || after == Some(new.id));
        }
    }

    #[test]
    fn removing_a_shard_moves_only_its_own(
        fleet in any_fleet(), subject in any_subject(), gone in any::<prop::sample::Index>(),
    ) {
        let before = placed(&fleet, subject);
        let gone = gone.get(fleet.shards()).id.clone();
        let after = decide(&fleet.without(&gone), &before).shard_id;
        if before.current.is_some() && before.current != Some(gone.clone()) {
            prop_assert_eq!(after, before.current);
        } else {
            prop_assert_ne!(after, Some(gone));
        }
    }

    #[test]
    fn changes_of_load_move_no_tenant(
        fleet in any_fleet(), subject in any_subject(), pressures in prop::collection::vec(any::<bool>(), 24),
    ) {
        let before = placed(&fleet, subject);
        let mut later = fleet.clone();
        for (shard, busy) in fleet.shards().iter().zip(pressures) {
            let view = later.get_mut(&shard.id).unwrap();
            (view.pressure, view.slices) = if busy { (Pressure::Busy, 10) } else { (Pressure::Calm, 0) };
        }
        if let Some(current) = &before.current {
            let after = decide(&later, &before).shard_id.unwrap();
            // Only a slice that was sent away goes home when there is room.
            let is_home = |id| fleet.get(id).unwrap().region == before.home_region;
            prop_assert!(after == *current || (is_home(&after) && !is_home(current)));
        }
    }

    #[test]
    fn no_rule_is_ever_broken(fleet in any_fleet(), subject in any_subject()) {
        let explanation = explain(&fleet, &subject);
        if let Some(winner) = &explanation.preferred_shard_id {
            let winner = explanation.shards.iter().find(|shard| shard.shard_id == *winner).unwrap();
            prop_assert!(winner.vetoes.is_empty());
        } else {
            prop_assert!(explanation.shards.iter().all(|shard| !shard.vetoes.is_empty()));
        }
    }

    #[test]
    fn reported_changes_do_move_the_slice(fleet in any_fleet(), subject in any_subject()) {
        let subject = placed(&fleet, subject);
        let explanation = explain(&fleet, &subject);
        for would in &explanation.would_move {
            let (mut fleet, mut subject) = (fleet.clone(), subject.clone());
            would.change.apply(&mut fleet, &mut subject.pin).unwrap();
            let then = decide(&fleet, &subject).shard_id;
            prop_assert_eq!(then.as_ref(), Some(&would.to_shard_id));
            prop_assert_ne!(subject.current.as_ref(), Some(&would.to_shard_id));
        }
    }
}

/// A slice on an active shard with an eligible rival lists at least the two
/// weights and the drain that would move it.
#[test]
fn there_is_always_something_that_would_move_it() {
    let fleet = PlacementFleet::new((0..4).map(|n| shard(n, 1.0)).collect());
    for n in 0..1_000 {
        let explanation = explain(&fleet, &placed(&fleet, subject(n)));
        assert!(explanation.would_move.len() >= 3, "{explanation:#?}");
        assert!(explanation.margin.unwrap() > 0.0);
    }
}

/// Pearson's statistic of `counts` against what the weights promise.
fn chi_square(counts: &[usize], weights: &[f64]) -> f64 {
    let (total, sum): (usize, f64) = (counts.iter().sum(), weights.iter().sum());
    counts
        .iter()
        .zip(weights)
        .map(|(count, weight)| {
            let expected = total as f64 * weight / sum;
            (*count as f64 - expected).powi(2) / expected
        })
        .sum()
}

#[test]
fn tenants_spread_by_weight_over_unequal_shards() {
    let weights: Vec<f64> = (0..150).map(|n| [0.5, 1.0, 2.0, 3.5][n % 4]).collect();
    let fleet = PlacementFleet::new(
        weights
            .iter()
            .enumerate()
            .map(|(n, weight)| shard(n, *weight))
            .collect(),
    );
    let mut counts = vec![0; weights.len()];
    for n in 0..200_000 {
        let id: ShardId = decide(&fleet, &subject(n)).shard_id.unwrap();
        counts[id.as_str()["shard-".len()..].parse::<usize>().unwrap()] += 1;
    }
    // 149 degrees of freedom: 208.2 is exceeded once in a thousand runs, and
    // this run is always the same one.
    let statistic = chi_square(&counts, &weights);
    assert!(statistic < 208.2, "chi-square {statistic}");
}

#[test]
fn a_new_shard_wins_in_proportion_to_its_weight() {
    let fleet = PlacementFleet::new((0..9).map(|n| shard(n, 1.0)).collect());
    let grown = fleet.clone().with(shard(9, 3.0));
    let tenants = 60_000;
    let moved = (0..tenants)
        .filter(|n| {
            let before = placed(&fleet, subject(*n));
            decide(&grown, &before).shard_id != before.current
        })
        .count();
    // 3 of 12 parts; five standard deviations of the binomial are ±530.
    let expected = tenants / 4;
    assert!(moved.abs_diff(expected) < 530, "{moved} of {expected}");
}

#[test]
fn a_busy_shard_gets_fewer_new_tenants_and_keeps_its_own() {
    let mut fleet = PlacementFleet::new((0..4).map(|n| shard(n, 1.0)).collect());
    let busy: ShardId = "shard-2".parse().unwrap();
    fleet.get_mut(&busy).unwrap().pressure = Pressure::Busy;
    let tenants: Vec<_> = (0..20_000).map(|n| placed(&fleet, subject(n))).collect();
    let on_busy = tenants
        .iter()
        .filter(|have| have.current.as_ref() == Some(&busy))
        .count();
    // 0.25 of 3.25 parts.
    assert!(on_busy.abs_diff(20_000 / 13) < 200, "{on_busy}");
    fleet.get_mut(&busy).unwrap().pressure = Pressure::Calm;
    assert!(
        tenants
            .iter()
            .all(|have| decide(&fleet, have).shard_id == have.current)
    );
}
