//! Diagnosis of small fleets made by hand, each with a number that a careless diagnosis gets
//! wrong.

use std::collections::BTreeMap;

use ballast_domain::poll::{ItemId, PollId};
use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};
use ballast_hotspot_detector::detect::{Detector, HotspotSubject, explain, explain_shard};
use ballast_hotspot_detector::diagnose::report::format_report;
use ballast_hotspot_detector::diagnose::{
    Cure, CureHistory, CureVerdict, DiagnosisInputs, DiagnosisSettings, Finding, HotspotCause,
    diagnose,
};
use ballast_hotspot_detector::load::{
    Flow, Interval, ItemName, ItemSample, KeySample, LoadHistory, LoadSample, ShardSample,
    SliceSample,
};
use ballast_hotspot_detector::plan::{PlanTerms, plan};
use ballast_hotspot_detector::resources::Resources;
use ballast_hotspot_detector::rules::{Ruleset, read};
use ballast_hotspot_detector::whatif::{fleet_from_samples, replay};
use serde_json::json;

const CAPACITY: f64 = 1_000.0;

/// A tenant: its name, votes and throttled calls per second.
type Tenant = (&'static str, f64, f64);

#[derive(Clone, Default)]
struct Shard {
    tenants: Vec<Tenant>,
    keys: Vec<KeySample>,
    items: Vec<ItemSample>,
}

fn rule(subject: &str, when: &str) -> Ruleset {
    let rule = json!({ "name": "hot", "subject": subject, "when": when, "for": "1m" });
    read(&json!({ "rule": [rule] })).unwrap()
}

struct DetectorRun {
    rules: Ruleset,
    history: LoadHistory,
    detector: Detector,
    memory: CureHistory,
    settings: DiagnosisSettings,
    limits: BTreeMap<ballast_domain::TenantId, f64>,
    step: i64,
}

impl DetectorRun {
    fn new(rules: Ruleset) -> Self {
        Self {
            history: LoadHistory::new(rules.spans),
            rules,
            detector: Detector::default(),
            memory: CureHistory::default(),
            settings: DiagnosisSettings::default(),
            limits: BTreeMap::new(),
            step: 0,
        }
    }

    fn sample(&mut self, hot: &Shard) -> LoadSample {
        let start = Timestamp::from_unix_ms(1_800_000_000_000 + self.step * 10_000);
        self.step += 1;
        let cool = Shard {
            tenants: vec![("cool-1", 50.0, 0.0), ("cool-2", 50.0, 0.0)],
            ..Shard::default()
        };
        let shards = [("s1", hot), ("s2", &cool)].map(|(name, shard)| sample(name, shard));
        let interval = Interval { start, ms: 10_000 };
        let shards = shards.to_vec();
        LoadSample { interval, shards }
    }

    fn take(&mut self, hot: &Shard) {
        let sample = self.sample(hot);
        self.history.add_sample(sample).unwrap();
    }

    /// Repeats the same load for some minutes and returns the findings at the end.
    fn minutes(&mut self, many: i64, hot: &Shard) -> Vec<Finding> {
        let mut findings = Vec::new();
        for _ in 0..many * 6 {
            self.take(hot);
            let events = self.detector.pass(&self.rules, &self.history);
            self.memory.remember(&events);
            let hotspots = self.detector.hotspots(&self.rules);
            findings = diagnose(DiagnosisInputs {
                history: &self.history,
                hotspots: &hotspots,
                limits: &self.limits,
                memory: &self.memory,
                settings: &self.settings,
            });
        }
        findings
    }
}

fn sample(name: &str, shard: &Shard) -> ShardSample {
    let capacity = Resources {
        votes: CAPACITY,
        storage: 1e12,
        ..Resources::default()
    };
    let mut sample = ShardSample::new(name.parse().unwrap(), "eu".parse().unwrap(), capacity);
    for (tenant, votes, throttles) in &shard.tenants {
        let flow = Flow {
            votes: votes * 10.0,
            throttles: throttles * 10.0,
            ..Flow::default()
        };
        sample.flow.votes += flow.votes;
        sample.flow.throttles += flow.throttles;
        sample.slices.push(SliceSample {
            slice: slice(tenant),
            flow,
            storage: Some(1e9),
            concurrency: 0.0,
        });
    }
    sample.storage = Some(1e9 * shard.tenants.len() as f64);
    sample.keys = shard.keys.clone();
    sample.items = shard.items.clone();
    sample
}

fn slice(tenant: &str) -> SliceId {
    SliceId {
        tenant_id: tenant.parse().unwrap(),
        slice: 0,
    }
}

fn key(tenant: &str, calls: f64, refused: f64) -> KeySample {
    KeySample {
        key: "key-bad".parse().unwrap(),
        tenant: tenant.parse().unwrap(),
        calls: calls * 10.0,
        refused: refused * 10.0,
    }
}

fn item(tenant: &str, votes: f64, lanes: usize) -> ItemSample {
    let poll = PollId::from_number(7);
    ItemSample {
        name: ItemName {
            slice: slice(tenant),
            poll,
            item: ItemId::from_position(poll, 0),
        },
        votes: votes * 10.0,
        lanes: vec![100_000; lanes],
    }
}

fn only(findings: &[Finding]) -> &Finding {
    assert_eq!(findings.len(), 1, "{findings:?}");
    &findings[0]
}

#[test]
fn a_shard_that_stays_slightly_too_full_is_not_a_spike() {
    let mut run = DetectorRun::new(rule("shard", "shard.pressure > 0.75"));
    let hot = Shard {
        tenants: vec![("whale", 640.0, 0.0), ("a", 70.0, 0.0), ("b", 70.0, 0.0)],
        ..Shard::default()
    };
    let findings = run.minutes(4, &hot);
    assert_eq!(only(&findings).cause.name(), "spike");
    let findings = run.minutes(8, &hot);
    let report = only(&findings);
    assert_eq!(
        (report.cause.name(), report.cure.name()),
        ("hot tenant", "move")
    );
    assert!(report.is_due(), "{}", format_report(report));
}

#[test]
fn a_load_that_swings_around_the_limit_is_reported_but_not_cured() {
    let mut run = DetectorRun::new(rule("shard", "shard.pressure > 0.75"));
    let load = |votes| Shard {
        tenants: vec![("whale", votes, 0.0), ("a", 70.0, 0.0), ("b", 70.0, 0.0)],
        ..Shard::default()
    };
    let mut findings = Vec::new();
    for _ in 0..10 {
        run.minutes(2, &load(400.0));
        findings.extend(run.minutes(6, &load(720.0)));
    }
    let actionable: Vec<_> = findings.iter().filter(|it| it.cure.acts()).collect();
    assert!(!actionable.is_empty());
    for finding in actionable {
        let why_not = finding.why_not.as_ref().unwrap();
        assert!(why_not.because.contains("the load swings"), "{why_not:?}");
    }
}

#[test]
fn a_throttled_key_is_not_throttled_again() {
    let mut run = DetectorRun::new(rule("shard", "shard.throttles > 0.3"));
    run.limits.insert("bad".parse().unwrap(), 5.0);
    let hot = Shard {
        tenants: vec![("bad", 5.0, 55.0), ("good", 20.0, 0.0)],
        keys: vec![key("bad", 60.0, 55.0)],
        ..Shard::default()
    };
    let findings = run.minutes(15, &hot);
    let report = only(&findings);
    assert_eq!(
        (report.cause.name(), report.cure.name()),
        ("abusive key", "nothing")
    );
    let letter = format_report(report);
    assert!(
        letter.contains("only 5 of its calls/s pass the current limit"),
        "{letter}"
    );
    assert!(!letter.contains("Expected"), "{letter}");
    // Without a known limit a throttle would not help either.
    run.limits.clear();
    let findings = run.minutes(1, &hot);
    assert_eq!(only(&findings).cure, Cure::Nothing);
}

#[test]
fn a_flood_is_throttled_to_what_the_shard_can_serve() {
    let mut run = DetectorRun::new(rule("shard", "shard.pressure > 0.9"));
    let hot = Shard {
        tenants: vec![("bad", 800.0, 2_000.0), ("a", 75.0, 0.0), ("b", 75.0, 0.0)],
        keys: vec![key("bad", 2_800.0, 2_000.0)],
        ..Shard::default()
    };
    let findings = run.minutes(15, &hot);
    let report = only(&findings);
    assert!(
        matches!(report.cure, Cure::Throttle { to, .. } if (to - 500.0).abs() < 2.0),
        "{report:?}"
    );
    let effect = &report.expected[0];
    assert!((effect.before - 0.95).abs() < 0.01 && (effect.after - 0.65).abs() < 0.01);
    // It did not help: it is not repeated immediately, however short the rest period.
    run.settings.rest_ms = 60_000;
    let cure = run.memory.begin(report, report.at);
    run.memory.record_completion(cure, report.at);
    let judged_at = report.at.plus_seconds(600);
    let judged = run.memory.judge(judged_at, &run.settings, |_| Some(0.95));
    assert_eq!(judged[0].verdict, Some(CureVerdict::DidNotHelp));
    let findings = run.minutes(10, &hot);
    let why_not = only(&findings).why_not.clone().unwrap();
    assert!(why_not.because.contains("did not help"), "{why_not:?}");
    assert_eq!(why_not.until, Some(judged_at.plus_seconds(60)));
}

#[test]
fn a_replay_makes_the_same_findings_as_the_live_detector() {
    let mut run = DetectorRun::new(rule("shard", "shard.pressure > 0.9"));
    let flooded = Shard {
        tenants: vec![("bad", 800.0, 2_000.0), ("a", 75.0, 0.0), ("b", 75.0, 0.0)],
        keys: vec![key("bad", 2_800.0, 2_000.0)],
        ..Shard::default()
    };
    let samples: Vec<_> = (0..120).map(|_| run.sample(&flooded)).collect();
    let (rules, settings) = (&run.rules, &run.settings);
    let mut fleet = fleet_from_samples(&samples, &rules.spans).unwrap().fleet;
    let replayed = replay(rules, settings, &BTreeMap::new(), samples);
    let found: Vec<_> = replayed
        .found
        .iter()
        .map(|it| (it.finding.cause.name(), it.finding.cure.name(), it.is_due))
        .collect();
    assert_eq!(found, [("abusive key", "throttle", true)]);
    assert!(replayed.found[0].until > replayed.found[0].from);
    // No tenant is moved for a throttled flood.
    assert_eq!(plan(&fleet, &PlanTerms::default()).totals.over_before, 1);
    assert_eq!(
        replayed.subtract_throttled_load(&mut fleet),
        ["throttle key-bad to 500 calls/s"]
    );
    assert_eq!(plan(&fleet, &PlanTerms::default()).totals.over_before, 0);
}

#[test]
fn a_load_within_the_limits_is_reported_with_the_limit() {
    let mut run = DetectorRun::new(rule("shard", "shard.pressure > 0.70"));
    let hot = Shard {
        tenants: vec![("whale", 600.0, 0.0), ("a", 60.0, 0.0), ("b", 60.0, 0.0)],
        ..Shard::default()
    };
    let findings = run.minutes(15, &hot);
    let report = format_report(only(&findings));
    assert!(
        matches!(findings[0].cause, HotspotCause::WithinLimits { .. }),
        "{report}"
    );
    assert!(
        report.contains("whale (60 %)") && report.contains("75 %"),
        "{report}"
    );
    assert!(!report.contains("explain"), "{report}");

    let mut run = DetectorRun::new(rule("tenant", "tenant.share > 0.2"));
    let fair = Shard {
        tenants: vec![("whale", 250.0, 0.0)],
        ..Shard::default()
    };
    let findings = run.minutes(15, &fair);
    let report = format_report(only(&findings));
    assert!(
        report.contains("fair share") && !report.contains("no longer holds"),
        "{report}"
    );

    let mut run = DetectorRun::new(rule("item", "item.lane_votes > 3.5"));
    let voted = Shard {
        tenants: vec![("whale", 50.0, 0.0)],
        items: vec![item("whale", 50.0, 10)],
        ..Shard::default()
    };
    let findings = run.minutes(15, &voted);
    let report = format_report(only(&findings));
    assert!(report.contains("0.5 % of the 1,000 votes/s"), "{report}");
    assert!(
        !report.contains("no longer holds") && !report.contains("spike"),
        "{report}"
    );
}

#[test]
fn lane_changes_are_judged_by_the_busiest_lane() {
    let mut run = DetectorRun::new(rule("item", "item.lane_votes > 60.0"));
    run.settings.lane_votes_max = 100.0;
    let voted = |lanes| Shard {
        tenants: vec![("whale", 360.0, 0.0)],
        items: vec![item("whale", 360.0, lanes)],
        ..Shard::default()
    };
    let findings = run.minutes(5, &voted(4));
    let report = only(&findings);
    let Cure::Lanes { to, .. } = report.cure else {
        panic!("{report:?}");
    };
    let text = format_report(report);
    assert!(text.contains("usiest lane: from 90 % to"), "{text}");
    let id = run.memory.begin(report, report.at);
    run.memory.record_completion(id, report.at);
    run.minutes(10, &voted(usize::from(to)));
    let now = run.history.newest().unwrap();
    let judged = run
        .memory
        .judge_by_history(now, &run.settings, &run.history);
    assert_eq!(judged[0].verdict, Some(CureVerdict::Helped), "{judged:?}");
}

#[test]
fn new_shards_are_judged_by_the_fill_of_the_region() {
    let mut run = DetectorRun::new(rule("shard", "shard.pressure > 0.9"));
    // No subset of its tenants fits on another shard.
    let hot = Shard {
        tenants: vec![("a", 720.0, 0.0), ("b", 720.0, 0.0)],
        ..Shard::default()
    };
    let findings = run.minutes(20, &hot);
    let report = only(&findings);
    assert_eq!(
        report.cure.name(),
        "add shards",
        "{}",
        format_report(report)
    );
    let text = format_report(report);
    assert!(
        text.contains("All shards of the region together: from"),
        "{text}"
    );
    let id = run.memory.begin(report, report.at);
    run.memory.record_completion(id, report.at);
    let now = report.at.plus_seconds(601);
    // No shard was added.
    let judged = run
        .memory
        .judge_by_history(now, &run.settings, &run.history);
    assert_eq!(
        judged[0].verdict,
        Some(CureVerdict::DidNotHelp),
        "{judged:?}"
    );
}

#[test]
fn rules_about_tenants_and_items_are_explained_too() {
    let rules = json!({ "rule": [
        { "name": "pressed", "when": "shard.pressure > 0.9" },
        { "name": "greedy", "subject": "tenant", "when": "tenant.share > 0.3" },
        { "name": "voted", "subject": "item", "when": "item.lane_votes > 600.0", "for": "1m" },
    ]});
    let mut run = DetectorRun::new(read(&rules).unwrap());
    let busy = Shard {
        tenants: vec![("whale", 250.0, 0.0), ("small", 5.0, 0.0)],
        items: vec![item("whale", 200.0, 10)],
        ..Shard::default()
    };
    run.minutes(3, &busy);
    let shard: ShardId = "s1".parse().unwrap();
    let explained = explain_shard(&run.rules, &run.history, &run.detector, &shard);
    let report: Vec<_> = explained
        .iter()
        .map(|(subject, rule)| format!("{} {subject}: {}", rule.rule, rule.words))
        .collect();
    assert_eq!(report.len(), 3, "{report:?}");
    assert!(report[1].starts_with("greedy whale/0 on s1: tenant.share > 0.3 does not hold"));
    assert!(report[2].contains("item.lane_votes is 20/s"), "{report:?}");
}

#[test]
fn a_condition_that_was_not_evaluated_yet_is_explained_as_such() {
    let mut run = DetectorRun::new(rule("shard", "shard.pressure > 0.80"));
    let hot = Shard {
        tenants: vec![("whale", 900.0, 0.0)],
        ..Shard::default()
    };
    for _ in 0..12 {
        run.take(&hot);
    }
    let shard: ShardId = "s1".parse().unwrap();
    let subject = HotspotSubject::Shard { shard };
    // No pass ran, because detection is off.
    let text = explain(&run.rules, &run.history, &Detector::default(), &subject);
    assert!(
        !text[0].words.contains("does not hold"),
        "{}",
        text[0].words
    );
    assert!(
        text[0].words.starts_with("the condition holds now"),
        "{}",
        text[0].words
    );
}
