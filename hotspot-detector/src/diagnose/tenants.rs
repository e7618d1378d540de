//! Overloaded shards: which tenants cause the load, and whether moving them helps.

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};

use super::cure::{Cure, HotspotCause};
use super::facts::{MeasuredFleet, ShardFacts, fits, over};
use super::finding::{ExpectedEffect, Rejected};
use super::measure::region_fill;
use super::memory::{CureHistory, RESTS};
use super::settings::DiagnosisSettings;
use super::subset::{MoveSet, best, place};
use crate::format::{bytes, list, percent};
use crate::resources::{Dimension, Resources};

/// An overloaded shard.
pub(super) struct OverloadCase<'a> {
    pub(super) fleet: &'a MeasuredFleet<'a>,
    pub(super) name: &'a ShardId,
    pub(super) facts: &'a ShardFacts<'a>,
    /// Its load, without the load that other cures remove.
    pub(super) load: Resources,
    pub(super) settings: &'a DiagnosisSettings,
    pub(super) memory: &'a CureHistory,
    pub(super) now: Timestamp,
}

/// The diagnosis of a tenant problem.
pub(super) struct TenantDiagnosis {
    pub(super) cause: HotspotCause,
    pub(super) cure: Cure,
    pub(super) evidence: Vec<String>,
    pub(super) expected: Vec<ExpectedEffect>,
    pub(super) otherwise: String,
    pub(super) rejected: Vec<Rejected>,
}

