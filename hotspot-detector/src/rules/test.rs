//! Runs rules on recorded load: which fired when and why, and why the others did not.

use std::sync::Arc;

use ballast_domain::Timestamp;

use super::{HotspotRule, Ruleset, SubjectKind};
use crate::detect::{Detector, HotspotEvent, HotspotSubject, HotspotTransition, Reading, explain};
use crate::format::{duration, list};
use crate::load::{LoadHistory, LoadSample, Window};

/// Firings listed per rule; the rest are only counted.
const FIRINGS_MAX: usize = 100;

/// The result of running rules on recorded load.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleTestReport {
    /// The first and the last moment of the load.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Samples read.
    pub samples: usize,
    /// Rejected samples, and why.
    pub refused: Vec<String>,
    /// Each rule, in the order of the file.
    pub rules: Vec<RuleReport>,
}

/// The result of one rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleReport {
    /// Which.
    pub rule: Arc<str>,
    /// How often it fired.
    pub fired: usize,
    /// The first firings.
    pub firings: Vec<Firing>,
    /// The subject on which it held longest without firing, and how long.
    pub closest: Option<(HotspotSubject, u64)>,
    /// Why it did not fire.
    pub why_not: Option<String>,
}

/// One firing of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// The subject.
    pub subject: HotspotSubject,
    /// Since when the condition held.
    pub since: Timestamp,
    /// When it fired.
    pub at: Timestamp,
    /// When it ended, if it did.
    pub until: Option<Timestamp>,
    /// The readings when it fired.
    pub evidence: Vec<Reading>,
}

/// Runs rules over samples in order of time.
#[must_use]
pub fn test(rules: &Ruleset, samples: impl IntoIterator<Item = LoadSample>) -> RuleTestReport {
    let mut history = LoadHistory::new(rules.spans);
    let mut detector = Detector::default();
    let mut run = Run::new(rules);
    for sample in samples {
        let (start, end) = (sample.interval.start, sample.interval.end());
        if let Err(error) = history.add_sample(sample) {
            run.report.refused.push(error.to_string());
            continue;
        }
        run.report.samples += 1;
        let first = run.report.span.map_or(start, |(first, _)| first);
        run.report.span = Some((first, end));
        for event in detector.pass(rules, &history) {
            run.event(event);
        }
    }
    for (report, rule) in run.report.rules.iter_mut().zip(&rules.rules) {
        if report.fired == 0 {
            // A condition that still holds at the end is pending, not passed.
            if let Some((subject, held)) = detector.longest_pending(&rule.name) {
                closest(report, subject, held);
            }
            report.why_not = Some(why_not(rules, rule, report, &history, &detector));
        }
    }
    run.report
}

struct Run {
    report: RuleTestReport,
}

impl Run {
    fn new(rules: &Ruleset) -> Self {
        let report = |rule: &HotspotRule| RuleReport {
            rule: Arc::clone(&rule.name),
            fired: 0,
            firings: Vec::new(),
            closest: None,
            why_not: None,
        };
        Self {
            report: RuleTestReport {
                span: None,
                samples: 0,
                refused: Vec::new(),
                rules: rules.rules.iter().map(report).collect(),
            },
        }
    }

    fn event(&mut self, event: HotspotEvent) {
        let reports = &mut self.report.rules;
        let Some(report) = reports.iter_mut().find(|report| report.rule == event.rule) else {
            return;
        };
        match event.change {
            HotspotTransition::Fired => {
                let since = event.since.unwrap_or(event.at);
                report.fired += 1;
                if report.firings.len() < FIRINGS_MAX {
                    let (subject, at, evidence) = (event.subject, event.at, event.evidence);
                    report.firings.push(Firing {
                        subject,
                        since,
                        at,
                        until: None,
                        evidence,
                    });
                }
            }
            HotspotTransition::Passed => closest(report, event.subject, event.held_ms),
            HotspotTransition::Cleared | HotspotTransition::Gone => {
                let same = |firing: &&mut Firing| firing.subject == event.subject;
                if let Some(firing) = report.firings.iter_mut().rev().find(same) {
                    firing.until = firing.until.or(Some(event.at));
                }
            }
            HotspotTransition::Noticed
            | HotspotTransition::Easing
            | HotspotTransition::Relapsed => {}
        }
    }
}

/// Records how long a rule held, if longer than before.
fn closest(report: &mut RuleReport, subject: HotspotSubject, held: u64) {
    let longest = report.closest.as_ref().map(|(_, longest)| *longest);
    if longest.is_none_or(|longest| held > longest) {
        report.closest = Some((subject, held));
    }
}

