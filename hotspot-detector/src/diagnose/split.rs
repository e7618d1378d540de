//! Splitting a tenant that is too large for any shard: into how many parts, and whether
//! splitting helps. A poll lies in one slice, so the load of one poll cannot be split.

use ballast_domain::PollId;
use ballast_domain::bounds::SLICES_PER_TENANT_MAX;
use ballast_domain::tenant::SliceId;

use super::cure::{Cure, HotspotCause};
use super::facts::fits;
use super::finding::Rejected;
use super::subset::place;
use super::tenants::{OverloadCase, TenantDiagnosis};
use crate::format::percent;
use crate::load::Window;
use crate::resources::{Dimension, Resources};

/// How many part counts above the minimum are tried.
const PARTS_MORE: u32 = 14;
/// A poll counts as the busiest only from this share of the tenant's votes on.
const WORTH_NAMING: f64 = 0.05;

/// The poll of a slice with the most votes.
struct BusiestPoll {
    poll: PollId,
    /// The load that it causes at least: its votes.
    used: Resources,
    /// Its share of the slice's votes.
    share: f64,
    /// Whether its counter is at the limit of its lanes.
    is_at_its_lanes: bool,
}

impl BusiestPoll {
    fn describe(&self) -> String {
        format!("{} of its votes are for {}", percent(self.share), self.poll)
    }
}

impl OverloadCase<'_> {
    /// Diagnoses the largest slice, if no shard of the region could hold it even alone.
    pub(super) fn diagnose_oversized_tenant(&self) -> Option<TenantDiagnosis> {
        let (dimension, _) = self.load.fill(self.capacity());
        let slices = self.fleet.slices(self.facts, dimension);
        let (slice, used) = slices.first()?;
        if self.could_hold(used) {
            return None;
        }
        let share = used.fill(self.capacity()).1;
        let mut evidence = vec![
            self.describe_level(dimension),
            format!(
                "{} alone uses {} of the shard's capacity ({})",
                slice.label(),
                percent(share),
                dimension.name()
            ),
        ];
        let cause = HotspotCause::HotTenant {
            slice: slice.clone(),
            dimension,
            share,
        };
        let busiest = self.busiest(slice, used);
        evidence.extend(busiest.as_ref().map(BusiestPoll::describe));
        // Only the votes of a poll are measured.
        let busiest = busiest.filter(|_| dimension == Dimension::Votes);
        let heavy = busiest.as_ref().map(|it| it.used).unwrap_or_default();
        let have = self.slice_count_of_tenant(slice);
        let most = (SLICES_PER_TENANT_MAX / have.max(1)).max(1);
        let fewest = (2..=most).find(|parts| self.could_hold(&largest_part(used, &heavy, *parts)));
        if let (Some(busiest), None, true) = (&busiest, fewest, most >= 2) {
            return Some(one_poll_too_big(cause, evidence, busiest));
        }
        let moving = Rejected {
            cure: "move",
            because: format!(
                "moving will not help: with {} every shard of the region would be more than {} \
                 full",
                slice.label(),
                percent(self.settings.level)
            ),
        };
        let fewest = match self.check_split(slice, fewest, (have, most)) {
            Ok(fewest) => fewest,
            Err(because) => {
                let cure = "split";
                let rejected = vec![moving, Rejected { cure, because }];
                return Some(cannot_split(cause, evidence, rejected));
            }
        };
        let parts = self.parts(slice, used, &heavy, (fewest, most));
        let left = largest_part(used, &heavy, parts);
        let after = (self.load - *used + left).fill(self.capacity());
        Some(TenantDiagnosis {
            cause,
            cure: Cure::Split {
                slice: slice.clone(),
                from: self.name.clone(),
                parts,
                price_ms: self.settings.price_ms(used.storage, parts as usize - 1),
            },
            evidence,
            expected: vec![self.effect(Some(after.0), after.1)],
            otherwise:
                "If this does not help, the tenant is not split again: limit it, or add larger \
                        shards."
                    .to_owned(),
            rejected: vec![moving],
        })
    }

    /// The minimum number of parts, or why the tenant is not split. `have` is its number of
    /// slices, `most` the maximum number of parts.
    fn check_split(
        &self,
        slice: &SliceId,
        fewest: Option<u32>,
        (have, most): (u32, u32),
    ) -> Result<u32, String> {
        let resting =
            self.memory
                .split_rest_reason(&slice.tenant_id, self.name, self.now, self.settings);
        match (resting, fewest) {
            (Some(because), _) => Err(because),
            (None, Some(fewest)) => Ok(fewest),
            (None, None) if most < 2 => Err(format!(
                "{} has {have} slices, and {SLICES_PER_TENANT_MAX} are the maximum",
                slice.tenant_id
            )),
            (None, None) => Err(format!("each of {most} parts would still be too large")),
        }
    }

    /// Whether some shard of the region could hold this load if it held nothing else.
    fn could_hold(&self, used: &Resources) -> bool {
        let holds = |capacity: &Resources| fits(used, capacity, self.settings.level);
        let mut shards = self.fleet.takers(self.facts.history.region());
        holds(self.capacity()) || shards.any(|(_, facts)| holds(facts.history.capacity()))
    }

    /// The poll of a slice with the most votes, among the measured items.
    fn busiest(&self, slice: &SliceId, used: &Resources) -> Option<BusiestPoll> {
        let items = self
            .fleet
            .history
            .items(self.facts.history, Window::Short, &self.facts.short);
        let here: Vec<_> = items
            .iter()
            .filter(|item| item.name.slice == *slice)
            .collect();
        let votes_of = |poll: PollId| -> f64 {
            let items = here.iter().filter(|item| item.name.poll == poll);
            items.map(|item| item.votes).sum()
        };
        let polls = here
            .iter()
            .map(|item| (item.name.poll, votes_of(item.name.poll)));
        let (poll, votes) = polls.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let share = (votes / used.votes.max(f64::MIN_POSITIVE)).min(1.0);
        let limit = self.settings.lane_votes_max * self.settings.lane_hot;
        let mut items = here.iter().filter(|item| item.name.poll == poll);
        (share >= WORTH_NAMING).then(|| BusiestPoll {
            poll,
            used: Resources {
                votes: votes.min(used.votes),
                ..Resources::default()
            },
            share,
            is_at_its_lanes: items.any(|item| item.lane_votes() > limit),
        })
    }

    /// How many slices a tenant has. Idle slices are not measured, but the numbers of the
    /// others imply how many there are.
    fn slice_count_of_tenant(&self, slice: &SliceId) -> u32 {
        let numbers = self.fleet.shards.values().flat_map(|facts| {
            let slices = self
                .fleet
                .history
                .slices(facts.history, Window::Short, &facts.short);
            let same = slices.filter(|(other, _)| other.tenant_id == slice.tenant_id);
            same.map(|(other, _)| other.slice).collect::<Vec<_>>()
        });
        let numbers: std::collections::BTreeSet<_> = numbers.chain([slice.slice]).collect();
        let many = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let last = numbers.last().copied().unwrap_or(0);
        many.max(last.saturating_add(1))
    }

    /// The number of parts such that the largest can stay and the existing shards have room
    /// for the others; the minimum if there is none.
    fn parts(
        &self,
        slice: &SliceId,
        used: &Resources,
        heavy: &Resources,
        (fewest, most): (u32, u32),
    ) -> u32 {
        let level = self.settings.level;
        let rest = *used - *heavy;
        let good = |parts: &u32| {
            let one = (slice.clone(), rest.times(1.0 / f64::from(*parts)));
            let others: Vec<_> = (1..*parts).map(|_| &one).collect();
            let left = self.load - *used + largest_part(used, heavy, *parts);
            let stays = fits(&left, self.capacity(), level);
            let from = (self.name, self.facts);
            stays && place(self.fleet, from, &others, level).is_some()
        };
        let last = fewest.saturating_add(PARTS_MORE).min(most);
        (fewest..=last).find(good).unwrap_or(fewest)
    }
}

