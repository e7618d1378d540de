//! What a rule calls hot though the shard has room in every dimension.

use super::borne::{self, Borne};
use super::cure::{Cause, Cure};
use super::facts::ShardFacts;
use super::finding::Rejected;
use super::round::Round;
use super::tenants::Case;
use crate::detect::{Hotspot, Subject};
use crate::words::percent;

impl Round<'_> {
    /// Hot by a rule, and still the shard has room in every dimension.
    pub(super) fn bearable(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        explained: bool,
    ) {
        let settings = self.inputs.settings;
        let case = Case {
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
                Subject::Slice { slice, .. } => match case.unfair(slice) {
                    Some(answer) => self.tell(vec![hotspot], answer),
                    None => {
                        let borne = borne::tenant(self.fleet, self.name, facts, slice, settings);
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
            let because = "moving will not help, because it is not the tenants: the shard waits with \
                           little to do, and the next tenants would wait too";
            self.push(
                rest,
                Cause::SickShard {
                    wait: wait.share(),
                    fill,
                },
                Cure::Nothing,
                evidence,
                "Look at the shard's disk and its neighbours on the same machine. If it stays so, \
                 drain the shard.",
                vec![Rejected {
                    cure: "move",
                    because: because.to_owned(),
                }],
            );
            return;
        }
        if let Some(held) = self.held.pop() {
            self.findings.push(held.held(self.now, self.name, rest));
            return;
        }
        let borne = borne::shard(self.fleet, self.name, facts, settings);
        if borne.is_some() {
            self.borne(rest, borne, "move");
            return;
        }
        let evidence = vec![format!(
            "the shard is {} full, no dimension is too full",
            percent(fill)
        )];
        let because = "moving will not help, because its tenants are not what fills the shard: \
                       there is room in every dimension";
        self.push(
            rest,
            Cause::Unexplained,
            Cure::Nothing,
            evidence,
            "Look at the rule's numbers in the evidence and at what changed when it began.",
            vec![Rejected {
                cure: "move",
                because: because.to_owned(),
            }],
        );
    }

    /// A rule calls it hot, and it is less than what is too much.
    pub(super) fn borne(
        &mut self,
        hotspots: Vec<Hotspot>,
        borne: Option<Borne>,
        cure: &'static str,
    ) {
        let Some(borne) = borne else {
            // It is no longer among what was measured.
            self.passing(hotspots);
            return;
        };
        let because = borne.because;
        self.push(
            hotspots,
            Cause::Borne { fill: borne.fill },
            Cure::Nothing,
            borne.evidence,
            &borne.otherwise,
            vec![Rejected { cure, because }],
        );
    }
}