fn why_not(
    rules: &Ruleset,
    rule: &HotspotRule,
    report: &RuleReport,
    history: &LoadHistory,
    detector: &Detector,
) -> String {
    if let Some((subject, held)) = &report.closest {
        return format!(
            "its condition held for at most {} (on {subject}) of the required {}",
            duration(*held as f64),
            duration(rule.for_ms as f64)
        );
    }
    if rule.subject != SubjectKind::Shard {
        return format!("its condition never held: {}", rule.when.text());
    }
    // Explain the shard with the highest pressure, the likeliest candidate.
    let pressure = |shard| {
        history
            .view(shard, Window::Short)
            .and_then(|view| view.pressure())
    };
    let hardest = history.shards().max_by(|a, b| {
        pressure(a.1)
            .unwrap_or(0.0)
            .total_cmp(&pressure(b.1).unwrap_or(0.0))
    });
    let Some((shard, _)) = hardest else {
        return "no load was recorded".to_owned();
    };
    let subject = HotspotSubject::Shard {
        shard: shard.clone(),
    };
    let standings = explain(rules, history, detector, &subject);
    let standing = standings.iter().find(|standing| standing.rule == rule.name);
    let words = standing.map_or("", |standing| standing.words.as_str());
    format!("at the end, on {shard}: {words}")
}

/// Formats a report.
#[must_use]
pub fn format_report(report: &RuleTestReport) -> String {
    let mut text = match report.span {
        Some((from, to)) => format!("{} samples from {from} to {to}\n", report.samples),
        None => "no samples\n".to_owned(),
    };
    if !report.refused.is_empty() {
        text.push_str(&format!(
            "{} rejected: {}\n",
            report.refused.len(),
            list(&report.refused)
        ));
    }
    for rule in &report.rules {
        let times = if rule.fired == 1 { "time" } else { "times" };
        text.push_str(&format!("\n{}: fired {} {times}\n", rule.rule, rule.fired));
        if let Some(why_not) = &rule.why_not {
            text.push_str(&format!("  {why_not}\n"));
        }
        for firing in &rule.firings {
            let until = firing
                .until
                .map_or("the end".to_owned(), |until| until.to_string());
            let numbers: Vec<_> = firing
                .evidence
                .iter()
                .map(|reading| format!("{} {}", reading.name, reading.shown))
                .collect();
            text.push_str(&format!(
                "  {} at {} (held since {}), until {until}\n    {}\n",
                firing.subject,
                firing.at,
                firing.since,
                numbers.join(", ")
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Interval, ShardSample, Sketch};
    use crate::resources::Resources;
    use crate::rules::defaults;

    /// An hour of one shard: full and slow from the 10th to the 40th minute, but
    /// for a gap; and once for three minutes.
    fn hour() -> Vec<LoadSample> {
        (0..360)
            .map(|step| {
                let minute = step / 6;
                let slow = (10..40).contains(&minute) || (50..53).contains(&minute);
                let capacity = Resources {
                    storage: 100.0,
                    ..Resources::default()
                };
                let mut shard =
                    ShardSample::new("shard-1".parse().unwrap(), "eu".parse().unwrap(), capacity);
                shard.storage = Some(if minute >= 10 { 84.0 } else { 60.0 });
                let p95 = if slow { 2_600.0 } else { 300.0 };
                shard.query_latency = Sketch::from_percentiles(1_000, 20.0, p95, p95 * 2.0);
                let start = Timestamp::from_unix_ms(1_800_000_000_000 + step * 10_000);
                let measured = !(14..17).contains(&minute);
                let shards = measured.then_some(shard).into_iter().collect();
                LoadSample {
                    interval: Interval { start, ms: 10_000 },
                    shards,
                }
            })
            .collect()
    }

    #[test]
    fn the_report_explains_firings_and_their_absence() {
        let rules = defaults().unwrap();
        let mut samples = hour();
        samples.push(samples[3].clone());
        insta::assert_snapshot!(format_report(&test(&rules, samples)));
    }

    /// Compaction of recorded load does not change which rules fire.
    #[test]
    fn downsampled_load_fires_the_same_rules() {
        let rules = defaults().unwrap();
        let whole: Vec<_> = hour()
            .into_iter()
            .filter(|sample| !sample.shards.is_empty())
            .collect();
        for step_ms in [10_000, 60_000, 300_000] {
            let samples = crate::load::record::downsample(whole.clone(), step_ms);
            let report = test(&rules, samples);
            let fired = |name: &str| {
                let mut rules = report.rules.iter();
                rules.find(|rule| &*rule.rule == name).unwrap().fired
            };
            assert_eq!(fired("slo"), 1, "{step_ms}: {}", format_report(&report));
        }
    }

    #[test]
    fn an_empty_record_is_reported() {
        let report = test(&defaults().unwrap(), []);
        assert_eq!(
            report.rules[0].why_not.as_deref(),
            Some("no load was recorded")
        );
        assert!(format_report(&report).starts_with("no samples"));
    }
}
