//! What an operator reads: the letter of every kind of finding, and the reasons
//! for doing nothing.

use std::collections::BTreeMap;

use ballast_hotspot_detector::detect::{Detector, HotspotSubject, explain};
use ballast_hotspot_detector::diagnose::report::format_report;
use ballast_hotspot_detector::diagnose::{
    CureHistory, CureVerdict, DiagnosisInputs, DiagnosisSettings, Finding, diagnose,
};
use ballast_hotspot_detector::load::LoadHistory;
use ballast_hotspot_detector::rules::{Ruleset, defaults};

use crate::scenarios::kinds::Kind;
use crate::scenarios::world;

struct Play {
    world: world::World,
    rules: Ruleset,
    book: LoadHistory,
    detector: Detector,
    step: u64,
}

impl Play {
    fn new(kind: Kind, seed: u64) -> Self {
        let rules = defaults().unwrap();
        Self {
            world: kind.make(seed).world,
            book: LoadHistory::new(rules.spans),
            rules,
            detector: Detector::default(),
            step: 0,
        }
    }

    fn step(&mut self, memory: &CureHistory, settings: &DiagnosisSettings) -> Vec<Finding> {
        self.book.take(self.world.sample(self.step)).unwrap();
        self.step += 1;
        self.detector.pass(&self.rules, &self.book);
        let hotspots = self.detector.hotspots(&self.rules);
        diagnose(DiagnosisInputs {
            history: &self.book,
            hotspots: &hotspots,
            limits: &BTreeMap::new(),
            memory,
            settings,
        })
    }

    /// Plays until something is found that is wanted.
    fn until(&mut self, memory: &CureHistory, wanted: impl Fn(&Finding) -> bool) -> Finding {
        let settings = DiagnosisSettings::default();
        for _ in 0..720 {
            if let Some(finding) = self.step(memory, &settings).into_iter().find(&wanted) {
                return finding;
            }
        }
        panic!("it was not found in two hours");
    }
}

#[test]
fn every_kind_of_finding_reads_like_a_letter() {
    let none = CureHistory::default();
    let mut letters = String::new();
    for kind in Kind::TEN.into_iter().chain(Kind::MORE) {
        let scenario = kind.make(3);
        let wanted: Vec<_> = scenario
            .truths
            .iter()
            .map(|truth| (truth.cause, truth.cure))
            .chain(scenario.told)
            .collect();
        for (cause, cure) in wanted {
            let finding = Play::new(kind, 3).until(&none, |finding| {
                finding.cause.name() == cause
                    && finding.cure.name() == cure
                    && finding.why_not.is_none()
            });
            letters.push_str(&format!("== {kind:?}\n{}\n", format_report(&finding)));
        }
    }
    insta::assert_snapshot!(letters);
}

#[test]
fn the_next_cure_waits_until_the_last_one_is_judged() {
    let settings = DiagnosisSettings::default();
    let mut memory = CureHistory::default();
    let mut play = Play::new(Kind::WarmTenants, 1);
    let first = play.until(&memory, Finding::is_due);
    let id = memory.begin(&first, first.at);
    let acting = |findings: Vec<Finding>| findings.into_iter().find(|finding| finding.cure.acts());
    let held = acting(play.step(&memory, &settings)).unwrap();
    assert!(held.why_not.unwrap().because.contains("is not done yet"));
    let done = play.book.newest().unwrap();
    memory.done(id, done);
    let held = acting(play.step(&memory, &settings)).unwrap();
    assert!(
        held.why_not
            .clone()
            .unwrap()
            .because
            .contains("is watched for 10m")
    );
    assert!(
        format_report(&held).contains("Not now: the last cure (move"),
        "{}",
        format_report(&held)
    );
    // Nothing got better, and the same tenants are not moved again.
    for _ in 0..62 {
        play.step(&memory, &settings);
    }
    let judged = memory.judge(play.book.newest().unwrap(), &settings, |_| Some(1.0));
    assert_eq!(judged[0].verdict, Some(CureVerdict::DidNotHelp));
    let moved: Vec<_> = first.cure.slices().into_iter().cloned().collect();
    let next = acting(play.step(&memory, &settings));
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
                .any(|rejected| rejected.because.contains("rests until"))
        );
    }
}

#[test]
fn a_cure_that_is_stuck_holds_up_its_own_shard_for_a_time_and_no_other() {
    let settings = DiagnosisSettings::default();
    let mut memory = CureHistory::default();
    // A flooding key on one shard, a hot tenant on another.
    let mut play = Play::new(Kind::TwoAtOnce, 2);
    let flood = play.until(&memory, Finding::is_due);
    assert_eq!(flood.cure.name(), "throttle");
    memory.begin(&flood, flood.at);
    // The throttle never ends. The tenant on the other shard is moved all the same.
    let moving = play.until(&memory, Finding::is_due);
    assert_eq!(moving.cure.name(), "move");
    // And after a while the stuck one is given up.
    let late = flood.at.plus_seconds(settings.give_up_ms as i64 / 1_000);
    let judged = memory.judge(late, &settings, |_| Some(0.5));
    assert_eq!(judged[0].verdict, Some(CureVerdict::Unknown));
}

#[test]
fn hotspots_that_pass_sooner_than_a_move_are_waited_for() {
    let mut memory = CureHistory::default();
    let mut play = Play::new(Kind::HotTenant, 4);
    let shard = play.world.shards[0].name.clone();
    for lasted_s in [330, 360, 390] {
        memory.ended(&shard, lasted_s * 1_000);
    }
    let told = play.until(&memory, |finding| {
        finding
            .rejected
            .iter()
            .any(|rejected| rejected.cure == "move")
            && finding
                .evidence
                .iter()
                .any(|line| line.contains("nine of ten"))
    });
    assert_eq!(told.cure.name(), "wait");
    // This one does not pass.
    let moving = play.until(&memory, Finding::is_due);
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
fn why_a_shard_is_no_hotspot_is_told_rule_by_rule() {
    let mut play = Play::new(Kind::HotTenant, 5);
    let (memory, settings) = (CureHistory::default(), DiagnosisSettings::default());
    let mut said = String::new();
    for step in 0..110 {
        play.step(&memory, &settings);
        if [2, 60, 95, 109].contains(&step) {
            let subject = HotspotSubject::Shard {
                shard: play.world.shards[0].name.clone(),
            };
            said.push_str(&format!("after {} minutes\n", (step + 1) / 6));
            for standing in explain(&play.rules, &play.book, &play.detector, &subject) {
                said.push_str(&format!("  {}: {}\n", standing.rule, standing.words));
            }
        }
    }
    insta::assert_snapshot!(said);
}
