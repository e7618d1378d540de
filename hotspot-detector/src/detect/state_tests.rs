//! Tests of all state transitions and their invariants.

use proptest::prelude::*;

use super::*;

const STEP: u64 = 10_000;

fn at(step: u64) -> Timestamp {
    Timestamp::from_unix_ms((1_000_000 + step * STEP) as i64)
}

fn timing(for_steps: u64, clear_steps: u64, cooldown_steps: u64) -> Timing {
    Timing {
        for_ms: for_steps * STEP,
        clear_for_ms: clear_steps * STEP,
        cooldown_ms: cooldown_steps * STEP,
        step_ms: STEP,
        gap_ms: STEP / 2,
    }
}

/// The interval of the step that ends at this time.
fn to(step: u64) -> Interval {
    Interval {
        start: Timestamp::from_unix_ms(at(step).unix_ms() - STEP as i64),
        ms: STEP,
    }
}

/// `1` hot, `0` eased, `~` neither, `?` not measured, `x` no evaluation.
fn run(script: &str, timing: &Timing) -> Vec<(u64, HotspotTransition)> {
    let mut state = RuleState::QUIET;
    let mut changes = Vec::new();
    for (step, what) in (0..).zip(script.chars()) {
        let (when, over) = match what {
            '1' => (Truth::True, Truth::False),
            '0' => (Truth::False, Truth::True),
            '~' => (Truth::False, Truth::False),
            '?' => (Truth::Unknown, Truth::Unknown),
            _ => continue,
        };
        let (next, change) = apply(state, to(step), when, over, timing);
        state = next;
        changes.extend(change.map(|change| (step, change)));
    }
    changes
}

