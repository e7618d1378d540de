//! Properties of every plan of every fleet.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use ballast_domain::clock::Timestamp;
use ballast_domain::id::ShardId;
use ballast_domain::placement::{
    self, PlacementReason, PlacementShard, decide, region_fit_unless_vetoed,
};
use ballast_domain::residency::RegionFit;
use ballast_domain::shard::{Pressure, ShardState};
use ballast_domain::tenant::SliceId;
use ballast_hotspot_detector::plan::{
    Dial, FleetSnapshot, MigrationCause, Plan, PlanShard, PlanSlice, PlanTerms, PlannedMigration,
    plan,
};
use ballast_hotspot_detector::resources::{Dimension, Resources};

use crate::fleets::{any_fleet, fleet, shard, slice, votes};

/// Tolerance for rounding: a millionth per slice, and addition in a different order.
const DUST: f64 = 1e-3;

fn shards(fleet: &FleetSnapshot) -> BTreeMap<&ShardId, &PlanShard> {
    fleet
        .shards
        .iter()
        .map(|shard| (shard.id(), shard))
        .collect()
}

fn slices(fleet: &FleetSnapshot) -> BTreeMap<&SliceId, &PlanSlice> {
    fleet
        .slices
        .iter()
        .map(|slice| (&slice.id, slice))
        .collect()
}

/// Load and number of slices per shard, computed from scratch.
fn loads(fleet: &FleetSnapshot) -> BTreeMap<ShardId, (Resources, u64)> {
    let mut loads: BTreeMap<ShardId, (Resources, u64)> = fleet
        .shards
        .iter()
        .map(|shard| (shard.id().clone(), (shard.overhead, 0)))
        .collect();
    for slice in &fleet.slices {
        for on in BTreeSet::from([Some(&slice.shard_id), slice.moving_to.as_ref()]) {
            if let Some((load, count)) = on.and_then(|on| loads.get_mut(on)) {
                *load += slice.demand;
                *count += 1;
            }
        }
    }
    loads
}

fn is_over(shard: &PlanShard, load: &Resources, count: u64) -> bool {
    let over = |dimension: Dimension| {
        let capacity = shard.capacity[dimension];
        capacity > 0.0 && load[dimension] > capacity * shard.limit + DUST
    };
    Dimension::ALL.into_iter().any(over) || count > shard.record.max_slices
}

fn placement_of(fleet: &FleetSnapshot) -> placement::PlacementFleet {
    let loads = loads(fleet);
    let views = fleet.shards.iter();
    placement::PlacementFleet::new(
        views
            .map(|shard| PlacementShard::new(&shard.record, loads[shard.id()].1))
            .collect(),
    )
}

/// Only movable slices move, and only to allowed shards.
fn obeys_the_rules(
    fleet: &FleetSnapshot,
    terms: &PlanTerms,
    made: &Plan,
) -> Result<(), TestCaseError> {
    let (shards, slices) = (shards(fleet), slices(fleet));
    for step in &made.moves {
        let slice = slices[&step.slice];
        let target = PlacementShard::new(&shards[&step.to].record, 0);
        prop_assert_ne!(&step.from, &step.to);
        prop_assert!(!slice.closed && slice.moving_to.is_none());
        prop_assert!(!matches!(slice.dial, Dial::Pause | Dial::Stop));
        prop_assert!(
            region_fit_unless_vetoed(&target, &slice.subject()).is_some(),
            "{:?}",
            step
        );
        prop_assert_ne!(shards[&step.from].record.state, ShardState::Down);
        match &step.cause {
            MigrationCause::Leave { .. } => {}
            MigrationCause::Pin { .. } => {
                prop_assert_eq!(&slice.pin.as_ref().unwrap().shard_id, &step.to);
            }
            MigrationCause::Aside { .. } => prop_assert!(slice.pin.is_some()),
            MigrationCause::Relief { .. }
            | MigrationCause::Room { .. }
            | MigrationCause::Weights => {
                prop_assert!(slice.pin.is_none() && slice.dial == Dial::Active);
                let settled = slice.placed_at.plus_seconds(terms.settle_seconds);
                prop_assert!(settled <= fleet.at);
            }
        }
    }
    Ok(())
}