impl OverloadCase<'_> {
    pub(super) fn capacity(&self) -> &Resources {
        self.facts.history.capacity()
    }

    /// Diagnoses an overloaded shard: which tenants to move.
    pub(super) fn diagnose_overload(&self) -> TenantDiagnosis {
        let (dimension, _) = self.load.fill(self.capacity());
        let slices = self.fleet.slices(self.facts, dimension);
        let (candidates, mut rejected) = self.split_off_resting(&slices);
        let top = slices
            .first()
            .filter(|(_, used)| self.is_dominant(used, dimension));
        let Some((slice, used)) = top else {
            return self.diagnose_several_tenants(dimension, &slices, &candidates, rejected);
        };
        let share = used.fill(self.capacity()).1;
        let cause = HotspotCause::HotTenant {
            slice: slice.clone(),
            dimension,
            share,
        };
        let of_use = used[dimension] / self.load[dimension].max(f64::MIN_POSITIVE);
        let evidence = vec![
            self.describe_level(dimension),
            format!(
                "{} of that ({}) is used by {}",
                percent(of_use.min(1.0)),
                dimension.name(),
                slice.label()
            ),
        ];
        let may_move = candidates.iter().any(|(candidate, _)| candidate == slice);
        let one = (slice.clone(), *used);
        let level = self.settings.level;
        let placed = may_move.then(|| place(self.fleet, (self.name, self.facts), &[&one], level));
        if let Some(placed) = placed.clone().flatten() {
            let subset = MoveSet {
                placed,
                used: *used,
            };
            return self.propose_move(cause, evidence, dimension, subset, rejected);
        }
        if may_move {
            let because = format!(
                "no shard of the region has room for {} at the moment",
                slice.label()
            );
            rejected.push(Rejected {
                cure: "move",
                because,
            });
        }
        // The dominant tenant stays; its neighbours may move.
        let others: Vec<_> = candidates
            .into_iter()
            .filter(|(other, _)| other != slice)
            .collect();
        let from = (self.name, self.facts);
        match best(self.fleet, from, &self.load, &others, self.settings) {
            Some(subset) => self.propose_move(cause, evidence, dimension, subset, rejected),
            None => self.diagnose_no_room(cause, evidence, rejected),
        }
    }

    /// The slices that may be moved, and why the others were rejected.
    fn split_off_resting(
        &self,
        slices: &[(SliceId, Resources)],
    ) -> (Vec<(SliceId, Resources)>, Vec<Rejected>) {
        let (mut candidates, mut rejected) = (Vec::new(), Vec::new());
        for slice in slices {
            let reason = self
                .memory
                .rest_reason(&slice.0, self.name, self.now, self.settings);
            match reason {
                Some(because) => rejected.push(Rejected {
                    cure: "move",
                    because,
                }),
                None => candidates.push(slice.clone()),
            }
        }
        (candidates, rejected)
    }

    fn is_dominant(&self, used: &Resources, dimension: Dimension) -> bool {
        let of_use = used[dimension] / self.load[dimension].max(f64::MIN_POSITIVE);
        of_use >= self.settings.dominant_share || !fits(used, self.capacity(), self.settings.level)
    }

    fn diagnose_several_tenants(
        &self,
        dimension: Dimension,
        slices: &[(SliceId, Resources)],
        candidates: &[(SliceId, Resources)],
        rejected: Vec<Rejected>,
    ) -> TenantDiagnosis {
        let warm = |used: &Resources| used[dimension] > self.load[dimension] * 0.02;
        let warm: Vec<_> = slices.iter().filter(|(_, used)| warm(used)).collect();
        let listed: Vec<_> = warm
            .iter()
            .map(|(slice, used)| {
                format!(
                    "{} ({})",
                    slice.label(),
                    percent(used[dimension] / self.capacity()[dimension])
                )
            })
            .collect();
        let cause = HotspotCause::WarmTenants {
            tenants: warm.len(),
            dimension,
        };
        let evidence = vec![
            self.describe_level(dimension),
            format!("no single tenant is most of it: {}", list(&listed)),
        ];
        let from = (self.name, self.facts);
        match best(self.fleet, from, &self.load, candidates, self.settings) {
            Some(subset) => self.propose_move(cause, evidence, dimension, subset, rejected),
            None => self.diagnose_no_room(cause, evidence, rejected),
        }
    }

    /// Diagnoses a tenant with more than its fair share of a shard that is not overloaded.
    /// `None` if its share is fair again.
    pub(super) fn diagnose_unfair_tenant(&self, slice: &SliceId) -> Option<TenantDiagnosis> {
        let (dimension, _) = self.facts.short.fill()?;
        let slices = self.fleet.slices(self.facts, dimension);
        let (_, used) = slices.iter().find(|(name, _)| name == slice)?;
        let (dimension, share) = used.fill(self.capacity());
        let (level, fair) = (self.settings.level, self.settings.fair_share);
        if share <= fair {
            return None;
        }
        let label = slice.label();
        let cause = HotspotCause::UnfairTenant {
            slice: slice.clone(),
            dimension,
            share,
        };
        let evidence = vec![
            format!(
                "{label} uses {} of the capacity of {} ({})",
                percent(share),
                self.name,
                dimension.name()
            ),
            format!(
                "the shard is not overloaded: it is {} full",
                percent(self.fill())
            ),
        ];
        let fair_there = |capacity: &Resources| used.fill(capacity).1 < fair;
        let others = self
            .fleet
            .takers(self.facts.history.region())
            .filter(|(name, _)| *name != self.name);
        let better = others
            .filter(|(_, facts)| fair_there(facts.history.capacity()))
            .find(|(_, facts)| fits(&(facts.load + *used), facts.history.capacity(), level));
        let resting = self
            .memory
            .rest_reason(slice, self.name, self.now, self.settings);
        if let (Some((to, _)), None) = (better, &resting) {
            let placed = vec![super::cure::SlicePlacement {
                slice: slice.clone(),
                to: to.clone(),
            }];
            let subset = MoveSet {
                placed,
                used: *used,
            };
            return Some(self.propose_move(cause, evidence, dimension, subset, Vec::new()));
        }
        let because = resting.unwrap_or_else(|| {
            format!(
                "moving will not help: {label} would have as large a share of any shard with room \
                 for it"
            )
        });
        Some(TenantDiagnosis {
            cause,
            cure: Cure::Nothing,
            evidence,
            expected: Vec::new(),
            otherwise:
                "Other tenants are not affected yet. If the shard gets too full, its tenants are \
                        moved; to act earlier, limit the tenant or add a larger shard."
                    .to_owned(),
            rejected: vec![Rejected {
                cure: "move",
                because,
            }],
        })
    }

    fn propose_move(
        &self,
        cause: HotspotCause,
        mut evidence: Vec<String>,
        dimension: Dimension,
        subset: MoveSet,
        rejected: Vec<Rejected>,
    ) -> TenantDiagnosis {
        let after = self.load - subset.used;
        let mut expected = vec![self.effect(
            Some(dimension),
            after[dimension] / self.capacity()[dimension],
        )];
        let mut targets: Vec<_> = subset.placed.iter().map(|placed| &placed.to).collect();
        targets.sort();
        targets.dedup();
        let mut loads = Vec::new();
        for target in targets {
            if let Some(facts) = self.fleet.shards.get(target) {
                loads.push((target, facts));
            }
        }
        for (target, facts) in loads {
            let capacity = facts.history.capacity();
            let here = subset.placed.iter().filter(|placed| placed.to == *target);
            let slices = self.fleet.slices(self.facts, dimension);
            let more = here.fold(Resources::default(), |sum, placed| {
                let used = slices.iter().find(|(slice, _)| *slice == placed.slice);
                sum + used.map(|(_, used)| *used).unwrap_or_default()
            });
            let (dimension, after) = (facts.load + more).fill(capacity);
            let before = facts.load[dimension] / capacity[dimension];
            let shard = target.clone();
            expected.push(ExpectedEffect {
                shard,
                dimension: Some(dimension),
                before,
                after,
            });
        }
        let price_ms = self
            .settings
            .price_ms(subset.used.storage, subset.placed.len());
        evidence.push(format!(
            "moving removes {}",
            self.relief(&subset, dimension)
        ));
        TenantDiagnosis {
            cause,
            cure: Cure::Move {
                from: self.name.clone(),
                slices: subset.placed,
                bytes: subset.used.storage,
                price_ms,
            },
            evidence,
            expected,
            otherwise: "If the shard is still too full afterwards, the next finding selects other \
                        tenants: the same tenants are not moved twice in a row."
                .to_owned(),
            rejected,
        }
    }

    fn relief(&self, subset: &MoveSet, dimension: Dimension) -> String {
        format!(
            "{} of the shard's capacity ({}) and copies {}",
            percent(subset.used[dimension] / self.capacity()[dimension]),
            dimension.name(),
            bytes(subset.used.storage)
        )
    }

    /// The region has enough room in total but not on one shard, or the tenants that would
    /// help were moved recently.
    fn diagnose_no_room(
        &self,
        cause: HotspotCause,
        evidence: Vec<String>,
        mut rejected: Vec<Rejected>,
    ) -> TenantDiagnosis {
        let rests = |rejected: &Rejected| rejected.because.contains(RESTS);
        let region = self.facts.history.region();
        if let Some(unmeasured) = self.fleet.unmeasured_in(region) {
            let because = format!("{unmeasured} was not measured recently and may have room");
            let cure = "add shards";
            rejected.push(Rejected { cure, because });
        }
        if rejected.iter().any(rests) || self.fleet.unmeasured_in(region).is_some() {
            let wait_s = self.settings.judge_ms as i64 / 1_000;
            let until = self.now.plus_seconds(wait_s);
            return TenantDiagnosis {
                cause,
                cure: Cure::Wait { until },
                evidence,
                expected: Vec::new(),
                otherwise:
                    "If the shard is still too full after the rest period, tenants are moved again or \
                            a shard is added."
                        .to_owned(),
                rejected,
            };
        }
        let because = "no set of tenants both relieves this shard and fits on the others";
        rejected.push(Rejected {
            cure: "move",
            because: because.to_owned(),
        });
        let hottest = over(&self.load, self.capacity(), self.settings.level);
        let region = self.facts.history.region();
        let shards = self.fleet.takers(region).count() as f64;
        let of_region = region_fill(self.fleet, region).map(|(dimension, before)| ExpectedEffect {
            shard: self.name.clone(),
            dimension: Some(dimension),
            before,
            after: before * shards / (shards + 1.0),
        });
        let of_shard = hottest
            .first()
            .map(|d| self.effect(Some(*d), self.settings.aim));
        let expected = of_region.into_iter().chain(of_shard);
        TenantDiagnosis {
            cause,
            cure: Cure::AddShards {
                region: self.facts.history.region().clone(),
                count: 1,
            },
            evidence,
            expected: expected.collect(),
            otherwise: "The new shard has room to move to; the next finding names the tenants."
                .to_owned(),
            rejected,
        }
    }

    fn fill(&self) -> f64 {
        self.facts.short.used.fill(self.capacity()).1
    }

    pub(super) fn effect(&self, dimension: Option<Dimension>, after: f64) -> ExpectedEffect {
        let before = match dimension {
            Some(d) => self.facts.short.used[d] / self.capacity()[d],
            None => self.fill(),
        };
        ExpectedEffect {
            shard: self.name.clone(),
            dimension,
            before,
            after,
        }
    }

    pub(super) fn describe_level(&self, dimension: Dimension) -> String {
        let share = |used: &Resources| percent(used[dimension] / self.capacity()[dimension]);
        let now = share(&self.facts.short.used);
        let (name, what) = (self.name, dimension.name());
        match &self.facts.long {
            Some(long) => format!(
                "{name} is at {now} of its {what} capacity in the short window and {} in the long window",
                share(&long.used)
            ),
            None => format!("{name} is at {now} of its {what} capacity"),
        }
    }
}
