//! What would have been found in recorded load: the same rules and the same
//! diagnosis, sample by sample, as if nothing had been done about it.

use std::collections::BTreeMap;

use ballast_domain::{TenantId, Timestamp};

use crate::detect::Detector;
use crate::diagnose::letter::cure_in_words;
use crate::diagnose::{Cure, Finding, Inputs, Memory, Settings, diagnose};
use crate::load::{Book, Sample};
use crate::plan::Fleet;
use crate::rules::Ruleset;

/// Findings that are kept.
const FOUND_MAX: usize = 100;

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replayed {
    /// Each cause and cure of a shard once, in the order of time.
    pub found: Vec<Found>,
    /// Findings that are not among them, because there were too many.
    pub left_out: usize,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// When first.
    pub from: Timestamp,
    /// When last.
    pub until: Timestamp,
    /// Whether its cure was ever due.
    pub is_due: bool,
    /// The finding: when its cure was first due, or as it was last told.
    pub finding: Finding,
}

impl Found {
    fn is_like(&self, finding: &Finding) -> bool {
        let have = &self.finding;
        have.shards == finding.shards
            && have.cause.name() == finding.cause.name()
            && have.cure.name() == finding.cure.name()
    }
}

/// Runs rules and diagnosis over load, which comes in the order of time.
#[must_use]
pub fn replay(
    rules: &Ruleset,
    settings: &Settings,
    limits: &BTreeMap<TenantId, f64>,
    samples: impl IntoIterator<Item = Sample>,
) -> Replayed {
    let mut book = Book::new(rules.spans);
    let (mut detector, mut memory) = (Detector::default(), Memory::default());
    let mut replayed = Replayed::default();
    for sample in samples {
        if book.take(sample).is_err() {
            continue;
        }
        memory.remember(&detector.pass(rules, &book));
        let hotspots = detector.hotspots(rules);
        for finding in diagnose(Inputs {
            book: &book,
            hotspots: &hotspots,
            limits,
            memory: &memory,
            settings,
        }) {
            replayed.note(finding);
        }
    }
    replayed.without_beginnings()
}

impl Replayed {
    /// Takes off a fleet's load what throttles take away that were due: they
    /// come before any move. Says which.
    pub fn count_on(&self, fleet: &mut Fleet) -> Vec<String> {
        let mut said = Vec::new();
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
            said.push(cure_in_words(&finding.cure));
        }
        said
    }

    fn note(&mut self, finding: Finding) {
        let (at, is_due) = (finding.at, finding.is_due());
        if let Some(have) = self.found.iter_mut().find(|have| have.is_like(&finding)) {
            have.until = at;
            if !have.is_due {
                have.finding = finding;
                have.is_due = is_due;
            }
        } else if self.found.len() >= FOUND_MAX {
            self.left_out += 1;
        } else {
            self.found.push(Found {
                from: at,
                until: at,
                is_due,
                finding,
            });
        }
    }

    /// Before something is sure it looks like a spike, and it ends as one that
    /// passes: where a shard has a cure, neither is worth telling.
    fn without_beginnings(mut self) -> Self {
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
