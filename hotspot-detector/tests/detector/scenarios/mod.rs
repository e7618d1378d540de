//! Generated scenarios with known causes: the diagnosis and the cure must be right for every
//! seed, and noise must not be cured.
//!
//! ```sh
//! cargo test -p ballast-hotspot-detector --test detector scenarios -- --nocapture
//! BALLAST_SCENARIO_SEEDS=1000..1100 cargo test …     # others of the same kinds
//! ```

pub(crate) mod kinds;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::Timestamp;
use ballast_domain::bounds::SLICES_PER_TENANT_MAX;
use ballast_hotspot_detector::detect::{Detector, HotspotTransition};
use ballast_hotspot_detector::diagnose::{
    Cure, CureHistory, DiagnosisInputs, DiagnosisSettings, Finding, diagnose,
};
use ballast_hotspot_detector::load::{LoadHistory, Window};
use ballast_hotspot_detector::rules::defaults;
use kinds::{Scenario, ScenarioKind};

/// The result of a scenario.
#[derive(Default)]
struct ScenarioOutcome {
    /// Every cure that was due, the first time it was.
    due: Vec<Finding>,
    /// Causes and cures that were reported without being due.
    reported: BTreeSet<(&'static str, &'static str)>,
    fired: usize,
    /// Findings that still ask for a cure at the end.
    left: usize,
}

fn seeds() -> Vec<u64> {
    let range = std::env::var("BALLAST_SCENARIO_SEEDS").unwrap_or_else(|_| "1..21".to_owned());
    let (first, last) = range
        .split_once("..")
        .expect("BALLAST_SCENARIO_SEEDS is like 1..21");
    (first.parse().unwrap()..last.parse().unwrap()).collect()
}

/// Runs a scenario. `is_closed`: cures are applied and their effect is observed.
fn play(scenario: &mut Scenario, is_closed: bool) -> ScenarioOutcome {
    let rules = defaults().unwrap();
    let settings = DiagnosisSettings::default();
    let (mut history, mut detector) = (LoadHistory::new(rules.spans), Detector::default());
    let mut memory = CureHistory::default();
    let mut outcome = ScenarioOutcome::default();
    let mut running = Vec::new();
    for step in 0..scenario.minutes * 6 {
        history.add_sample(scenario.world.sample(step)).unwrap();
        let now = history.newest().unwrap();
        finish(&mut running, now, scenario, &mut memory);
        memory.judge(now, &settings, |shard| {
            let view = history.view(history.shard(shard)?, Window::Short)?;
            Some(view.fill()?.1)
        });
        let events = detector.pass(&rules, &history);
        outcome.fired += events
            .iter()
            .filter(|event| event.change == HotspotTransition::Fired)
            .count();
        memory.remember(&events);
        let hotspots = detector.hotspots(&rules);
        let limits = BTreeMap::new();
        let inputs = DiagnosisInputs {
            history: &history,
            hotspots: &hotspots,
            limits: &limits,
            memory: &memory,
            settings: &settings,
        };
        let findings = diagnose(inputs);
        outcome.left = findings
            .iter()
            .filter(|finding| finding.cure.acts())
            .count();
        let explained: usize = findings.iter().map(|finding| finding.hotspots.len()).sum();
        assert_eq!(explained, hotspots.len(), "every hotspot is in one finding");
        for finding in findings {
            if !finding.is_due() {
                outcome
                    .reported
                    .insert((finding.cause.name(), finding.cure.name()));
                continue;
            }
            let known = |have: &Finding| {
                have.cure.name() == finding.cure.name() && have.cure.same_subject(&finding.cure)
            };
            if is_closed {
                let id = memory.begin(&finding, now);
                running.push((now.plus_seconds(60), id, finding.cure.clone()));
                outcome.due.push(finding);
            } else if !outcome.due.iter().any(known) && !same_shard_move(&outcome.due, &finding) {
                outcome.due.push(finding);
            }
        }
    }
    outcome
}

/// Without applying the cure the same shard stays hot, and the cheapest slices vary with the
/// noise. That counts as one cure.
fn same_shard_move(due: &[Finding], finding: &Finding) -> bool {
    due.iter().any(|have| {
        have.cause.name() == finding.cause.name()
            && have.cure.name() == "move"
            && finding.cure.name() == "move"
            && have.shards == finding.shards
    })
}

type Running = (
    Timestamp,
    ballast_hotspot_detector::diagnose::CureId,
    ballast_hotspot_detector::diagnose::Cure,
);

fn finish(
    running: &mut Vec<Running>,
    now: Timestamp,
    scenario: &mut Scenario,
    memory: &mut CureHistory,
) {
    running.retain(|(at, id, cure)| {
        if now < *at {
            return true;
        }
        scenario.world.cure(cure);
        memory.record_completion(*id, now);
        false
    });
}

