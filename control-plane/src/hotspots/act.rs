//! Cures that are no moves of slices.

use ballast_domain::bounds::SLICES_PER_TENANT_MAX;
use ballast_domain::key::Throttle;
use ballast_domain::moving::Phase;
use ballast_domain::shard::{Shard, ShardState};
use ballast_domain::tenant::{SliceId, Tenant, slice_of};
use ballast_domain::{Error, ErrorCode, KeyId, PollId, RegionId, Result};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_vote_shard::At;

use super::records::ShardsNeeded;
use crate::fleet::FleetSnapshot;
use crate::intent::Intent;
use crate::keys;
use crate::migrations::movers;
use crate::plane::ControlPlane;
use crate::shards::{self, NewShard};
use crate::slicing::ask::{self, Wanted};
use crate::tenants;

/// Shards that are made by naming them begin so.
const EMBEDDED: &str = "file:shards/";

/// What came of a cure.
pub(crate) enum Acted {
    /// It is done.
    Done(String),
    /// It was begun, and goes on by itself.
    Begun(String),
    /// Somebody else has to do it.
    Needs(ShardsNeeded),
}

/// How many there are to be in the end, for a cure that would otherwise do more
/// each time it is begun: slices of the tenant, active shards of the region. It
/// is written down first; then a process that died may begin it again.
pub(crate) async fn aim(plane: &ControlPlane, cure: &Cure) -> Result<Option<u64>> {
    Ok(match cure {
        Cure::Split { slice, parts, .. } => {
            let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
            let have = u32::try_from(tenant.slices.len()).unwrap_or(u32::MAX);
            // A power of two, as cuts are made, in which every slice that there
            // is has so many parts.
            let more = have
                .max(1)
                .saturating_mul((*parts).max(2))
                .min(SLICES_PER_TENANT_MAX);
            Some(u64::from(more.next_power_of_two()))
        }
        Cure::AddShards { region, count } => {
            let snapshot = plane.fleet().refresh(plane.registry()).await?;
            Some(active_in(&snapshot, region) + u64::from(*count))
        }
        _ => None,
    })
}

/// Does it, and says what was done; `aim` is what was written down.
pub(crate) async fn act(
    plane: &ControlPlane,
    plan: &str,
    cure: &Cure,
    aim: Option<u64>,
) -> Result<Acted> {
    let intent = Intent::ballast("hotspots", plan);
    let done = match (cure, aim) {
        (Cure::Split { slice, .. }, Some(aim)) => {
            let begun = split(plane, &intent, slice, aim).await?;
            return Ok(Acted::Begun(begun));
        }
        (Cure::AddShards { region, .. }, Some(aim)) => {
            return add_shards(plane, &intent, region, aim).await;
        }
        (Cure::Throttle { key, to, .. }, _) => throttle(plane, &intent, key, *to).await,
        (Cure::Lanes { item, from, to }, _) => {
            lanes(plane, &item.slice, item.poll, (*from, *to)).await
        }
        _ => Ok("there is nothing to do".to_owned()),
    };
    done.map(Acted::Done)
}

async fn throttle(plane: &ControlPlane, intent: &Intent, key: &KeyId, to: f64) -> Result<String> {
    let per_second = to.max(1.0) as u64;
    let seconds = plane.settings().hotspots.throttle_seconds;
    let until = plane.now().plus_seconds(seconds);
    let throttle = Throttle {
        calls_per_second: per_second,
        until,
    };
    keys::throttle(plane, intent, key, Some(throttle)).await?;
    Ok(format!(
        "{key} is let through {per_second} times a second until {until}"
    ))
}

/// Gives a poll's counters more lanes, or fewer. What was changed meanwhile
/// stays: a cure never turns round what another one did.
async fn lanes(
    plane: &ControlPlane,
    slice: &SliceId,
    poll: PollId,
    (from, to): (u16, u16),
) -> Result<String> {
    let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
    let (at, shard) = at(&tenant, poll)?;
    let shard = movers(plane)?.shards.shard(&shard).map_err(Error::from)?;
    let known = shard.poll(&at.slice, poll).await.map_err(Error::from)?;
    let has = known.spec.options.lanes;
    let changed = match to >= from {
        true if has < to => shard.widen_lanes(&at, poll, to).await,
        false if has > to => shard.narrow_lanes(&at, poll, to).await,
        _ => return Ok(format!("{poll} has {has} lanes already")),
    };
    let lanes = changed.map_err(Error::from)?.spec.options.lanes;
    Ok(format!("{poll} has {lanes} lanes instead of {has}"))
}