#[test]
fn every_transition() {
    let held = |ms| HoldTime {
        ms,
        seen: at(9),
        unbroken: true,
    };
    let (since, fired) = (at(0), at(3));
    let states = [
        ("quiet", RuleState::QUIET),
        (
            "cooling",
            RuleState::Quiet {
                until: Some(at(20)),
            },
        ),
        (
            "pending",
            RuleState::Pending {
                since,
                held: held(0),
            },
        ),
        (
            "ripe",
            RuleState::Pending {
                since,
                held: held(2 * STEP),
            },
        ),
        (
            "firing",
            RuleState::Firing {
                since,
                fired,
                seen: at(9),
            },
        ),
        (
            "clearing",
            RuleState::Clearing {
                since,
                fired,
                held: held(0),
            },
        ),
        (
            "nearly clear",
            RuleState::Clearing {
                since,
                fired,
                held: held(STEP),
            },
        ),
    ];
    let mut table = String::new();
    for (name, state) in states {
        for (what, when, over) in [
            ("hot", Truth::True, Truth::False),
            ("neither", Truth::False, Truth::False),
            ("over", Truth::False, Truth::True),
            ("unknown", Truth::Unknown, Truth::Unknown),
        ] {
            let (next, change) = apply(state, to(10), when, over, &timing(3, 2, 5));
            let shown = match next {
                RuleState::Quiet { until: None } => "quiet".to_owned(),
                RuleState::Quiet { until: Some(_) } => "cooling".to_owned(),
                RuleState::Pending { held, .. } => format!("pending {}s", held.ms / 1_000),
                RuleState::Firing { .. } => "firing".to_owned(),
                RuleState::Clearing { held, .. } => format!("clearing {}s", held.ms / 1_000),
            };
            let change = change.map_or(String::new(), |change| format!(" ({change:?})"));
            table.push_str(&format!("{name:12} + {what:8} -> {shown}{change}\n"));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_rule_fires_after_its_time_and_clears_after_its_own() {
    let changes = run("01111110~000001111", &timing(3, 2, 0));
    let expected = [
        (1, HotspotTransition::Noticed),
        (4, HotspotTransition::Fired),
        (7, HotspotTransition::Easing),
        (8, HotspotTransition::Relapsed),
        (9, HotspotTransition::Easing),
        (11, HotspotTransition::Cleared),
        (14, HotspotTransition::Noticed),
        (17, HotspotTransition::Fired),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_gap_neither_fires_nor_clears_and_does_not_count() {
    // After a gap longer than `for` it has to hold anew.
    assert_eq!(
        run("111????11", &timing(3, 1, 0)),
        [(0, HotspotTransition::Noticed)]
    );
    let with_gap = run("111??11", &timing(3, 1, 0));
    assert_eq!(
        with_gap.last(),
        Some(&(6, HotspotTransition::Fired)),
        "the gap of two is left out"
    );
    let not_evaluated = run("111xx11", &timing(3, 1, 0));
    assert_eq!(not_evaluated, with_gap);
    assert_eq!(
        run("1111????????????????????", &timing(3, 1, 0)).last(),
        Some(&(3, HotspotTransition::Fired))
    );
    assert_eq!(
        run("111100???????0", &timing(3, 3, 0)).last(),
        Some(&(4, HotspotTransition::Easing))
    );
}

/// Compacted records have long intervals: a five-minute interval counts as five minutes, and
/// consecutive intervals have no gap.
#[test]
fn a_longer_interval_counts_for_its_own_length() {
    let minutes = |minute: i64, many: u64| Interval {
        start: Timestamp::from_unix_ms(minute * 60_000),
        ms: many * 60_000,
    };
    let hot = |state, over| apply(state, over, Truth::True, Truth::False, &timing(30, 30, 0));
    // One long interval fires a rule that needs less time than its length.
    let (state, change) = hot(RuleState::QUIET, minutes(0, 10));
    assert_eq!(change, Some(HotspotTransition::Fired));
    assert_eq!(state.since(), Some(Timestamp::from_unix_ms(10_000)));
    // Of a longer rule they are added up, and a gap is left out.
    let (state, change) = hot(RuleState::QUIET, minutes(0, 1));
    assert_eq!(change, Some(HotspotTransition::Noticed));
    let (state, _) = hot(state, minutes(1, 2));
    assert!(matches!(state, RuleState::Pending { held, .. } if held.ms == 170_000));
    let (state, _) = hot(state, minutes(5, 1));
    assert!(matches!(state, RuleState::Pending { held, .. } if held.ms == 220_000));
    let (state, change) = hot(state, minutes(6, 2));
    assert_eq!(change, Some(HotspotTransition::Fired));
    let over = |state, over| apply(state, over, Truth::False, Truth::True, &timing(30, 30, 0));
    let (state, change) = over(state, minutes(8, 4));
    assert_eq!(change, Some(HotspotTransition::Easing));
    assert_eq!(
        over(state, minutes(12, 4)).1,
        Some(HotspotTransition::Cleared)
    );
}

#[test]
fn the_cooldown_is_kept() {
    let changes = run("1100001111111", &timing(1, 1, 5));
    let fired: Vec<_> = changes
        .iter()
        .filter(|(_, change)| *change == HotspotTransition::Fired)
        .collect();
    // Cleared at 3, cooling until 8.
    assert_eq!(
        fired,
        [
            &(1, HotspotTransition::Fired),
            &(9, HotspotTransition::Fired)
        ]
    );
}

#[test]
fn without_times_it_fires_and_clears_at_once() {
    let changes = run("0101", &timing(0, 0, 0));
    assert_eq!(
        changes,
        [
            (1, HotspotTransition::Fired),
            (2, HotspotTransition::Cleared),
            (3, HotspotTransition::Fired)
        ]
    );
}

proptest! {
    #[test]
    fn it_does_not_flap(
        script in "[10~?x]{0,200}",
        for_steps in 0..6_u64,
        clear_steps in 0..6_u64,
        cooldown in 0..6_u64,
    ) {
        let changes = run(&script, &timing(for_steps, clear_steps, cooldown));
        let mut last_fired: Option<u64> = None;
        let mut last_cleared: Option<u64> = None;
        for (step, change) in changes {
            match change {
                HotspotTransition::Fired => {
                    prop_assert!(last_fired <= last_cleared, "fired twice in a row");
                    if let Some(cleared) = last_cleared {
                        prop_assert!(step >= cleared + cooldown + for_steps);
                    }
                    // The condition held at every step that was counted.
                    prop_assert_eq!(script.as_bytes()[step as usize], b'1');
                    last_fired = Some(step);
                }
                HotspotTransition::Cleared => {
                    let fired = last_fired.unwrap();
                    prop_assert!(step >= fired + clear_steps);
                    prop_assert_eq!(script.as_bytes()[step as usize], b'0');
                    last_cleared = Some(step);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn unknown_values_change_nothing(script in "[10~?x]{0,60}", gap in "[?x]{1,60}") {
        let timing = timing(3, 2, 4);
        let before = run(&script, &timing);
        let after = run(&format!("{script}{gap}"), &timing);
        prop_assert_eq!(before, after);
    }

    #[test]
    fn time_only_goes_forward(script in "[10~]{1,40}", back in 0..40_u64) {
        let timing = timing(2, 2, 2);
        let mut state = RuleState::QUIET;
        for (step, what) in (100..).zip(script.chars()) {
            let hot = Truth::from(what == '1');
            (state, _) = apply(state, to(step), hot, Truth::from(what == '0'), &timing);
        }
        if state.last_judged().is_some() {
            let late = apply(state, to(100_u64.saturating_sub(back)), Truth::True, Truth::False, &timing);
            prop_assert_eq!(late, (state, None));
        }
    }
}
