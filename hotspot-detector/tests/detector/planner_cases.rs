//! Plans for fleets with a known right plan, and their texts.

use ballast_domain::clock::Timestamp;
use ballast_domain::shard::ShardState;
use ballast_hotspot_detector::plan::{
    Approval, Dial, FleetSnapshot, MigrationCause, NoReliefReason, Plan, PlanTerms, Prices,
    TimeSpan, plan,
};

use crate::fleets::{NOW, fleet, pin, shard, shard_id, slice, votes, zone};

fn planned(fleet: &FleetSnapshot) -> Plan {
    plan(fleet, &PlanTerms::default())
}

fn names(plan: &Plan) -> Vec<String> {
    let moves = plan.moves.iter();
    moves
        .map(|step| format!("{} {}>{}", step.slice.tenant_id, step.from, step.to))
        .collect()
}

#[test]
fn the_cheapest_sufficient_tenants_leave() {
    // 95 votes/s with a limit of 80: 25 must leave to reach the goal of 70. The large tenant
    // would be enough at 60 MiB; so would two tenants of 4 and 5 MiB.
    let slices = vec![
        slice("large", 0, votes(55.0, 60.0)),
        slice("lively", 0, votes(15.0, 4.0)),
        slice("busy", 0, votes(12.0, 5.0)),
        slice("idle", 0, votes(13.0, 9.0)),
        slice("other", 1, votes(10.0, 10.0)),
    ];
    let made = planned(&fleet(vec![shard(0), shard(1), shard(2)], slices));
    let mut moved: Vec<&str> = made
        .moves
        .iter()
        .map(|step| step.slice.tenant_id.as_str())
        .collect();
    moved.sort_unstable();
    assert_eq!(moved, ["busy", "lively"]);
    assert_eq!((made.totals.over_before, made.totals.over_after), (1, 0));
    assert!((made.totals.fullest_after - 0.69).abs() < 1e-9);
    assert!(made.missing.is_empty() && made.unhelped.is_empty());
    insta::assert_snapshot!("relief", made.to_string());
}

#[test]
fn a_drained_shard_is_emptied_except_of_tenants_that_may_not_move() {
    let mut shards = vec![shard(0), shard(1), shard(2)];
    shards[0].record.state = ShardState::Draining;
    let mut paused = slice("paused", 0, votes(1.0, 1.0));
    paused.dial = Dial::Pause;
    let mut essential = slice("essential", 0, votes(1.0, 1.0));
    essential.dial = Dial::Essential;
    let mut fresh = slice("fresh", 0, votes(1.0, 1.0));
    fresh.placed_at = NOW;
    let slices = vec![paused, essential, fresh, slice("acme", 0, votes(5.0, 2.0))];
    let terms = PlanTerms {
        prices: Prices {
            per_move: 0.25,
            ..Prices::default()
        },
        approval: Approval {
            bytes_over: Some(1 << 20),
            ..Approval::default()
        },
        ..PlanTerms::default()
    };
    let made = plan(&fleet(shards, slices), &terms);
    assert_eq!(made.moves.len(), 3);
    assert_eq!(made.waiting.len(), 1);
    assert!(made.missing.is_empty());
    insta::assert_snapshot!("drain", made.to_string());
}

#[test]
fn slices_that_wait_for_each_other_go_via_a_third_shard() {
    let full = |name, on, to| {
        let mut full = slice(name, on, votes(70.0, 70.0));
        full.pin = pin(to);
        full
    };
    let slices = vec![full("left", 0, 1), full("right", 1, 0)];
    let made = planned(&fleet(vec![shard(0), shard(1), shard(2)], slices.clone()));
    assert_eq!(made.moves.len(), 3, "{made}");
    assert!(matches!(made.moves[0].cause, MigrationCause::Aside { .. }));
    assert_eq!(made.moves[0].slice, made.moves[2].slice);
    assert_eq!(made.moves[1].waits_for, [0]);
    assert_eq!(made.moves[2].waits_for, [0, 1]);
    let waves: Vec<u32> = made.moves.iter().map(|step| step.wave).collect();
    assert_eq!(waves, [0, 1, 2]);
    insta::assert_snapshot!("ring", made.to_string());

    // Without a third shard, both are blocked.
    let stuck = planned(&fleet(vec![shard(0), shard(1)], slices));
    assert!(stuck.moves.is_empty());
    assert_eq!(stuck.waiting.len(), 2);
    assert!(stuck.waiting[0].why.contains("pinned to shard-1"));
}

