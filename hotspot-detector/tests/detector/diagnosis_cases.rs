//! Letters that say only what is so: small fleets made by hand, each with a
//! number that a careless diagnosis gets wrong.

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

/// A tenant: its name, votes and throttles a second.
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

struct Play {
    rules: Ruleset,
    book: LoadHistory,
    detector: Detector,
    memory: CureHistory,
    settings: DiagnosisSettings,
    limits: BTreeMap<ballast_domain::TenantId, f64>,
    step: i64,
}

impl Play {
    fn new(rules: Ruleset) -> Self {
        Self {
            book: LoadHistory::new(rules.spans),
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
        self.book.take(sample).unwrap();
    }

    /// So many minutes of the same; what is found at the end of them.
    fn minutes(&mut self, many: i64, hot: &Shard) -> Vec<Finding> {
        let mut findings = Vec::new();
        for _ in 0..many * 6 {
            self.take(hot);
            let events = self.detector.pass(&self.rules, &self.book);
            self.memory.remember(&events);
            let hotspots = self.detector.hotspots(&self.rules);
            findings = diagnose(DiagnosisInputs {
                history: &self.book,
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
fn what_stays_a_little_too_full_is_no_spike() {
    let mut play = Play::new(rule("shard", "shard.pressure > 0.75"));
    let hot = Shard {
        tenants: vec![("whale", 640.0, 0.0), ("a", 70.0, 0.0), ("b", 70.0, 0.0)],
        ..Shard::default()
    };
    let findings = play.minutes(4, &hot);
    assert_eq!(only(&findings).cause.name(), "spike");
    let findings = play.minutes(8, &hot);
    let told = only(&findings);
    assert_eq!(
        (told.cause.name(), told.cure.name()),
        ("hot tenant", "move")
    );
    assert!(told.is_due(), "{}", format_report(told));
}

#[test]
fn what_swings_around_too_full_is_told_and_left() {
    let mut play = Play::new(rule("shard", "shard.pressure > 0.75"));
    let of = |votes| Shard {
        tenants: vec![("whale", votes, 0.0), ("a", 70.0, 0.0), ("b", 70.0, 0.0)],
        ..Shard::default()
    };
    let mut told = Vec::new();
    for _ in 0..10 {
        play.minutes(2, &of(400.0));
        told.extend(play.minutes(6, &of(720.0)));
    }
    let told: Vec<_> = told.iter().filter(|it| it.cure.acts()).collect();
    assert!(!told.is_empty());
    for finding in told {
        let why_not = finding.why_not.as_ref().unwrap();
        assert!(why_not.because.contains("it swings"), "{why_not:?}");
    }
}

#[test]
fn a_key_that_is_held_back_already_is_not_throttled_once_more() {
    let mut play = Play::new(rule("shard", "shard.throttles > 0.3"));
    play.limits.insert("bad".parse().unwrap(), 5.0);
    let hot = Shard {
        tenants: vec![("bad", 5.0, 55.0), ("good", 20.0, 0.0)],
        keys: vec![key("bad", 60.0, 55.0)],
        ..Shard::default()
    };
    let findings = play.minutes(15, &hot);
    let told = only(&findings);
    assert_eq!(
        (told.cause.name(), told.cure.name()),
        ("abusive key", "nothing")
    );
    let letter = format_report(told);
    assert!(
        letter.contains("only 5 of its calls a second are let through already"),
        "{letter}"
    );
    assert!(!letter.contains("Expected"), "{letter}");
    // No limit is known, and still nothing is to be gained.
    play.limits.clear();
    let findings = play.minutes(1, &hot);
    assert_eq!(only(&findings).cure, Cure::Nothing);
}

#[test]
fn a_flood_is_throttled_to_what_the_shard_bears_and_not_to_what_it_is() {
    let mut play = Play::new(rule("shard", "shard.pressure > 0.9"));
    let hot = Shard {
        tenants: vec![("bad", 800.0, 2_000.0), ("a", 75.0, 0.0), ("b", 75.0, 0.0)],
        keys: vec![key("bad", 2_800.0, 2_000.0)],
        ..Shard::default()
    };
    let findings = play.minutes(15, &hot);
    let told = only(&findings);
    assert!(
        matches!(told.cure, Cure::Throttle { to, .. } if (to - 500.0).abs() < 2.0),
        "{told:?}"
    );
    let effect = &told.expected[0];
    assert!((effect.before - 0.95).abs() < 0.01 && (effect.after - 0.65).abs() < 0.01);
    // It did not help: it is not done again at once, however short the rest.
    play.settings.rest_ms = 60_000;
    let cure = play.memory.begin(told, told.at);
    play.memory.done(cure, told.at);
    let judged_at = told.at.plus_seconds(600);
    let judged = play.memory.judge(judged_at, &play.settings, |_| Some(0.95));
    assert_eq!(judged[0].verdict, Some(CureVerdict::DidNotHelp));
    let findings = play.minutes(10, &hot);
    let why_not = only(&findings).why_not.clone().unwrap();
    assert!(why_not.because.contains("did not help"), "{why_not:?}");
    assert_eq!(why_not.until, Some(judged_at.plus_seconds(60)));
}

#[test]
fn a_replay_finds_what_a_watchman_would_have() {
    let mut play = Play::new(rule("shard", "shard.pressure > 0.9"));
    let flooded = Shard {
        tenants: vec![("bad", 800.0, 2_000.0), ("a", 75.0, 0.0), ("b", 75.0, 0.0)],
        keys: vec![key("bad", 2_800.0, 2_000.0)],
        ..Shard::default()
    };
    let samples: Vec<_> = (0..120).map(|_| play.sample(&flooded)).collect();
    let (rules, settings) = (&play.rules, &play.settings);
    let mut fleet = fleet_from_samples(&samples, &rules.spans).unwrap().fleet;
    let replayed = replay(rules, settings, &BTreeMap::new(), samples);
    let found: Vec<_> = replayed
        .found
        .iter()
        .map(|it| (it.finding.cause.name(), it.finding.cure.name(), it.is_due))
        .collect();
    assert_eq!(found, [("abusive key", "throttle", true)]);
    assert!(replayed.found[0].until > replayed.found[0].from);
    // Nobody is moved for a flood that is throttled.
    assert_eq!(plan(&fleet, &PlanTerms::default()).totals.over_before, 1);
    assert_eq!(
        replayed.subtract_throttled_load(&mut fleet),
        ["let key-bad through 500 times a second"]
    );
    assert_eq!(plan(&fleet, &PlanTerms::default()).totals.over_before, 0);
}

#[test]
fn what_a_rule_calls_hot_and_is_borne_is_told_with_what_would_be_too_much() {
    let mut play = Play::new(rule("shard", "shard.pressure > 0.70"));
    let hot = Shard {
        tenants: vec![("whale", 600.0, 0.0), ("a", 60.0, 0.0), ("b", 60.0, 0.0)],
        ..Shard::default()
    };
    let findings = play.minutes(15, &hot);
    let told = format_report(only(&findings));
    assert!(
        matches!(findings[0].cause, HotspotCause::Borne { .. }),
        "{told}"
    );
    assert!(
        told.contains("whale/0 (60 %)") && told.contains("75 %"),
        "{told}"
    );
    assert!(!told.contains("explain"), "{told}");

    let mut play = Play::new(rule("tenant", "tenant.share > 0.2"));
    let fair = Shard {
        tenants: vec![("whale", 250.0, 0.0)],
        ..Shard::default()
    };
    let findings = play.minutes(15, &fair);
    let told = format_report(only(&findings));
    assert!(
        told.contains("fair part") && !told.contains("looks over"),
        "{told}"
    );

    let mut play = Play::new(rule("item", "item.lane_votes > 3.5"));
    let voted = Shard {
        tenants: vec![("whale", 50.0, 0.0)],
        items: vec![item("whale", 50.0, 10)],
        ..Shard::default()
    };
    let findings = play.minutes(15, &voted);
    let told = format_report(only(&findings));
    assert!(told.contains("0.5 % of the 1,000 votes/s"), "{told}");
    assert!(
        !told.contains("looks over") && !told.contains("spike"),
        "{told}"
    );
}

#[test]
fn lanes_are_promised_and_judged_by_what_a_lane_takes() {
    let mut play = Play::new(rule("item", "item.lane_votes > 60.0"));
    play.settings.lane_votes_max = 100.0;
    let voted = |lanes| Shard {
        tenants: vec![("whale", 360.0, 0.0)],
        items: vec![item("whale", 360.0, lanes)],
        ..Shard::default()
    };
    let findings = play.minutes(5, &voted(4));
    let told = only(&findings);
    let Cure::Lanes { to, .. } = told.cure else {
        panic!("{told:?}");
    };
    let said = format_report(told);
    assert!(said.contains("busiest lane goes from 90 % to"), "{said}");
    let id = play.memory.begin(told, told.at);
    play.memory.done(id, told.at);
    play.minutes(10, &voted(usize::from(to)));
    let now = play.book.newest().unwrap();
    let judged = play.memory.judge_by(now, &play.settings, &play.book);
    assert_eq!(judged[0].verdict, Some(CureVerdict::Helped), "{judged:?}");
}

#[test]
fn new_shards_are_promised_and_judged_by_how_full_the_region_is() {
    let mut play = Play::new(rule("shard", "shard.pressure > 0.9"));
    // No tenant of it has room beside the others, in any choice.
    let hot = Shard {
        tenants: vec![("a", 720.0, 0.0), ("b", 720.0, 0.0)],
        ..Shard::default()
    };
    let findings = play.minutes(20, &hot);
    let told = only(&findings);
    assert_eq!(told.cure.name(), "add shards", "{}", format_report(told));
    let said = format_report(told);
    assert!(
        said.contains("All shards of the region together go from"),
        "{said}"
    );
    let id = play.memory.begin(told, told.at);
    play.memory.done(id, told.at);
    let now = told.at.plus_seconds(601);
    // None came.
    let judged = play.memory.judge_by(now, &play.settings, &play.book);
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
    let mut play = Play::new(read(&rules).unwrap());
    let busy = Shard {
        tenants: vec![("whale", 250.0, 0.0), ("small", 5.0, 0.0)],
        items: vec![item("whale", 200.0, 10)],
        ..Shard::default()
    };
    play.minutes(3, &busy);
    let shard: ShardId = "s1".parse().unwrap();
    let told = explain_shard(&play.rules, &play.book, &play.detector, &shard);
    let told: Vec<_> = told
        .iter()
        .map(|(subject, standing)| format!("{} {subject}: {}", standing.rule, standing.words))
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1].starts_with("greedy whale/0 on s1: tenant.share > 0.3 does not hold"));
    assert!(told[2].contains("item.lane_votes is 20/s"), "{told:?}");
}

#[test]
fn a_rule_that_holds_and_was_not_judged_is_not_said_to_not_hold() {
    let mut play = Play::new(rule("shard", "shard.pressure > 0.80"));
    let hot = Shard {
        tenants: vec![("whale", 900.0, 0.0)],
        ..Shard::default()
    };
    for _ in 0..12 {
        play.take(&hot);
    }
    let shard: ShardId = "s1".parse().unwrap();
    let subject = HotspotSubject::Shard { shard };
    // Nobody looks: the mode is off.
    let said = explain(&play.rules, &play.book, &Detector::default(), &subject);
    assert!(
        !said[0].words.contains("does not hold"),
        "{}",
        said[0].words
    );
    assert!(
        said[0].words.starts_with("the condition holds now"),
        "{}",
        said[0].words
    );
}