/// The entry in the matrix: the cures found.
fn verdict(scenario: &Scenario, outcome: &ScenarioOutcome) -> (bool, String) {
    let met =
        |truth: &kinds::ExpectedFinding| outcome.due.iter().any(|finding| truth.matches(finding));
    let extra = outcome
        .due
        .iter()
        .filter(|finding| !scenario.truths.iter().any(|truth| truth.matches(finding)));
    let is_reported = scenario
        .reported
        .is_none_or(|wording| outcome.reported.contains(&wording));
    let right = scenario.truths.iter().all(met) && extra.count() == 0 && is_reported;
    let mut words: Vec<_> = outcome
        .due
        .iter()
        .map(|finding| format!("{}: {}", finding.cause.name(), finding.cure.name()))
        .collect();
    words.sort();
    words.dedup();
    if words.is_empty() {
        words.push(match (scenario.reported, is_reported) {
            (Some((cause, cure)), true) => format!("{cause}: {cure}"),
            _ => "no cure".to_owned(),
        });
    }
    (right, words.join(" + "))
}

fn matrix(kinds: &[ScenarioKind], is_closed: bool) {
    let mut wrong = Vec::new();
    let mut table: BTreeMap<ScenarioKind, BTreeMap<String, usize>> = BTreeMap::new();
    let seeds = seeds();
    for kind in kinds {
        for seed in &seeds {
            let mut scenario = kind.make(*seed);
            let outcome = play(&mut scenario, is_closed);
            let (right, word) = verdict(&scenario, &outcome);
            if !right {
                wrong.push(format!("{kind:?} seed {seed}: {word}"));
            }
            *table.entry(*kind).or_default().entry(word).or_default() += 1;
        }
    }
    println!("{:26}found ({} seeds each)", "truth", seeds.len());
    for (kind, found) in &table {
        for (at, (word, many)) in found.iter().enumerate() {
            let name = if at == 0 {
                format!("{kind:?}")
            } else {
                String::new()
            };
            println!("{name:26}{many:4} x {word}");
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n  {}",
        wrong.len(),
        wrong.join("\n  ")
    );
}

#[test]
fn the_ten_kinds_are_distinguished() {
    matrix(&ScenarioKind::TEN, false);
}

#[test]
fn further_kinds_are_distinguished() {
    matrix(&ScenarioKind::MORE, false);
}

/// Applies the cures and checks their effect: one cure each, and no hotspot afterwards.
#[test]
fn one_cure_is_enough() {
    let mut wrong = Vec::new();
    for kind in ScenarioKind::TEN.into_iter().chain(ScenarioKind::MORE) {
        for seed in seeds().into_iter().take(5) {
            let mut scenario = kind.make(seed);
            scenario.minutes = 75;
            let outcome = play(&mut scenario, true);
            let (right, word) = verdict(&scenario, &outcome);
            let cures = outcome.due.len();
            // A slowly cooling counter may lose its lanes in two steps.
            let most = scenario.truths.len() + usize::from(kind == ScenarioKind::CoolCounter);
            let enough = (scenario.truths.len()..=most).contains(&cures);
            let peace = outcome.left == 0;
            if !right || !enough || !peace {
                let cures: Vec<_> = outcome
                    .due
                    .iter()
                    .map(|finding| format!("{} {:?}", finding.at, finding.cure))
                    .collect();
                wrong.push(format!(
                    "{kind:?} seed {seed}: {word}, {} left: {}",
                    outcome.left,
                    cures.join("; ")
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n  {}",
        wrong.len(),
        wrong.join("\n  ")
    );
}

/// A tenant has a maximum number of slices; more are never proposed.
#[test]
fn no_tenant_is_split_beyond_the_most_slices() {
    for last in [SLICES_PER_TENANT_MAX / 2 - 1, SLICES_PER_TENANT_MAX / 2] {
        let mut scenario = ScenarioKind::TenantBiggerThanAnyShard.make(7);
        let big = scenario.truths[0].slice.clone().unwrap();
        let tenants = &mut scenario.world.tenants;
        let tenant = tenants.iter_mut().find(|it| it.slice == big).unwrap();
        tenant.slice.slice = last;
        let outcome = play(&mut scenario, false);
        let splits = outcome.due.iter().filter_map(|it| match it.cure {
            Cure::Split { parts, .. } => Some(parts),
            _ => None,
        });
        let splits: Vec<_> = splits.collect();
        match last < SLICES_PER_TENANT_MAX / 2 {
            true => assert_eq!(splits, [2]),
            false => {
                assert_eq!(splits, [0; 0]);
                assert!(outcome.reported.contains(&("hot tenant", "nothing")));
            }
        }
    }
}

/// A swinging load does not make a hotspot flap.
#[test]
fn a_swing_does_not_flap() {
    for seed in seeds() {
        let mut scenario = ScenarioKind::Oscillating.make(seed);
        scenario.minutes = 120;
        let outcome = play(&mut scenario, false);
        assert!(
            outcome.fired <= 14,
            "seed {seed}: fired {} times in two hours",
            outcome.fired
        );
    }
}
