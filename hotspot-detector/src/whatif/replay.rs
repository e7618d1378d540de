//! Replays recorded load through rules and diagnosis, sample by sample, without applying
//! cures.

use std::collections::BTreeMap;

use ballast_domain::{TenantId, Timestamp};

use crate::detect::Detector;
use crate::diagnose::report::describe_cure;
use crate::diagnose::{Cure, CureHistory, DiagnosisInputs, DiagnosisSettings, Finding, diagnose};
use crate::load::{LoadHistory, LoadSample};
use crate::plan::FleetSnapshot;
use crate::rules::Ruleset;

/// The most findings recorded.
const FINDINGS_MAX: usize = 100;

/// The findings of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayReport {
    /// Each cause and cure of a shard once, in order of time.
    pub found: Vec<ReplayFinding>,
    /// Findings dropped because there were too many.
    pub left_out: usize,
}

/// A finding of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayFinding {
    /// When it was made first.
    pub from: Timestamp,
    /// When it was made last.
    pub until: Timestamp,
    /// Whether its cure was ever due.
    pub is_due: bool,
    /// The finding when its cure was first due, or the last one.
    pub finding: Finding,
}

impl ReplayFinding {
    fn is_like(&self, finding: &Finding) -> bool {
        let have = &self.finding;
        have.shards == finding.shards
            && have.cause.name() == finding.cause.name()
            && have.cure.name() == finding.cure.name()
    }
}

/// Runs rules and diagnosis over samples in order of time.
#[must_use]
pub fn replay(
    rules: &Ruleset,
    settings: &DiagnosisSettings,
    limits: &BTreeMap<TenantId, f64>,
    samples: impl IntoIterator<Item = LoadSample>,
) -> ReplayReport {
    let mut history = LoadHistory::new(rules.spans);
    let (mut detector, mut memory) = (Detector::default(), CureHistory::default());
    let mut replayed = ReplayReport::default();
    for sample in samples {
        if history.add_sample(sample).is_err() {
            continue;
        }
        memory.remember(&detector.pass(rules, &history));
        let hotspots = detector.hotspots(rules);
        for finding in diagnose(DiagnosisInputs {
            history: &history,
            hotspots: &hotspots,
            limits,
            memory: &memory,
            settings,
        }) {
            replayed.record(finding);
        }
    }
    replayed.drop_transients()
}

impl ReplayReport {
    /// Subtracts the load that due throttles would remove, because they come before any
    /// migration. Returns their descriptions.
    pub fn subtract_throttled_load(&self, fleet: &mut FleetSnapshot) -> Vec<String> {
        let mut throttles = Vec::new();
        for found in self.found.iter().filter(|found| found.is_due) {
            let finding = &found.finding;
            let (Cure::Throttle { tenant, .. }, Some(effect)) =
                (&finding.cure, finding.expected.first())
            else {
                continue;
            };
            let Some(dimension) = effect.dimension else {
                continue;
            };
            let shard = fleet.shards.iter().find(|it| *it.id() == effect.shard);
            let capacity = shard.map_or(0.0, |shard| shard.capacity[dimension]);
            let mut less = (effect.before - effect.after) * capacity;
            for slice in &mut fleet.slices {
                if slice.shard_id == effect.shard && slice.id.tenant_id == *tenant {
                    let demand = &mut slice.demand[dimension];
                    let taken = less.clamp(0.0, *demand);
                    *demand -= taken;
                    less -= taken;
                }
            }
            throttles.push(describe_cure(&finding.cure));
        }
        throttles
    }

    fn record(&mut self, finding: Finding) {
        let (at, is_due) = (finding.at, finding.is_due());
        if let Some(have) = self.found.iter_mut().find(|have| have.is_like(&finding)) {
            have.until = at;
            if !have.is_due {
                have.finding = finding;
                have.is_due = is_due;
            }
        } else if self.found.len() >= FINDINGS_MAX {
            self.left_out += 1;
        } else {
            self.found.push(ReplayFinding {
                from: at,
                until: at,
                is_due,
                finding,
            });
        }
    }

    /// Drops the waiting findings before and after a due cure: an unconfirmed hotspot and an
    /// easing one look like spikes.
    fn drop_transients(mut self) -> Self {
        let cured: Vec<_> = self
            .found
            .iter()
            .filter(|found| found.is_due)
            .flat_map(|found| found.finding.shards.clone())
            .collect();
        self.found.retain(|found| {
            let waits = found.finding.cure.name() == "wait";
            let of_cured = found.finding.shards.iter().all(|it| cured.contains(it));
            !(waits && of_cured)
        });
        self
    }
}
