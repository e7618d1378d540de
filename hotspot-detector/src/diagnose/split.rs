//! A tenant that is too much for any shard: into how many parts, and whether
//! parts help at all. A poll lies in one slice: what one poll gets stays whole.

use ballast_domain::PollId;
use ballast_domain::bounds::SLICES_PER_TENANT_MAX;
use ballast_domain::tenant::SliceId;

use super::cure::{Cause, Cure};
use super::facts::fits;
use super::finding::Rejected;
use super::subset::place;
use super::tenants::{Answer, Case};
use crate::load::Window;
use crate::resources::{Dimension, Resources};
use crate::words::percent;

/// So many more parts than the fewest are tried.
const PARTS_MORE: u32 = 14;
/// What names no poll stands for its votes only from here on.
const WORTH_NAMING: f64 = 0.05;

/// The poll of a slice with the most votes.
struct Busiest {
    poll: PollId,
    /// What it uses at the least: its votes.
    used: Resources,
    /// Its part of the slice's votes.
    share: f64,
    /// Whether its counter takes as many votes as its lanes can.
    is_at_its_lanes: bool,
}

impl Case<'_> {
    /// The largest slice, if no shard of the region could hold it even alone.
    pub(super) fn too_big(&self) -> Option<Answer> {
        let (dimension, _) = self.load.fill(self.capacity());
        let slices = self.fleet.slices(self.facts, dimension);
        let (slice, used) = slices.first()?;
        if self.could_hold(used) {
            return None;
        }
        let share = used.fill(self.capacity()).1;
        let mut evidence = vec![
            self.level_now(dimension),
            format!(
                "{slice} alone uses {} of what a shard can do ({})",
                percent(share),
                dimension.name()
            ),
        ];
        let cause = Cause::HotTenant {
            slice: slice.clone(),
            dimension,
            share,
        };
        let busiest = self.busiest(slice, used);
        if let Some(busiest) = &busiest {
            evidence.push(format!(
                "{} of its votes are those of {}",
                percent(busiest.share),
                busiest.poll
            ));
        }
        // Of a poll only its votes are told.
        let busiest = busiest.filter(|_| dimension == Dimension::Votes);
        let heavy = busiest.as_ref().map(|it| it.used).unwrap_or_default();
        let have = self.slices_of(slice);
        let most = (SLICES_PER_TENANT_MAX / have.max(1)).max(1);
        let fewest = (2..=most).find(|parts| self.could_hold(&largest_part(used, &heavy, *parts)));
        if let (Some(busiest), None, true) = (&busiest, fewest, most >= 2) {
            return Some(whole(cause, evidence, busiest));
        }
        let moving = Rejected {
            cure: "move",
            because: format!(
                "moving will not help, because {slice} is too much for any shard of the region \
                 to stay under {}",
                percent(self.settings.level)
            ),
        };
        let resting = self
            .memory
            .split_rests(&slice.tenant_id, self.name, self.now, self.settings);
        let fewest = match (resting, fewest) {
            (Some(because), _) => Err(because),
            (None, Some(fewest)) => Ok(fewest),
            (None, None) if most < 2 => Err(format!(
                "{} has {have} slices, and {SLICES_PER_TENANT_MAX} are the most there may be",
                slice.tenant_id
            )),
            (None, None) => Err(format!("each of {most} parts would still be too much")),
        };
        let fewest = match fewest {
            Ok(fewest) => fewest,
            Err(because) => {
                let cure = "split";
                return Some(Answer {
                    cause,
                    cure: Cure::Nothing,
                    evidence,
                    expected: Vec::new(),
                    otherwise: "Limit the tenant's votes per second, or add larger shards."
                        .to_owned(),
                    rejected: vec![moving, Rejected { cure, because }],
                });
            }
        };
        let parts = self.parts(slice, used, &heavy, (fewest, most));
        let left = largest_part(used, &heavy, parts);
        let after = (self.load - *used + left).fill(self.capacity());
        Some(Answer {
            cause,
            cure: Cure::Split {
                slice: slice.clone(),
                from: self.name.clone(),
                parts,
                price_ms: self.settings.price_ms(used.storage, parts as usize - 1),
            },
            evidence,
            expected: vec![self.effect(Some(after.0), after.1)],
            otherwise: "If this does not help, it is not split again: then limit the tenant, or \
                        add larger shards."
                .to_owned(),
            rejected: vec![moving],
        })
    }

    /// Whether some shard of the region could hold so much if it held nothing
    /// else.
    fn could_hold(&self, used: &Resources) -> bool {
        let holds = |capacity: &Resources| fits(used, capacity, self.settings.level);
        let mut shards = self.fleet.takers(self.facts.book.region());
        holds(self.capacity()) || shards.any(|(_, facts)| holds(facts.book.capacity()))
    }

    /// The poll of a slice that gets the most votes, as far as it is told.
    fn busiest(&self, slice: &SliceId, used: &Resources) -> Option<Busiest> {
        let items = self
            .fleet
            .book
            .items(self.facts.book, Window::Short, &self.facts.short);
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
        (share >= WORTH_NAMING).then(|| Busiest {
            poll,
            used: Resources {
                votes: votes.min(used.votes),
                ..Resources::default()
            },
            share,
            is_at_its_lanes: items.any(|item| item.lane_votes() > limit),
        })
    }

    /// How many slices a tenant has, as far as they were measured. An idle one
    /// is not told of, but the numbers of the others say how many there are.
    fn slices_of(&self, slice: &SliceId) -> u32 {
        let numbers = self.fleet.shards.values().flat_map(|facts| {
            let slices = self
                .fleet
                .book
                .slices(facts.book, Window::Short, &facts.short);
            let same = slices.filter(|(other, _)| other.tenant_id == slice.tenant_id);
            same.map(|(other, _)| other.slice).collect::<Vec<_>>()
        });
        let numbers: std::collections::BTreeSet<_> = numbers.chain([slice.slice]).collect();
        let many = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let last = numbers.last().copied().unwrap_or(0);
        many.max(last.saturating_add(1))
    }

    /// Into how many parts, so that the largest can stay and the shards that
    /// are there have room for the others. The fewest, if no number does that.
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

/// What the largest of so many parts uses: its busiest poll, and its part of
/// the rest.
fn largest_part(used: &Resources, heavy: &Resources, parts: u32) -> Resources {
    *heavy + (*used - *heavy).times(1.0 / f64::from(parts.max(1)))
}

/// One poll is too much for any shard: neither moving nor parts help.
fn whole(cause: Cause, evidence: Vec<String>, busiest: &Busiest) -> Answer {
    let (poll, share) = (busiest.poll, percent(busiest.share));
    let because = format!(
        "moving or splitting will not help, because {poll} is {share} of it and a poll stays \
         whole"
    );
    let mut otherwise = String::new();
    if busiest.is_at_its_lanes {
        otherwise.push_str("Its counter is at the limit of its lanes: more of them help it. ");
    }
    otherwise.push_str(
        "A bigger shard helps: add one with a larger weight, and pin the tenant to it; until \
         then limit the tenant's votes per second.",
    );
    Answer {
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
                because: "the part with that poll would still be too much for any shard".to_owned(),
            },
        ],
    }
}
