//! Findings that are cured without moving data: flooding keys and counters.

use std::collections::BTreeMap;

use super::facts::ShardFacts;
use super::finding::{ExpectedEffect, Rejected};
use super::shard::ShardDiagnosis;
use super::{counters, keys, within_limits};
use crate::detect::{Hotspot, HotspotSubject};
use crate::resources::{Dimension, Resources};

impl ShardDiagnosis<'_> {
    pub(super) fn push_flood(
        &mut self,
        flood: keys::FloodingKey,
        before: (Dimension, f64),
        load: &Resources,
        facts: &ShardFacts<'_>,
    ) {
        let (dimension, before) = before;
        let after = load[dimension] / facts.history.capacity()[dimension];
        self.push(
            Vec::new(),
            flood.cause,
            flood.cure,
            flood.evidence,
            "If the calls do not decrease, revoke the key and contact the tenant.",
            vec![Rejected {
                cure: "move",
                because: "moving will not help: the key would flood the next shard".to_owned(),
            }],
        );
        if let Some(last) = self.findings.last_mut() {
            let shard = self.name.clone();
            last.expected = vec![ExpectedEffect {
                shard,
                dimension: Some(dimension),
                before,
                after,
            }];
        }
    }

    /// Records the findings about counters and returns the number of hot ones.
    pub(super) fn diagnose_counters(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        busy: bool,
    ) -> usize {
        let (fleet, settings) = (self.fleet, self.inputs.settings);
        let mut of_item: BTreeMap<_, Vec<Hotspot>> = BTreeMap::new();
        for hotspot in hotspots {
            if let HotspotSubject::Item { item, .. } = &hotspot.subject {
                of_item.entry(item.clone()).or_default().push(hotspot);
            }
        }
        let mut many = 0;
        for counter in counters::hot(fleet, facts, settings) {
            let hotspots = of_item.remove(&counter.name).unwrap_or_default();
            if hotspots.is_empty() && !busy {
                continue;
            }
            many += 1;
            self.push_counter(counter, hotspots);
        }
        // Lanes belong to the poll: the first cool item stands for all its items. On a
        // nearly idle poll, uneven lanes do not matter, because they are about to go.
        let mut cool: BTreeMap<_, (counters::CounterDiagnosis, Vec<Hotspot>)> = BTreeMap::new();
        for (item, hotspots) in of_item {
            let cooled = counters::cool(fleet, facts, &item, settings);
            let is_idle = cooled.as_ref().is_some_and(|it| it.is_idle(settings));
            let skewed = counters::skewed(fleet, facts, &item).filter(|_| !is_idle);
            if let Some(counter) = skewed {
                self.push_counter(counter, hotspots);
            } else if let Some(counter) = cooled {
                let poll = (item.slice, item.poll);
                let said = cool.entry(poll).or_insert_with(|| (counter, Vec::new()));
                said.1.extend(hotspots);
            } else {
                let within_limits = within_limits::counter(fleet, facts, &item, settings);
                self.push_within_limits(hotspots, within_limits, "more lanes");
            }
        }
        for (counter, hotspots) in cool.into_values() {
            self.push_counter(counter, hotspots);
        }
        many
    }

    pub(super) fn push_counter(
        &mut self,
        counter: counters::CounterDiagnosis,
        hotspots: Vec<Hotspot>,
    ) {
        let (cause, cure) = (counter.cause, counter.cure);
        self.push(
            hotspots,
            cause,
            cure,
            counter.evidence,
            &counter.otherwise,
            counter.rejected,
        );
        let effect = counter.lane.map(|(before, after)| ExpectedEffect {
            shard: self.name.clone(),
            dimension: Some(Dimension::Votes),
            before,
            after,
        });
        if let Some(last) = self.findings.last_mut() {
            last.expected = effect.into_iter().collect();
        }
    }
}