/// The plan's loads equal the loads computed from scratch.
fn reports_correct_loads(fleet: &FleetSnapshot, made: &Plan) -> Result<(), TestCaseError> {
    let (before, after) = (loads(fleet), loads(&made.applied_to(fleet)));
    let shards = shards(fleet);
    for shard in &made.shards {
        for (said, counted) in [
            (&shard.before, &before[&shard.shard_id]),
            (&shard.after, &after[&shard.shard_id]),
        ] {
            prop_assert_eq!(said.slices, counted.1);
            for dimension in Dimension::ALL {
                let off = said.load[dimension] - counted.0[dimension];
                prop_assert!(off.abs() < DUST, "{:?} by {}", dimension, off);
            }
        }
    }
    let reported: BTreeSet<&ShardId> = made.shards.iter().map(|shard| &shard.shard_id).collect();
    let excused: BTreeSet<&ShardId> = made.unhelped.iter().map(|shard| &shard.shard_id).collect();
    for (id, (load, count)) in &after {
        let (first, first_count) = &before[id];
        let over = is_over(shards[id], load, *count);
        prop_assert!(!over || excused.contains(id), "{} is over, unexcused", id);
        let was_over = is_over(shards[id], first, *first_count);
        prop_assert!(!over || was_over, "{} was not over", id);
        prop_assert!(reported.contains(id) || before[id] == after[id]);
    }
    prop_assert!(made.unhelped.iter().all(|shard| !shard.why.is_empty()));
    prop_assert_eq!(made.totals.moves, made.moves.len());
    prop_assert!(made.totals.bytes_at_least <= made.totals.bytes);
    Ok(())
}

/// Played by its schedule, where an arrival counts from its beginning and a
/// departure from its end, no shard is over its limit for an arrival.
fn fits_at_every_step(fleet: &FleetSnapshot, made: &Plan) -> Result<(), TestCaseError> {
    let (shards, slices) = (shards(fleet), slices(fleet));
    let mut now = loads(fleet);
    let mut events: Vec<(Timestamp, bool, &PlannedMigration)> = Vec::new();
    for step in &made.moves {
        events.push((step.begins_at, true, step));
        events.push((step.ends_at, false, step));
    }
    // What ends at a moment is gone before what begins at it.
    events.sort_by_key(|(at, begins, _)| (*at, *begins));
    for (_, begins, step) in events {
        let demand = slices[&step.slice].demand;
        if begins {
            let load = now.get_mut(&step.to).unwrap();
            *load = (load.0 + demand, load.1 + 1);
            prop_assert!(!is_over(shards[&step.to], &load.0, load.1), "{:?}", step);
        } else {
            let load = now.get_mut(&step.from).unwrap();
            *load = (load.0 - demand, load.1 - 1);
        }
    }
    Ok(())
}

fn keeps_its_pace(terms: &PlanTerms, made: &Plan) -> Result<(), TestCaseError> {
    for step in &made.moves {
        for before in &step.waits_for {
            prop_assert!(made.moves[*before as usize].ends_at <= step.begins_at);
        }
        let running = made
            .moves
            .iter()
            .filter(|other| other.begins_at <= step.begins_at && step.begins_at < other.cutover_at);
        let running: Vec<_> = running.collect();
        let out = running.iter().filter(|other| other.from == step.from);
        let coming = running.iter().filter(|other| other.to == step.to);
        prop_assert!(running.len() <= terms.pace.at_a_time as usize);
        prop_assert!(out.count() <= terms.pace.out_at_a_time as usize);
        prop_assert!(coming.count() <= terms.pace.in_at_a_time as usize);
    }
    Ok(())
}

