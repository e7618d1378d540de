//! Hotspots on a shard that has room in every dimension.

use super::cure::{Cure, HotspotCause};
use super::facts::ShardFacts;
use super::finding::Rejected;
use super::shard::ShardDiagnosis;
use super::tenants::OverloadCase;
use super::within_limits::{self, BearableLoad};
use crate::detect::{Hotspot, HotspotSubject};
use crate::format::percent;
use crate::load::IoWait;

impl ShardDiagnosis<'_> {
    /// Diagnoses hotspots of a shard that has room in every dimension.
    pub(super) fn diagnose_without_overload(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        explained: bool,
    ) {
        let settings = self.inputs.settings;
        let rest = self.push_tenant_hotspots(facts, hotspots);
        if rest.is_empty() {
            return;
        }
        let fill = facts.short.fill().map_or(0.0, |(_, fill)| fill);
        let wait = facts.short.io_wait.unwrap_or_default();
        if wait.share() > settings.level && fill < settings.sick_fill && !explained {
            self.push_sick_shard(rest, wait, fill);
            return;
        }
        if let Some(throttled) = self.throttled.pop() {
            self.findings
                .push(throttled.into_finding(self.now, self.name, rest));
            return;
        }
        let within_limits = within_limits::shard(self.fleet, self.name, facts, settings);
        if within_limits.is_some() {
            self.push_within_limits(rest, within_limits, "move");
            return;
        }
        self.push_unexplained(rest, fill);
    }

    /// Records the hotspots of tenants and returns the others.
    fn push_tenant_hotspots(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
    ) -> Vec<Hotspot> {
        let settings = self.inputs.settings;
        let case = OverloadCase {
            fleet: self.fleet,
            name: self.name,
            facts,
            load: facts.short.used,
            settings,
            memory: self.inputs.memory,
            now: self.now,
        };
        let mut rest = Vec::new();
        for hotspot in hotspots {
            match &hotspot.subject {
                HotspotSubject::Slice { slice, .. } => match case.diagnose_unfair_tenant(slice) {
                    Some(diagnosis) => self.push_diagnosis(vec![hotspot], diagnosis),
                    None => {
                        let within_limits =
                            within_limits::tenant(self.fleet, self.name, facts, slice, settings);
                        self.push_within_limits(vec![hotspot], within_limits, "move");
                    }
                },
                _ => rest.push(hotspot),
            }
        }
        rest
    }

    /// Records a shard whose writes wait although its load is low.
    fn push_sick_shard(&mut self, hotspots: Vec<Hotspot>, wait: IoWait, fill: f64) {
        let reason = if wait.fsync >= wait.queue {
            "for the disk"
        } else {
            "behind other writes"
        };
        let evidence = vec![
            format!(
                "writes wait {} of the time, mostly {reason}",
                percent(wait.share())
            ),
            format!("the shard is only {} full", percent(fill)),
        ];
        let because = "moving will not help: the tenants are not the cause, and other tenants on \
                       this shard would wait too";
        self.push(
            hotspots,
            HotspotCause::SickShard {
                wait: wait.share(),
                fill,
            },
            Cure::Nothing,
            evidence,
            "Check the shard's disk and other processes on the same machine. If it stays slow, \
             drain the shard.",
            vec![Rejected {
                cure: "move",
                because: because.to_owned(),
            }],
        );
    }

    /// Records hotspots that no measurement explains.
    fn push_unexplained(&mut self, hotspots: Vec<Hotspot>, fill: f64) {
        let evidence = vec![format!(
            "the shard is {} full, and no dimension is too full",
            percent(fill)
        )];
        let because = "moving will not help: the tenants do not fill the shard, which has room in \
                       every dimension";
        self.push(
            hotspots,
            HotspotCause::Unexplained,
            Cure::Nothing,
            evidence,
            "Check the rule's readings above, and what changed when the hotspot began.",
            vec![Rejected {
                cure: "move",
                because: because.to_owned(),
            }],
        );
    }

    /// Records a load that is within the limits.
    pub(super) fn push_within_limits(
        &mut self,
        hotspots: Vec<Hotspot>,
        load: Option<BearableLoad>,
        cure: &'static str,
    ) {
        let Some(load) = load else {
            // The subject is no longer among the measurements.
            self.push_easing(hotspots);
            return;
        };
        let because = load.because;
        self.push(
            hotspots,
            HotspotCause::WithinLimits { fill: load.fill },
            Cure::Nothing,
            load.evidence,
            &load.otherwise,
            vec![Rejected { cure, because }],
        );
    }
}