#[test]
fn room_is_made_for_a_slice_without_another_target() {
    let mut shards = vec![shard(0), shard(1), shard(2)];
    shards[0].record.zones = vec![zone(0)];
    shards[0].record.state = ShardState::Draining;
    shards[1].record.zones = vec![zone(0)];
    let mut tied = slice("tied", 0, votes(40.0, 40.0));
    tied.zones = vec![zone(0)];
    let slices = vec![
        tied,
        slice("cheap", 1, votes(30.0, 3.0)),
        slice("dear", 1, votes(30.0, 30.0)),
    ];
    let made = planned(&fleet(shards, slices));
    assert_eq!(
        names(&made),
        ["cheap shard-1>shard-2", "tied shard-0>shard-1"]
    );
    assert_eq!(made.moves[1].waits_for, [0], "the room must be there first");
    assert!(made.moves[1].begins_at >= made.moves[0].ends_at);
    insta::assert_snapshot!("room", made.to_string());
}

#[test]
fn a_full_fleet_reports_how_many_shards_are_missing() {
    let mut slices = Vec::new();
    for on in 0..3 {
        for n in 0..19 {
            slices.push(slice(&format!("t-{on}-{n}"), on, votes(5.0, 5.0)));
        }
    }
    let full = fleet(vec![shard(0), shard(1), shard(2)], slices);
    let made = planned(&full);
    assert!(made.moves.is_empty());
    // 3 × 95 = 285 with a goal of 3 × 70: 75 too many, more than one shard's goal of 70.
    assert_eq!(made.missing.len(), 1);
    assert_eq!(made.missing[0].shards, 2);
    insta::assert_snapshot!("missing", made.to_string());

    // With two more shards the fleet is relieved.
    let mut more = full;
    more.shards.extend([shard(3), shard(4)]);
    let cured = planned(&more);
    assert!(cured.missing.is_empty() && cured.unhelped.is_empty());
    assert_eq!(cured.totals.over_after, 0);
}

#[test]
fn a_tenant_bigger_than_any_shard_is_not_moved_and_neither_are_its_neighbours() {
    let slices = vec![
        slice("giant", 0, votes(130.0, 20.0)),
        slice("small", 0, votes(5.0, 1.0)),
        slice("tiny", 0, votes(1.0, 1.0)),
    ];
    let made = planned(&fleet(vec![shard(0), shard(1)], slices));
    assert!(made.moves.is_empty(), "{made}");
    assert!(made.missing.is_empty(), "more shards would not help");
    assert!(
        matches!(&made.unhelped[0].why[0], NoReliefReason::TooBig { slice, .. }
        if slice.tenant_id.as_str() == "giant")
    );
    assert!(matches!(
        made.unhelped[0].why[1],
        NoReliefReason::NotEnough { slices: 2 }
    ));
    insta::assert_snapshot!("giant", made.to_string());
}

