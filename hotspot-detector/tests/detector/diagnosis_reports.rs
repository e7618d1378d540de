//! Diagnosis reports of every kind of finding, and the reasons for deferring cures.

use std::collections::BTreeMap;

use ballast_hotspot_detector::detect::{Detector, HotspotSubject, explain};
use ballast_hotspot_detector::diagnose::report::format_report;
use ballast_hotspot_detector::diagnose::{
    CureHistory, CureVerdict, DiagnosisInputs, DiagnosisSettings, Finding, diagnose,
};
use ballast_hotspot_detector::load::LoadHistory;
use ballast_hotspot_detector::rules::{Ruleset, defaults};

use crate::scenarios::kinds::ScenarioKind;
use crate::scenarios::world;

struct ScenarioRun {
    world: world::SimulatedFleet,
    rules: Ruleset,
    history: LoadHistory,
    detector: Detector,
    step: u64,
}

impl ScenarioRun {
    fn new(kind: ScenarioKind, seed: u64) -> Self {
        let rules = defaults().unwrap();
        Self {
            world: kind.make(seed).world,
            history: LoadHistory::new(rules.spans),
            rules,
            detector: Detector::default(),
            step: 0,
        }
    }

    fn step(&mut self, memory: &CureHistory, settings: &DiagnosisSettings) -> Vec<Finding> {
        self.history
            .add_sample(self.world.sample(self.step))
            .unwrap();
        self.step += 1;
        self.detector.pass(&self.rules, &self.history);
        let hotspots = self.detector.hotspots(&self.rules);
        diagnose(DiagnosisInputs {
            history: &self.history,
            hotspots: &hotspots,
            limits: &BTreeMap::new(),
            memory,
            settings,
        })
    }

    /// Runs until a finding matches.
    fn until(&mut self, memory: &CureHistory, wanted: impl Fn(&Finding) -> bool) -> Finding {
        let settings = DiagnosisSettings::default();
        for _ in 0..720 {
            if let Some(finding) = self.step(memory, &settings).into_iter().find(&wanted) {
                return finding;
            }
        }
        panic!("no such finding within two hours");
    }
}

#[test]
fn reports_of_every_kind_of_finding() {
    let none = CureHistory::default();
    let mut reports = String::new();
    for kind in ScenarioKind::TEN.into_iter().chain(ScenarioKind::MORE) {
        let scenario = kind.make(3);
        let wanted: Vec<_> = scenario
            .truths
            .iter()
            .map(|truth| (truth.cause, truth.cure))
            .chain(scenario.reported)
            .collect();
        for (cause, cure) in wanted {
            let finding = ScenarioRun::new(kind, 3).until(&none, |finding| {
                finding.cause.name() == cause
                    && finding.cure.name() == cure
                    && finding.why_not.is_none()
            });
            reports.push_str(&format!("== {kind:?}\n{}\n", format_report(&finding)));
        }
    }
    insta::assert_snapshot!(reports);
}

#[test]
fn the_next_cure_waits_until_the_last_one_is_judged() {
    let settings = DiagnosisSettings::default();
    let mut memory = CureHistory::default();
    let mut run = ScenarioRun::new(ScenarioKind::WarmTenants, 1);
    let first = run.until(&memory, Finding::is_due);
    let id = memory.begin(&first, first.at);
    let acting = |findings: Vec<Finding>| findings.into_iter().find(|finding| finding.cure.acts());
    let deferred = acting(run.step(&memory, &settings)).unwrap();
    assert!(
        deferred
            .why_not
            .unwrap()
            .because
            .contains("is not done yet")
    );
    let done = run.history.newest().unwrap();
    memory.record_completion(id, done);
    let deferred = acting(run.step(&memory, &settings)).unwrap();
    assert!(
        deferred
            .why_not
            .clone()
            .unwrap()
            .because
            .contains("is observed for 10m")
    );
    assert!(
        format_report(&deferred).contains("Not now: the result of the last cure (move"),
        "{}",
        format_report(&deferred)
    );
    // The cure did not help: the same tenants are not moved again.
    for _ in 0..62 {
        run.step(&memory, &settings);
    }
    let judged = memory.judge(run.history.newest().unwrap(), &settings, |_| Some(1.0));
    assert_eq!(judged[0].verdict, Some(CureVerdict::DidNotHelp));
    let moved: Vec<_> = first.cure.slices().into_iter().cloned().collect();
    let next = acting(run.step(&memory, &settings));
    if let Some(next) = next {
        assert!(
            next.cure
                .slices()
                .iter()
                .all(|slice| !moved.contains(slice))
        );
        assert!(
            next.rejected
                .iter()
                .any(|rejected| rejected.because.contains("is not moved again before"))
        );
    }
}

#[test]
fn a_stuck_cure_blocks_only_its_own_shard_and_only_for_a_time() {
    let settings = DiagnosisSettings::default();
    let mut memory = CureHistory::default();
    // A flooding key on one shard, a hot tenant on another.
    let mut run = ScenarioRun::new(ScenarioKind::TwoAtOnce, 2);
    let flood = run.until(&memory, Finding::is_due);
    assert_eq!(flood.cure.name(), "throttle");
    memory.begin(&flood, flood.at);
    // The throttle never finishes. The tenant on the other shard is moved nevertheless.
    let moving = run.until(&memory, Finding::is_due);
    assert_eq!(moving.cure.name(), "move");
    // After a while the stuck cure is given up.
    let late = flood.at.plus_seconds(settings.give_up_ms as i64 / 1_000);
    let judged = memory.judge(late, &settings, |_| Some(0.5));
    assert_eq!(judged[0].verdict, Some(CureVerdict::Unknown));
}

#[test]
fn waits_for_hotspots_that_pass_sooner_than_a_migration() {
    let mut memory = CureHistory::default();
    let mut run = ScenarioRun::new(ScenarioKind::HotTenant, 4);
    let shard = run.world.shards[0].name.clone();
    for lasted_s in [330, 360, 390] {
        memory.record_duration(&shard, lasted_s * 1_000);
    }
    let finding = run.until(&memory, |finding| {
        finding
            .rejected
            .iter()
            .any(|rejected| rejected.cure == "move")
            && finding.evidence.iter().any(|line| line.contains("9 of 10"))
    });
    assert_eq!(finding.cure.name(), "wait");
    // This one does not pass.
    let moving = run.until(&memory, Finding::is_due);
    let lasted = moving.at.unix_ms()
        - moving
            .hotspots
            .iter()
            .map(|spot| spot.since.unix_ms())
            .min()
            .unwrap();
    assert!(lasted >= 390_000, "{lasted}");
}

#[test]
fn explains_rule_by_rule_why_a_shard_is_not_a_hotspot() {
    let mut run = ScenarioRun::new(ScenarioKind::HotTenant, 5);
    let (memory, settings) = (CureHistory::default(), DiagnosisSettings::default());
    let mut text = String::new();
    for step in 0..110 {
        run.step(&memory, &settings);
        if [2, 60, 95, 109].contains(&step) {
            let subject = HotspotSubject::Shard {
                shard: run.world.shards[0].name.clone(),
            };
            text.push_str(&format!("after {} minutes\n", (step + 1) / 6));
            for standing in explain(&run.rules, &run.history, &run.detector, &subject) {
                text.push_str(&format!("  {}: {}\n", standing.rule, standing.words));
            }
        }
    }
    insta::assert_snapshot!(text);
}
