//! The diagnosis of all hotspots at one moment. Shards are diagnosed independently, so a
//! problem on one never delays the cure of another.

use std::collections::BTreeMap;

use ballast_domain::{RegionId, ShardId, TenantId};

use super::facts::MeasuredFleet;
use super::finding::Finding;
use super::memory::CureHistory;
use super::region;
use super::settings::DiagnosisSettings;
use super::shard::ShardDiagnosis;
use crate::detect::Hotspot;
use crate::load::LoadHistory;

/// The inputs of a diagnosis.
#[derive(Clone, Copy)]
pub struct DiagnosisInputs<'a> {
    /// The load.
    pub history: &'a LoadHistory,
    /// The hotspots that the rules detected.
    pub hotspots: &'a [Hotspot],
    /// Rate limits of tenants, in calls per second.
    pub limits: &'a BTreeMap<TenantId, f64>,
    /// Earlier cures.
    pub memory: &'a CureHistory,
    /// Limits and prices.
    pub settings: &'a DiagnosisSettings,
}

/// Diagnoses hotspots. Every hotspot is in exactly one finding.
#[must_use]
pub fn diagnose(inputs: DiagnosisInputs<'_>) -> Vec<Finding> {
    let Some(now) = inputs
        .history
        .newest()
        .filter(|_| !inputs.hotspots.is_empty())
    else {
        return Vec::new();
    };
    let fleet = MeasuredFleet::new(inputs.history);
    let mut by_shard: BTreeMap<&ShardId, Vec<Hotspot>> = BTreeMap::new();
    for hotspot in inputs.hotspots {
        let shard = hotspot.subject.shard();
        by_shard.entry(shard).or_default().push(hotspot.clone());
    }
    let mut findings = Vec::new();
    let mut full: BTreeMap<RegionId, Vec<(ShardId, Vec<Hotspot>)>> = BTreeMap::new();
    for (name, hotspots) in by_shard {
        let mut diagnosis = ShardDiagnosis {
            inputs,
            fleet: &fleet,
            now,
            name,
            findings: Vec::new(),
            throttled: Vec::new(),
        };
        if let Some(rest) = diagnosis.diagnose_shard(hotspots)
            && let Some(facts) = fleet.shards.get(name)
        {
            let region = facts.history.region().clone();
            full.entry(region).or_default().push((name.clone(), rest));
        }
        findings.append(&mut diagnosis.findings);
    }
    let is_full = |region: &RegionId| region::full(&fleet, region, inputs.settings.level).is_some();
    let whole_fleet = fleet
        .shards
        .values()
        .all(|facts| is_full(facts.history.region()));
    for (region, shards) in full {
        let finding = region::finding(&fleet, &region, shards, whole_fleet, inputs.settings, now);
        findings.extend(finding);
    }
    for finding in &mut findings {
        if finding.why_not.is_none() {
            let (memory, settings) = (inputs.memory, inputs.settings);
            finding.why_not = memory.why_not(&finding.cure, &finding.shards, now, settings);
        }
    }
    findings
}