fn at(tenant: &Tenant, poll: PollId) -> Result<(At, ballast_domain::ShardId)> {
    let slice = slice_of(&tenant.slices, poll).ok_or_else(|| {
        let detail = format!("tenant {} has no slice for {poll}", tenant.tenant_id);
        Error::new(ErrorCode::PollNotFound, detail)
    })?;
    let at = At {
        slice: SliceId {
            tenant_id: tenant.tenant_id.clone(),
            slice: slice.slice,
        },
        epoch: slice.epoch,
    };
    Ok((at, slice.shard_id.clone()))
}

/// Has a tenant split, unless it is or is about to be.
async fn split(plane: &ControlPlane, intent: &Intent, slice: &SliceId, aim: u64) -> Result<String> {
    let id = &slice.tenant_id;
    let tenant = tenants::get(plane, id).await?.value;
    let into = u32::try_from(aim).unwrap_or(SLICES_PER_TENANT_MAX);
    let is_begun = tenant.slicing.is_some_and(|slicing| slicing.into == into);
    if !is_begun && (tenant.slices.len() as u64) < aim {
        let wanted = Wanted::Split { into, spread: true };
        ask::begin(plane, intent, id, wanted).await?;
    }
    Ok(format!("{id} is being split into {into} slices"))
}

/// How a split came to its end, once it has: all cuts are made, and what was
/// moved for it has been cut over; or why it was given up.
pub(crate) async fn split_ended(
    plane: &ControlPlane,
    slice: &SliceId,
) -> Result<Option<std::result::Result<usize, String>>> {
    let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
    let is_there = |part: &ballast_domain::tenant::Slice| {
        let phase = part.moving.as_ref().map(|moving| moving.phase);
        phase.is_none_or(|phase| matches!(phase, Phase::Window | Phase::Cleaning))
    };
    if tenant.slicing.is_some() || !tenant.slices.iter().all(is_there) {
        return Ok(None);
    }
    let given_up = tenant.last_slicing.and_then(|last| last.why);
    Ok(Some(match given_up {
        Some(why) => Err(why),
        None => Ok(tenant.slices.len()),
    }))
}

/// Shards of a region that take slices.
pub(crate) fn active_in(snapshot: &FleetSnapshot, region: &RegionId) -> u64 {
    let shards = snapshot.shards().iter().map(|shard| &shard.value);
    shards.filter(|shard| is_active_in(shard, region)).count() as u64
}

fn is_active_in(shard: &Shard, region: &RegionId) -> bool {
    shard.region == *region && shard.state == ShardState::Active
}

/// Adds embedded shards until there are so many, where the region's shards are
/// such. Elsewhere somebody has to make them, and is asked for so many.
async fn add_shards(
    plane: &ControlPlane,
    intent: &Intent,
    region: &RegionId,
    aim: u64,
) -> Result<Acted> {
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let missing = aim.saturating_sub(active_in(&snapshot, region));
    if missing == 0 {
        return Ok(Acted::Done(format!("{region} has {aim} active shards")));
    }
    let mut shards = snapshot.shards().iter().map(|shard| &shard.value);
    let like = shards.find(|shard| is_active_in(shard, region) && shard.url.starts_with(EMBEDDED));
    let Some(like) = like else {
        return Ok(Acted::Needs(ShardsNeeded {
            region: region.clone(),
            count: u32::try_from(missing).unwrap_or(u32::MAX),
            until_active: aim,
        }));
    };
    let mut names = Vec::new();
    let mut number = snapshot.shards().len();
    while (names.len() as u64) < missing {
        number += 1;
        let Ok(id) = format!("shard-{number}").parse() else {
            break;
        };
        if snapshot.shard(&id).is_some() {
            continue;
        }
        let new = NewShard {
            shard_id: id.clone(),
            url: Some(format!("{EMBEDDED}{id}")),
            region: Some(region.clone()),
            zones: like.zones.clone(),
            weight: Some(like.weight),
            max_slices: Some(like.max_slices),
        };
        shards::add(plane, intent, &new).await?;
        names.push(id.to_string());
    }
    let names = names.join(", ");
    Ok(Acted::Done(format!("added {names} to {region}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may die between a cure and the record of it, and begins again.
    #[tokio::test]
    async fn a_cure_that_is_begun_again_makes_no_more_than_it_aimed_at() {
        let (_directory, plane, _) = crate::testing::plane().await;
        let region: RegionId = "local".parse().unwrap();
        let count = || async {
            let snapshot = plane.fleet().refresh(plane.registry()).await.unwrap();
            active_in(&snapshot, &region)
        };
        let before = count().await;
        let cure = Cure::AddShards {
            region: region.clone(),
            count: 2,
        };
        let aimed = aim(&plane, &cure).await.unwrap();
        assert_eq!(aimed, Some(before + 2));
        for _ in 0..2 {
            let acted = act(&plane, "plan-1", &cure, aimed).await.unwrap();
            assert!(matches!(acted, Acted::Done(_)));
            assert_eq!(count().await, before + 2);
        }
    }
}
