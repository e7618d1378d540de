//! When the load is real: which tenants, and whether moving them helps.

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};

use super::cure::{Cause, Cure};
use super::facts::{Fleet, ShardFacts, fits, over};
use super::finding::{Effect, Rejected};
use super::measure::region_fill;
use super::memory::{Memory, RESTS};
use super::settings::Settings;
use super::subset::{Subset, best, place};
use crate::resources::{Dimension, Resources};
use crate::words::{bytes, list, percent};

/// A shard that is too full.
pub(super) struct Case<'a> {
    pub(super) fleet: &'a Fleet<'a>,
    pub(super) name: &'a ShardId,
    pub(super) facts: &'a ShardFacts<'a>,
    /// What it uses, without what other cures take away.
    pub(super) load: Resources,
    pub(super) settings: &'a Settings,
    pub(super) memory: &'a Memory,
    pub(super) now: Timestamp,
}

/// What is to be said of it.
pub(super) struct Answer {
    pub(super) cause: Cause,
    pub(super) cure: Cure,
    pub(super) evidence: Vec<String>,
    pub(super) expected: Vec<Effect>,
    pub(super) otherwise: String,
    pub(super) rejected: Vec<Rejected>,
}

impl Case<'_> {
    pub(super) fn capacity(&self) -> &Resources {
        self.facts.book.capacity()
    }

    /// One tenant or several: what to move.
    pub(super) fn too_full(&self) -> Answer {
        let (dimension, _) = self.load.fill(self.capacity());
        let slices = self.fleet.slices(self.facts, dimension);
        let mut rejected = Vec::new();
        let candidates: Vec<_> = slices
            .iter()
            .filter(|(slice, _)| {
                match self.memory.rests(slice, self.name, self.now, self.settings) {
                    Some(because) => {
                        rejected.push(Rejected {
                            cure: "move",
                            because,
                        });
                        false
                    }
                    None => true,
                }
            })
            .cloned()
            .collect();
        let top = slices
            .first()
            .filter(|(_, used)| self.is_dominant(used, dimension));
        let Some((slice, used)) = top else {
            return self.several(dimension, &slices, &candidates, rejected);
        };
        let share = used.fill(self.capacity()).1;
        let cause = Cause::HotTenant {
            slice: slice.clone(),
            dimension,
            share,
        };
        let of_use = used[dimension] / self.load[dimension].max(f64::MIN_POSITIVE);
        let evidence = vec![
            self.level_now(dimension),
            format!(
                "{} of that ({}) is {slice}",
                percent(of_use.min(1.0)),
                dimension.name()
            ),
        ];
        let may_move = candidates.iter().any(|(candidate, _)| candidate == slice);
        let one = (slice.clone(), *used);
        let level = self.settings.level;
        let placed = may_move.then(|| place(self.fleet, (self.name, self.facts), &[&one], level));
        if let Some(placed) = placed.clone().flatten() {
            let subset = Subset {
                placed,
                used: *used,
            };
            return self.moving(cause, evidence, dimension, subset, rejected);
        }
        if may_move {
            let because = format!("no shard of the region has room for {slice} now");
            rejected.push(Rejected {
                cure: "move",
                because,
            });
        }
        // It stays; its neighbours may leave.
        let others: Vec<_> = candidates
            .into_iter()
            .filter(|(other, _)| other != slice)
            .collect();
        let from = (self.name, self.facts);
        match best(self.fleet, from, &self.load, &others, self.settings) {
            Some(subset) => self.moving(cause, evidence, dimension, subset, rejected),
            None => self.no_room(cause, evidence, rejected),
        }
    }

    fn is_dominant(&self, used: &Resources, dimension: Dimension) -> bool {
        let of_use = used[dimension] / self.load[dimension].max(f64::MIN_POSITIVE);
        of_use >= self.settings.dominant_share || !fits(used, self.capacity(), self.settings.level)
    }

    fn several(
        &self,
        dimension: Dimension,
        slices: &[(SliceId, Resources)],
        candidates: &[(SliceId, Resources)],
        rejected: Vec<Rejected>,
    ) -> Answer {
        let warm = |used: &Resources| used[dimension] > self.load[dimension] * 0.02;
        let warm: Vec<_> = slices.iter().filter(|(_, used)| warm(used)).collect();
        let named: Vec<_> = warm
            .iter()
            .map(|(slice, used)| {
                format!(
                    "{slice} ({})",
                    percent(used[dimension] / self.capacity()[dimension])
                )
            })
            .collect();
        let cause = Cause::WarmTenants {
            tenants: warm.len(),
            dimension,
        };
        let evidence = vec![
            self.level_now(dimension),
            format!("no tenant alone is most of it: {}", list(&named)),
        ];
        let from = (self.name, self.facts);
        match best(self.fleet, from, &self.load, candidates, self.settings) {
            Some(subset) => self.moving(cause, evidence, dimension, subset, rejected),
            None => self.no_room(cause, evidence, rejected),
        }
    }

    /// A tenant has more than its part, and the shard bears it. Nothing if it
    /// has no longer.
    pub(super) fn unfair(&self, slice: &SliceId) -> Option<Answer> {
        let (dimension, _) = self.facts.short.fill()?;
        let slices = self.fleet.slices(self.facts, dimension);
        let (_, used) = slices.iter().find(|(name, _)| name == slice)?;
        let (dimension, share) = used.fill(self.capacity());
        let level = self.settings.level;
        let fair = self.settings.fair_share;
        if share <= fair {
            return None;
        }
        let cause = Cause::UnfairTenant {
            slice: slice.clone(),
            dimension,
            share,
        };
        let evidence = vec![
            format!(
                "{slice} uses {} of what {} can do ({})",
                percent(share),
                self.name,
                dimension.name()
            ),
            format!("the shard bears it: it is {} full", percent(self.fill())),
        ];
        let fair_there = |capacity: &Resources| used.fill(capacity).1 < fair;
        let others = self
            .fleet
            .takers(self.facts.book.region())
            .filter(|(name, _)| *name != self.name);
        let better = others
            .filter(|(_, facts)| fair_there(facts.book.capacity()))
            .find(|(_, facts)| fits(&(facts.load + *used), facts.book.capacity(), level));
        let resting = self.memory.rests(slice, self.name, self.now, self.settings);
        if let (Some((to, _)), None) = (better, &resting) {
            let placed = vec![super::cure::Placed {
                slice: slice.clone(),
                to: to.clone(),
            }];
            let subset = Subset {
                placed,
                used: *used,
            };
            return Some(self.moving(cause, evidence, dimension, subset, Vec::new()));
        }
        let because = resting.unwrap_or_else(|| {
            format!(
                "moving will not help, because {slice} would have as large a part of any shard with \
                 room for it"
            )
        });
        Some(Answer {
            cause,
            cure: Cure::Nothing,
            evidence,
            expected: Vec::new(),
            otherwise:
                "Nobody suffers yet. Should the shard get too full, its tenants are moved; to \
                        act before, limit the tenant or add a larger shard."
                    .to_owned(),
            rejected: vec![Rejected {
                cure: "move",
                because,
            }],
        })
    }

    fn moving(
        &self,
        cause: Cause,
        mut evidence: Vec<String>,
        dimension: Dimension,
        subset: Subset,
        rejected: Vec<Rejected>,
    ) -> Answer {
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
            let capacity = facts.book.capacity();
            let here = subset.placed.iter().filter(|placed| placed.to == *target);
            let slices = self.fleet.slices(self.facts, dimension);
            let more = here.fold(Resources::default(), |sum, placed| {
                let used = slices.iter().find(|(slice, _)| *slice == placed.slice);
                sum + used.map(|(_, used)| *used).unwrap_or_default()
            });
            let (dimension, after) = (facts.load + more).fill(capacity);
            let before = facts.load[dimension] / capacity[dimension];
            let shard = target.clone();
            expected.push(Effect {
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
            "moving takes {} away",
            self.relief(&subset, dimension)
        ));
        Answer {
            cause,
            cure: Cure::Move {
                from: self.name.clone(),
                slices: subset.placed,
                bytes: subset.used.storage,
                price_ms,
            },
            evidence,
            expected,
            otherwise: "If the shard is not level after the move, the next finding takes other \
                        tenants: the same are not moved twice in a row."
                .to_owned(),
            rejected,
        }
    }

    fn relief(&self, subset: &Subset, dimension: Dimension) -> String {
        format!(
            "{} of the shard ({}) for {} copied",
            percent(subset.used[dimension] / self.capacity()[dimension]),
            dimension.name(),
            bytes(subset.used.storage)
        )
    }

    /// The region has room in all, but not in one piece; or what would help was
    /// moved just now.
    fn no_room(&self, cause: Cause, evidence: Vec<String>, mut rejected: Vec<Rejected>) -> Answer {
        let rests = |rejected: &Rejected| rejected.because.contains(RESTS);
        let region = self.facts.book.region();
        if let Some(unseen) = self.fleet.unseen_in(region) {
            let because = format!("{unseen} was not measured of late and may have room");
            let cure = "add shards";
            rejected.push(Rejected { cure, because });
        }
        if rejected.iter().any(rests) || self.fleet.unseen_in(region).is_some() {
            let wait_s = self.settings.judge_ms as i64 / 1_000;
            let until = self.now.plus_seconds(wait_s);
            return Answer {
                cause,
                cure: Cure::Wait { until },
                evidence,
                expected: Vec::new(),
                otherwise:
                    "If it stays so until they have rested, they are moved again or a shard \
                            is added."
                        .to_owned(),
                rejected,
            };
        }
        let because = "no choice of tenants both levels this shard and fits on the others";
        rejected.push(Rejected {
            cure: "move",
            because: because.to_owned(),
        });
        let hottest = over(&self.load, self.capacity(), self.settings.level);
        let region = self.facts.book.region();
        let shards = self.fleet.takers(region).count() as f64;
        let of_region = region_fill(self.fleet, region).map(|(dimension, before)| Effect {
            shard: self.name.clone(),
            dimension: Some(dimension),
            before,
            after: before * shards / (shards + 1.0),
        });
        let of_shard = hottest
            .first()
            .map(|d| self.effect(Some(*d), self.settings.aim));
        let expected = of_region.into_iter().chain(of_shard);
        Answer {
            cause,
            cure: Cure::AddShards {
                region: self.facts.book.region().clone(),
                count: 1,
            },
            evidence,
            expected: expected.collect(),
            otherwise: "With a shard more there is room to move to; the next finding says what."
                .to_owned(),
            rejected,
        }
    }

    fn fill(&self) -> f64 {
        self.facts.short.used.fill(self.capacity()).1
    }

    pub(super) fn effect(&self, dimension: Option<Dimension>, after: f64) -> Effect {
        let before = match dimension {
            Some(d) => self.facts.short.used[d] / self.capacity()[d],
            None => self.fill(),
        };
        Effect {
            shard: self.name.clone(),
            dimension,
            before,
            after,
        }
    }

    pub(super) fn level_now(&self, dimension: Dimension) -> String {
        let share = |used: &Resources| percent(used[dimension] / self.capacity()[dimension]);
        let now = share(&self.facts.short.used);
        let (name, what) = (self.name, dimension.name());
        match &self.facts.long {
            Some(long) => format!(
                "{name} is at {now} of its {what} in the short and {} in the long window",
                share(&long.used)
            ),
            None => format!("{name} is at {now} of its {what}"),
        }
    }
}