/// The load of the largest part: the busiest poll, and its share of the rest.
fn largest_part(used: &Resources, heavy: &Resources, parts: u32) -> Resources {
    *heavy + (*used - *heavy).times(1.0 / f64::from(parts.max(1)))
}

/// The tenant is too large for any shard and cannot be split.
fn cannot_split(
    cause: HotspotCause,
    evidence: Vec<String>,
    rejected: Vec<Rejected>,
) -> TenantDiagnosis {
    TenantDiagnosis {
        cause,
        cure: Cure::Nothing,
        evidence,
        expected: Vec::new(),
        otherwise: "Limit the tenant's votes per second, or add larger shards.".to_owned(),
        rejected,
    }
}

/// One poll is too much for any shard: neither moving nor splitting helps.
fn one_poll_too_big(
    cause: HotspotCause,
    evidence: Vec<String>,
    busiest: &BusiestPoll,
) -> TenantDiagnosis {
    let (poll, share) = (busiest.poll, percent(busiest.share));
    let because = format!(
        "moving or splitting will not help: {poll} is {share} of the load, and a poll cannot be \
         split"
    );
    let mut otherwise = String::new();
    if busiest.is_at_its_lanes {
        otherwise.push_str("Its counter is at the limit of its lanes: add lanes. ");
    }
    otherwise.push_str(
        "Add a larger shard with a larger weight and pin the tenant to it; until then limit \
         the tenant's votes per second.",
    );
    TenantDiagnosis {
        cause,
        cure: Cure::Nothing,
        evidence,
        expected: Vec::new(),
        otherwise,
        rejected: vec![
            Rejected {
                cure: "move",
                because,
            },
            Rejected {
                cure: "split",
                because: "the part with that poll would still be too large for any shard"
                    .to_owned(),
            },
        ],
    }
}
