//! Hotspots on a shard that has room in every dimension.

use super::cure::{Cure, HotspotCause};
use super::facts::ShardFacts;
use super::finding::Rejected;
use super::round::ShardDiagnosis;
use super::tenants::OverloadCase;
use super::within_limits::{self, BearableLoad};
use crate::detect::{Hotspot, HotspotSubject};
use crate::format::percent;

impl ShardDiagnosis<'_> {
    /// Diagnoses hotspots of a shard that has room in every dimension.
    pub(super) fn bearable(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        explained: bool,
    ) {
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
                HotspotSubject::Slice { slice, .. } => match case.unfair(slice) {
                    Some(answer) => self.push_diagnosis(vec![hotspot], answer),
                    None => {
                        let borne =
                            within_limits::tenant(self.fleet, self.name, facts, slice, settings);
                        self.borne(vec![hotspot], borne, "move");
                    }
                },
                _ => rest.push(hotspot),
            }
        }
        if rest.is_empty() {
            return;
        }
        let fill = facts.short.fill().map_or(0.0, |(_, fill)| fill);
        let wait = facts.short.io_wait.unwrap_or_default();
        if wait.share() > settings.level && fill < settings.sick_fill && !explained {
            let of = if wait.fsync >= wait.queue {
                "for the disk"
            } else {
                "behind other writes"
            };
            let evidence = vec![
                format!(
                    "writes wait {} of the time, mostly {of}",
                    percent(wait.share())
                ),
                format!("the shard is only {} full", percent(fill)),
            ];
            let because = "moving will not help: the tenants are not the cause, and other tenants on \
                           this shard would wait too";
            self.push(
                rest,
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
            return;
        }
        if let Some(throttled) = self.throttled.pop() {
            self.findings
                .push(throttled.into_finding(self.now, self.name, rest));
            return;
        }
        let borne = within_limits::shard(self.fleet, self.name, facts, settings);
        if borne.is_some() {
            self.borne(rest, borne, "move");
            return;
        }
        let evidence = vec![format!(
            "the shard is {} full, and no dimension is too full",
            percent(fill)
        )];
        let because = "moving will not help: the tenants do not fill the shard, which has room in \
                       every dimension";
        self.push(
            rest,
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
    pub(super) fn borne(
        &mut self,
        hotspots: Vec<Hotspot>,
        borne: Option<BearableLoad>,
        cure: &'static str,
    ) {
        let Some(borne) = borne else {
            // The subject is no longer among the measurements.
            self.passing(hotspots);
            return;
        };
        let because = borne.because;
        self.push(
            hotspots,
            HotspotCause::Borne { fill: borne.fill },
            Cure::Nothing,
            borne.evidence,
            &borne.otherwise,
            vec![Rejected { cure, because }],
        );
    }
}
