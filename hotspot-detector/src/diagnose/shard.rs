//! The diagnosis of one shard: a spike, an overload, or a load within its limits.

use ballast_domain::{ShardId, Timestamp};

use super::cure::{Cure, HotspotCause};
use super::doubt::{DoubtInputs, MoveDoubt};
use super::facts::{MeasuredFleet, ShardFacts, over};
use super::finding::{CureDeferral, Finding, Rejected};
use super::run::DiagnosisInputs;
use super::tenants::{OverloadCase, TenantDiagnosis};
use super::{keys, region};
use crate::detect::{Hotspot, HotspotSubject};
use crate::format::{duration, percent};
use crate::load::Window;
use crate::resources::Resources;

/// The diagnosis of one shard.
pub(super) struct ShardDiagnosis<'a> {
    pub(super) inputs: DiagnosisInputs<'a>,
    pub(super) fleet: &'a MeasuredFleet<'a>,
    pub(super) now: Timestamp,
    pub(super) name: &'a ShardId,
    pub(super) findings: Vec<Finding>,
    /// Flooding keys that are throttled already.
    pub(super) throttled: Vec<keys::ThrottledKey>,
}

impl ShardDiagnosis<'_> {
    /// Diagnoses the shard. Returns the hotspots that are caused by its full region.
    pub(super) fn diagnose_shard(&mut self, hotspots: Vec<Hotspot>) -> Option<Vec<Hotspot>> {
        let (easing, hotspots): (Vec<_>, Vec<_>) =
            hotspots.into_iter().partition(|hotspot| hotspot.is_easing);
        self.push_easing(easing);
        if hotspots.is_empty() {
            return None;
        }
        let fleet = self.fleet;
        let Some(facts) = fleet.shards.get(self.name).filter(|facts| facts.is_fresh) else {
            self.push_unmeasured(hotspots);
            return None;
        };
        let is_item = |hotspot: &Hotspot| matches!(hotspot.subject, HotspotSubject::Item { .. });
        let (items, loads): (Vec<_>, Vec<_>) = hotspots.into_iter().partition(is_item);
        let mut load = facts.short.used;
        if !loads.is_empty() {
            let (floods, throttled) =
                keys::floods(fleet, facts, self.inputs.limits, self.inputs.settings);
            for flood in floods {
                let before = load.fill(facts.history.capacity());
                load -= flood.used;
                self.push_flood(flood, before, &load, facts);
            }
            self.throttled = throttled;
        }
        let counters = self.diagnose_counters(facts, items, !loads.is_empty());
        if loads.is_empty() {
            return None;
        }
        self.diagnose_load(facts, load, loads, counters > 0)
    }

    pub(super) fn diagnose_load(
        &mut self,
        facts: &ShardFacts<'_>,
        load: Resources,
        hotspots: Vec<Hotspot>,
        waits_are_explained: bool,
    ) -> Option<Vec<Hotspot>> {
        let settings = self.inputs.settings;
        let capacity = facts.history.capacity();
        let is_over = !over(&load, capacity, settings.level).is_empty();
        if !is_over {
            if self.findings.iter().any(|finding| finding.cure.acts()) {
                // The first finding with a cure explains these hotspots too.
                let first = self.findings.iter_mut().find(|finding| finding.cure.acts());
                first?.hotspots.extend(hotspots);
                return None;
            }
            self.diagnose_without_overload(facts, hotspots, waits_are_explained);
            return None;
        }
        let case = OverloadCase {
            fleet: self.fleet,
            name: self.name,
            facts,
            load,
            settings,
            memory: self.inputs.memory,
            now: self.now,
        };
        let region = facts.history.region();
        let full = region::full(self.fleet, region, settings.level)
            .filter(|_| self.fleet.unmeasured_in(region).is_none());
        let diagnosis = match (case.diagnose_oversized_tenant(), full) {
            (Some(diagnosis), _) => diagnosis,
            (None, None) => case.diagnose_overload(),
            (None, Some(full)) => {
                let is_known = self.inputs.history.is_well_known(facts.history);
                if full.fill_long > settings.level && is_known {
                    return Some(hotspots);
                }
                self.push_spike(facts, hotspots, None);
                return None;
            }
        };
        self.push_confirmed(facts, hotspots, diagnosis);
        None
    }

    /// Records a diagnosis that may move data. That needs confirmation: by the long window,
    /// and by earlier hotspots of this shard that lasted longer than the cure takes.
    pub(super) fn push_confirmed(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        diagnosis: TenantDiagnosis,
    ) {
        let settings = self.inputs.settings;
        let price_ms = match &diagnosis.cure {
            Cure::Move { price_ms, .. } | Cure::Split { price_ms, .. } => *price_ms,
            _ => 0,
        };
        let inputs = self.doubt_inputs(facts, &hotspots, price_ms);
        let swings = match inputs.doubt(facts, settings) {
            Some(MoveDoubt::Spike(spike)) => {
                let because = inputs.describe_spike(spike);
                let cure = diagnosis.cure.name();
                let rejected = Rejected { cure, because };
                self.push_spike(
                    facts,
                    hotspots,
                    Some(rejected).filter(|_| diagnosis.cure.acts()),
                );
                return;
            }
            Some(MoveDoubt::Swings) if diagnosis.cure.acts() => Some(CureDeferral {
                because: inputs.describe_swings(settings),
                until: None,
            }),
            Some(MoveDoubt::Swings) | None => None,
        };
        let first_do = self.findings.iter().find(|finding| finding.cure.acts());
        let why_not = first_do
            .filter(|_| diagnosis.cure.moves_data())
            .map(|finding| CureDeferral {
                because: format!(
                    "{} is tried first, because it moves no data",
                    finding.cure.name()
                ),
                until: None,
            });
        self.push_diagnosis(hotspots, diagnosis);
        if let Some(last) = self.findings.last_mut() {
            last.why_not = why_not.or(swings);
        }
    }

    pub(super) fn doubt_inputs(
        &self,
        facts: &ShardFacts<'_>,
        hotspots: &[Hotspot],
        price_ms: u64,
    ) -> DoubtInputs {
        DoubtInputs {
            is_known: self.inputs.history.is_well_known(facts.history),
            least: self.inputs.history.least_fill(facts.history).unwrap_or(0.0),
            lasted_ms: lasted_ms(hotspots, self.now),
            long_ms: self.inputs.history.spans().length_ms(Window::Long),
            price_ms,
            usual_ms: self.inputs.memory.usual_ms(self.name),
        }
    }

    /// Records a hotspot that is too recent or too short to be worth a cure.
    pub(super) fn push_spike(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        rejected: Option<Rejected>,
    ) {
        let inputs = self.doubt_inputs(facts, &hotspots, 0);
        let lasted = inputs.lasted_ms;
        let fill = |used: &Resources| percent(used.fill(facts.history.capacity()).1);
        let long = facts.long.as_ref().map(|long| fill(&long.used));
        let mut evidence = vec![format!(
            "{} is {} full in the short window and {} in the long window",
            self.name,
            fill(&facts.short.used),
            long.as_deref().unwrap_or("not measured")
        )];
        evidence.push(format!("it has lasted {}", duration(lasted as f64)));
        if let Some(usual) = inputs.usual_ms {
            let usual = duration(usual as f64);
            evidence.push(format!(
                "9 of 10 hotspots of this shard passed within {usual}"
            ));
        }
        let wait_ms = inputs
            .usual_ms
            .unwrap_or(inputs.long_ms / 2)
            .saturating_sub(lasted)
            .max(60_000);
        self.push(
            hotspots,
            HotspotCause::Spike { lasted_ms: lasted },
            Cure::Wait {
                until: later(self.now, wait_ms),
            },
            evidence,
            "If it lasts, the long window confirms it and the finding names a cure.",
            rejected.into_iter().collect(),
        );
    }

    pub(super) fn push_diagnosis(
        &mut self,
        hotspots: Vec<Hotspot>,
        mut diagnosis: TenantDiagnosis,
    ) {
        // A throttled flooding key is not the cause, but worth mentioning.
        for key in &self.throttled {
            diagnosis.evidence.extend(key.evidence.iter().cloned());
        }
        self.findings.push(Finding {
            at: self.now,
            shards: vec![self.name.clone()],
            hotspots,
            cause: diagnosis.cause,
            evidence: diagnosis.evidence,
            cure: diagnosis.cure,
            expected: diagnosis.expected,
            otherwise: diagnosis.otherwise,
            rejected: diagnosis.rejected,
            why_not: None,
        });
    }

    pub(super) fn push(
        &mut self,
        hotspots: Vec<Hotspot>,
        cause: HotspotCause,
        cure: Cure,
        evidence: Vec<String>,
        otherwise: &str,
        rejected: Vec<Rejected>,
    ) {
        self.findings.push(Finding {
            at: self.now,
            shards: vec![self.name.clone()],
            hotspots,
            cause,
            evidence,
            cure,
            expected: Vec::new(),
            otherwise: otherwise.to_owned(),
            rejected,
            why_not: None,
        });
    }

    pub(super) fn push_easing(&mut self, hotspots: Vec<Hotspot>) {
        if hotspots.is_empty() {
            return;
        }
        let lasted_ms = lasted_ms(&hotspots, self.now);
        self.push(
            hotspots,
            HotspotCause::Spike { lasted_ms },
            Cure::Wait { until: self.now },
            vec![
                "the condition no longer holds: the rule waits before it ends the hotspot"
                    .to_owned(),
            ],
            "If it comes back, it is diagnosed again.",
            Vec::new(),
        );
    }

    pub(super) fn push_unmeasured(&mut self, hotspots: Vec<Hotspot>) {
        self.push(
            hotspots,
            HotspotCause::Unexplained,
            Cure::Wait { until: self.now },
            vec![format!("{} was not measured recently", self.name)],
            "Check whether the shard is running and why it reports no measurements.",
            Vec::new(),
        );
    }
}

fn later(at: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(at.unix_ms().saturating_add(ms))
}

fn lasted_ms(hotspots: &[Hotspot], now: Timestamp) -> u64 {
    let since = hotspots
        .iter()
        .map(|hotspot| hotspot.since)
        .min()
        .unwrap_or(now);
    u64::try_from(now.unix_ms() - since.unix_ms()).unwrap_or(0)
}
