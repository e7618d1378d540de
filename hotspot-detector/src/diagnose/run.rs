//! The diagnosis of all hotspots at one moment. Shards are looked at one by one:
//! what is wrong with one never keeps another from its cure.

use std::collections::BTreeMap;

use ballast_domain::{RegionId, ShardId, TenantId};

use super::facts::Fleet;
use super::finding::Finding;
use super::memory::Memory;
use super::region;
use super::round::Round;
use super::settings::Settings;
use crate::detect::Hotspot;
use crate::load::Book;

/// What a diagnosis needs.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The load.
    pub book: &'a Book,
    /// What the rules found.
    pub hotspots: &'a [Hotspot],
    /// Calls a second that tenants may make, where they are limited.
    pub limits: &'a BTreeMap<TenantId, f64>,
    /// What was done before.
    pub memory: &'a Memory,
    /// What it goes by.
    pub settings: &'a Settings,
}

/// Says what is hot and what to do about it. Every hotspot is in exactly one
/// finding.
#[must_use]
pub fn diagnose(inputs: Inputs<'_>) -> Vec<Finding> {
    let Some(now) = inputs.book.newest().filter(|_| !inputs.hotspots.is_empty()) else {
        return Vec::new();
    };
    let fleet = Fleet::new(inputs.book);
    let mut by_shard: BTreeMap<&ShardId, Vec<Hotspot>> = BTreeMap::new();
    for hotspot in inputs.hotspots {
        let shard = hotspot.subject.shard();
        by_shard.entry(shard).or_default().push(hotspot.clone());
    }
    let mut findings = Vec::new();
    let mut full: BTreeMap<RegionId, Vec<(ShardId, Vec<Hotspot>)>> = BTreeMap::new();
    for (name, hotspots) in by_shard {
        let mut round = Round {
            inputs,
            fleet: &fleet,
            now,
            name,
            findings: Vec::new(),
            held: Vec::new(),
        };
        if let Some(rest) = round.shard(hotspots)
            && let Some(facts) = fleet.shards.get(name)
        {
            let region = facts.book.region().clone();
            full.entry(region).or_default().push((name.clone(), rest));
        }
        findings.append(&mut round.findings);
    }
    let is_full = |region: &RegionId| region::full(&fleet, region, inputs.settings.level).is_some();
    let whole_fleet = fleet
        .shards
        .values()
        .all(|facts| is_full(facts.book.region()));
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
