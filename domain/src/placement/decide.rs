//! Decides where a slice belongs, and why.

use super::fleet::{PlacementFleet, PlacementShard, PlacementSubject};
use super::score::{draw, might_exceed, score};
use super::veto::{is_vetoed, is_vetoed_even_if_empty, region_fit};
use crate::id::ShardId;
use crate::residency::RegionFit;
use crate::shard::Pressure;
use crate::tenant::Pin;

/// The decision where a slice belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementDecision {
    /// The shard; `None` if no shard may hold the slice.
    pub shard_id: Option<ShardId>,
    /// The reason.
    pub why: PlacementReason,
    /// For a slice that is placed: the shards that score higher by weight alone, but were
    /// passed over because they are busy or full.
    pub passed_over: Vec<ShardId>,
}

/// Why a slice belongs where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementReason {
    /// An operator pinned it there.
    Pinned,
    /// It stays: no eligible shard outscores its current one.
    Stays,
    /// Its tenant is closed: it stays until it is purged.
    Closed,
    /// It has the highest score of the eligible shards.
    HighestScore,
    /// Its current shard may no longer hold it.
    MustLeave,
    /// No shard may hold it.
    NoneEligible,
}

/// Decides where a slice belongs.
///
/// It is idempotent: applied to its own result in an unchanged fleet it returns
/// [`PlacementReason::Stays`].
pub fn decide(fleet: &PlacementFleet, subject: &PlacementSubject) -> PlacementDecision {
    if subject.closed && subject.current.is_some() {
        return PlacementDecision {
            shard_id: subject.current.clone(),
            why: PlacementReason::Closed,
            passed_over: Vec::new(),
        };
    }
    if let Some(shard) = pinned(fleet, subject) {
        return PlacementDecision {
            shard_id: Some(shard.id.clone()),
            why: PlacementReason::Pinned,
            passed_over: Vec::new(),
        };
    }
    match holder(fleet, subject) {
        Some(home) => stay_or_go(fleet, subject, home),
        None => place(fleet, subject),
    }
}

/// The pinned shard, if there is one and it has no veto.
fn pinned<'a>(fleet: &'a PlacementFleet, subject: &PlacementSubject) -> Option<&'a PlacementShard> {
    let Pin { shard_id, .. } = subject.pin.as_ref()?;
    eligible(fleet.get(shard_id)?, subject).map(|(shard, _)| shard)
}

/// The shard that holds the slice, if it has no veto.
fn holder<'a>(
    fleet: &'a PlacementFleet,
    subject: &PlacementSubject,
) -> Option<(&'a PlacementShard, RegionFit)> {
    eligible(fleet.get(subject.current.as_ref()?)?, subject)
}

fn eligible<'a>(
    shard: &'a PlacementShard,
    subject: &PlacementSubject,
) -> Option<(&'a PlacementShard, RegionFit)> {
    let standing = region_fit(shard, subject);
    (!is_vetoed(shard, subject, standing)).then_some((shard, standing))
}

/// A placed slice leaves only for an eligible shard that outscores its holder by weight
/// alone, or that is in the home region if the holder is not. Pressure has no effect, and
/// shards that it passed over do not attract it. So changes of load never move a tenant.
fn stay_or_go(
    fleet: &PlacementFleet,
    subject: &PlacementSubject,
    holder: (&PlacementShard, RegionFit),
) -> PlacementDecision {
    let (home, home_standing) = holder;
    let mut best = BestShard {
        shard: home,
        standing: home_standing,
        score: score(home.weight, draw(subject.hash, home.hash)),
    };
    for shard in fleet.shards() {
        if shard.id != home.id && !subject.passed_over.contains(&shard.id) {
            best.challenge(shard, subject, shard.weight);
        }
    }
    PlacementDecision {
        shard_id: Some(best.shard.id.clone()),
        why: if best.shard.id == home.id {
            PlacementReason::Stays
        } else {
            PlacementReason::HighestScore
        },
        passed_over: Vec::new(),
    }
}

/// A slice without a holder goes to the shard with the highest score. A busy shard counts
/// with a part of its weight.
fn place(fleet: &PlacementFleet, subject: &PlacementSubject) -> PlacementDecision {
    let mut best: Option<BestShard<'_>> = None;
    for shard in fleet.shards() {
        let weight = shard.weight * shard.pressure.preference();
        match &mut best {
            Some(best) => best.challenge(shard, subject, weight),
            None => best = BestShard::first(shard, subject, weight),
        }
    }
    let Some(best) = best else {
        return PlacementDecision {
            shard_id: None,
            why: PlacementReason::NoneEligible,
            passed_over: Vec::new(),
        };
    };
    PlacementDecision {
        passed_over: passed_over(fleet, subject, &best),
        shard_id: Some(best.shard.id.clone()),
        why: if subject.current.is_some() {
            PlacementReason::MustLeave
        } else {
            PlacementReason::HighestScore
        },
    }
}

/// The shards that would have won by weight alone if they had not been busy or full. When
/// they have room later they do not attract the slice. (A shard in a better region does.) A
/// calm shard with room is never among them, because it was scored with its full weight.
fn passed_over(
    fleet: &PlacementFleet,
    subject: &PlacementSubject,
    winner: &BestShard<'_>,
) -> Vec<ShardId> {
    let own = score(winner.shard.weight, draw(subject.hash, winner.shard.hash));
    fleet
        .shards()
        .iter()
        .filter(|shard| shard.pressure != Pressure::Calm || shard.slices >= shard.max_slices)
        .filter(|shard| shard.id != winner.shard.id)
        .filter(|shard| {
            score(shard.weight, draw(subject.hash, shard.hash)) > own && {
                let standing = region_fit(shard, subject);
                standing == winner.standing && !is_vetoed_even_if_empty(shard, subject, standing)
            }
        })
        .map(|shard| shard.id.clone())
        .collect()
}

/// The best shard so far: by region fit, then by score, then (never in practice) by the
/// lower id, which comes first in a fleet.
struct BestShard<'a> {
    shard: &'a PlacementShard,
    standing: RegionFit,
    score: f64,
}

impl<'a> BestShard<'a> {
    fn first(shard: &'a PlacementShard, subject: &PlacementSubject, weight: f64) -> Option<Self> {
        let (shard, standing) = eligible(shard, subject)?;
        let score = score(weight, draw(subject.hash, shard.hash));
        Some(Self {
            shard,
            standing,
            score,
        })
    }

    fn challenge(&mut self, shard: &'a PlacementShard, subject: &PlacementSubject, weight: f64) {
        let draw = draw(subject.hash, shard.hash);
        let might_win = might_exceed(weight, draw, self.score);
        // Compare numbers before names: no fit is better than home, so most shards are ruled
        // out before their region is compared.
        if !might_win && self.standing == RegionFit::Home {
            return;
        }
        let standing = region_fit(shard, subject);
        if standing > self.standing
            || (standing == self.standing && !might_win)
            || is_vetoed(shard, subject, standing)
        {
            return;
        }
        let score = score(weight, draw);
        if standing < self.standing || score > self.score {
            *self = Self {
                shard,
                standing,
                score,
            };
        }
    }
}