#[test]
fn every_reason_not_to_move_is_reported() {
    let mut slices: Vec<_> = (0..6)
        .map(|n| slice(&format!("t-{n}"), 0, votes(16.0, 1.0)))
        .collect();
    slices[0].pin = pin(0);
    slices[1].dial = Dial::Essential;
    slices[2].placed_at = NOW.plus_seconds(-60);
    slices[3].moving_to = Some(shard_id(1));
    slices[4].closed = true;
    let mut terms = PlanTerms::default();
    let freeze = TimeSpan {
        from: NOW.plus_seconds(-60),
        until: NOW.plus_seconds(3_600),
    };
    terms.freezes.insert("t-5".parse().unwrap(), vec![freeze]);
    let made = plan(&fleet(vec![shard(0), shard(1)], slices.clone()), &terms);
    assert!(made.moves.is_empty());
    assert_eq!(made.unhelped[0].why.len(), 6);
    insta::assert_snapshot!("why_not", made.to_string());

    // Once the poll is over, the slice moves.
    let later = FleetSnapshot {
        at: NOW.plus_seconds(3_600),
        ..fleet(vec![shard(0), shard(1)], slices)
    };
    assert_eq!(plan(&later, &terms).moves.len(), 1);
}

#[test]
fn moves_begin_in_windows_and_not_before_a_freeze_is_over() {
    let slices = vec![
        slice("one", 0, votes(50.0, 10.0)),
        slice("two", 0, votes(50.0, 10.0)),
    ];
    let mut shards = vec![shard(0), shard(1), shard(2)];
    shards[0].record.state = ShardState::Draining;
    let mut terms = PlanTerms {
        windows: vec!["daily 01:00-05:00".parse().unwrap()],
        ..PlanTerms::default()
    };
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let freeze = TimeSpan {
        from: at("2026-11-17T00:00:00Z"),
        until: at("2026-11-18T03:00:00Z"),
    };
    terms.freezes.insert("two".parse().unwrap(), vec![freeze]);
    let mut made = plan(&fleet(shards, slices), &terms);
    made.moves.sort_by_key(|step| step.begins_at);
    let begins: Vec<_> = made.moves.iter().map(|step| step.begins_at).collect();
    assert_eq!(NOW, at("2026-11-16T03:33:20Z"), "a window is open");
    assert_eq!(begins[0], NOW);
    // The other would be copied in seconds, long before its freeze begins.
    assert_eq!(begins[1], NOW);
    let slow = PlanTerms {
        pace: ballast_hotspot_detector::plan::MigrationPace {
            seconds_per_move: 86_400,
            ..terms.pace
        },
        ..terms
    };
    let mut shards = vec![shard(0), shard(1), shard(2)];
    shards[0].record.state = ShardState::Draining;
    let again = fleet(
        shards,
        vec![
            slice("one", 0, votes(50.0, 10.0)),
            slice("two", 0, votes(50.0, 10.0)),
        ],
    );
    let made = plan(&again, &slow);
    let two = made
        .moves
        .iter()
        .find(|step| step.slice.tenant_id.as_str() == "two");
    assert_eq!(two.unwrap().begins_at, at("2026-11-18T03:00:00Z"));
}

#[test]
fn a_size_limit_leaves_migrations_for_the_next_plan() {
    let mut shards = vec![shard(0), shard(1)];
    shards[0].record.state = ShardState::Draining;
    let slices = (0..5)
        .map(|n| slice(&format!("t-{n}"), 0, votes(1.0, 10.0)))
        .collect();
    let terms = PlanTerms {
        bytes_max: 25 << 20,
        ..PlanTerms::default()
    };
    let made = plan(&fleet(shards, slices), &terms);
    assert_eq!((made.moves.len(), made.totals.put_off), (2, 3));
    assert_eq!(made.waiting[0].slices, 3);
    assert!(made.missing.is_empty(), "nothing is missing but time");
}

#[test]
fn the_format_of_a_plan_is_pinned() {
    let slices = vec![
        slice("acme", 0, votes(50.0, 10.0)),
        slice("beta", 0, votes(45.0, 20.0)),
    ];
    let made = planned(&fleet(vec![shard(0), shard(1)], slices));
    insta::assert_json_snapshot!("format", made);
}