/// Placement has nothing against where slices went.
fn placement_agrees(fleet: &FleetSnapshot, made: &Plan) -> Result<(), TestCaseError> {
    let after = made.applied_to(fleet);
    let placement = placement_of(&after);
    let slices = slices(&after);
    for step in &made.moves {
        let slice = slices[&step.slice];
        if slice.shard_id != step.to {
            continue;
        }
        let subject = slice.subject();
        let view = placement.get(&step.to).unwrap();
        // One that is away from home is called home when there is room: that
        // is what its tenant asked for.
        if region_fit_unless_vetoed(view, &subject) == Some(RegionFit::Home) {
            let verdict = decide(&placement, &subject);
            prop_assert!(
                matches!(
                    verdict.why,
                    PlacementReason::Stays | PlacementReason::Pinned
                ),
                "{:?}",
                verdict
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_plan_obeys_the_rules_and_reports_correct_loads(
        fleet in any_fleet(),
        follow_weights in any::<bool>(),
    ) {
        let terms = PlanTerms { follow_weights, ..PlanTerms::default() };
        let made = plan(&fleet, &terms);
        obeys_the_rules(&fleet, &terms, &made)?;
        reports_correct_loads(&fleet, &made)?;
        fits_at_every_step(&fleet, &made)?;
        keeps_its_pace(&terms, &made)?;
        placement_agrees(&fleet, &made)?;
        prop_assert!(!made.to_string().is_empty());
        let json = serde_json::to_string(&made).unwrap();
        prop_assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), made);
    }

    #[test]
    fn planning_twice_gives_nothing_the_second_time(
        fleet in any_fleet(),
        follow_weights in any::<bool>(),
    ) {
        let terms = PlanTerms { follow_weights, ..PlanTerms::default() };
        let made = plan(&fleet, &terms);
        let again = plan(&made.applied_to(&fleet), &terms);
        prop_assert!(again.moves.is_empty(), "{}\nand again\n{}", made, again);
    }

    /// With limits on one plan, plan after plan comes to rest.
    #[test]
    fn small_plans_converge(fleet in any_fleet(), moves_max in 1usize..4) {
        let terms = PlanTerms { moves_max, ..PlanTerms::default() };
        let mut now = fleet;
        let most = now.slices.len() * 2 + 1;
        for _ in 0..most {
            let made = plan(&now, &terms);
            prop_assert!(made.moves.len() <= moves_max);
            if made.moves.is_empty() {
                return Ok(());
            }
            now = made.applied_to(&now);
        }
        prop_assert!(false, "no rest after {} plans", most);
    }

    /// The order in which a fleet is listed plays no part.
    #[test]
    fn a_plan_does_not_depend_on_the_order_of_listing(
        fleet in any_fleet().prop_flat_map(|fleet| {
            let shuffled = (Just(fleet.shards.clone()).prop_shuffle(), Just(fleet.slices.clone()).prop_shuffle());
            (Just(fleet), shuffled)
        }),
    ) {
        let (fleet, (shards, slices)) = fleet;
        let shuffled = FleetSnapshot { shards, slices, ..fleet.clone() };
        let terms = PlanTerms::default();
        prop_assert_eq!(plan(&fleet, &terms).moves, plan(&shuffled, &terms).moves);
    }

    /// A tenant that placement just placed is not moved at once, however full
    /// its shard is.
    #[test]
    fn a_freshly_placed_tenant_stays(fleet in any_fleet(), load in 0.0f64..60.0) {
        let mut fleet = fleet;
        let mut fresh = slice("fresh", 0, votes(load, load));
        fresh.placed_at = fleet.at;
        let subject = placement::PlacementSubject { current: None, ..fresh.subject() };
        let verdict = decide(&placement_of(&fleet), &subject);
        let Some(on) = verdict.shard_id else { return Ok(()) };
        fresh.shard_id = on;
        fresh.passed_over = verdict.passed_over;
        let id = fresh.id.clone();
        fleet.slices.push(fresh);
        for follow_weights in [false, true] {
            let terms = PlanTerms { follow_weights, ..PlanTerms::default() };
            let made = plan(&fleet, &terms);
            prop_assert!(made.moves.iter().all(|step| step.slice != id), "{}", made);
        }
    }

    /// Where there is room, what must leave goes where placement would put it.
    #[test]
    fn with_room_the_planner_agrees_with_placement(
        on in prop::collection::vec(0usize..8, 1..20),
        weights in prop::collection::vec((0.5f64..4.0, any::<bool>()), 8),
    ) {
        let mut all: Vec<PlanShard> = (0..8).map(shard).collect();
        for (shard, (weight, busy)) in all.iter_mut().zip(weights) {
            shard.record.weight = weight;
            shard.record.pressure = if busy { Pressure::Busy } else { Pressure::Calm };
        }
        all[0].record.state = ShardState::Draining;
        let held = on.iter().enumerate();
        let held = held.map(|(n, on)| slice(&format!("tenant-{n}"), *on, votes(0.1, 0.1)));
        let fleet = fleet(all, held.collect());
        let placement = placement_of(&fleet);
        let made = plan(&fleet, &PlanTerms::default());
        let slices = slices(&fleet);
        for step in &made.moves {
            let verdict = decide(&placement, &slices[&step.slice].subject());
            prop_assert_eq!(verdict.why, PlacementReason::MustLeave);
            prop_assert_eq!(verdict.shard_id.as_ref(), Some(&step.to));
        }
        let leaving = on.iter().filter(|on| **on == 0).count();
        prop_assert_eq!(made.moves.len(), leaving);
    }

    /// After adding the missing shards, nothing is over its limit.
    #[test]
    fn the_shards_that_are_missing_are_the_ones_that_help(
        on in prop::collection::vec((0usize..4, 1.0f64..20.0, 1.0f64..20.0), 20..80),
    ) {
        let held = on.iter().enumerate();
        let held = held.map(|(n, (on, load, stored))| {
            slice(&format!("tenant-{n}"), *on, votes(*load, stored.round()))
        });
        let full = fleet((0..4).map(shard).collect(), held.collect());
        let made = plan(&full, &PlanTerms::default());
        let missing: usize = made.missing.iter().map(|kind| kind.shards).sum();
        prop_assert_eq!(missing == 0, made.unhelped.is_empty());
        let with = |more: usize| {
            let mut grown = full.clone();
            grown.shards.extend((0..more).map(|n| shard(10 + n)));
            plan(&grown, &PlanTerms::default())
        };
        prop_assert_eq!(with(missing).totals.over_after, 0, "{}", made);
    }
}
