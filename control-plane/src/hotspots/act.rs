//! Cures that are no moves of slices.

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

/// Does it, and says what was done.
pub(crate) async fn act(plane: &ControlPlane, plan: &str, cure: &Cure) -> Result<Acted> {
    let intent = Intent::ballast("hotspots", plan);
    let done = match cure {
        Cure::Split { slice, parts, .. } => {
            let begun = split(plane, &intent, slice, *parts).await?;
            return Ok(Acted::Begun(begun));
        }
        Cure::AddShards { region, count } => {
            return add_shards(plane, &intent, region, *count).await;
        }
        Cure::Throttle { key, to, .. } => throttle(plane, &intent, key, *to).await,
        Cure::Lanes { item, from, to } => lanes(plane, &item.slice, item.poll, (*from, *to)).await,
        Cure::Move { .. } | Cure::Wait { .. } | Cure::Nothing => {
            Ok("there is nothing to do".to_owned())
        }
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

async fn split(
    plane: &ControlPlane,
    intent: &Intent,
    slice: &SliceId,
    parts: u32,
) -> Result<String> {
    let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
    let have = u32::try_from(tenant.slices.len()).unwrap_or(u32::MAX);
    // A power of two, as cuts are made; more than there are.
    let into = parts.max(have + 1).next_power_of_two().clamp(2, 64);
    let wanted = Wanted::Split { into, spread: true };
    ask::begin(plane, intent, &slice.tenant_id, wanted).await?;
    Ok(format!(
        "{} is being split into {into} slices",
        slice.tenant_id
    ))
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

/// Adds embedded shards, where the region's shards are such. Elsewhere somebody
/// has to make them, and is asked for so many.
async fn add_shards(
    plane: &ControlPlane,
    intent: &Intent,
    region: &RegionId,
    count: u32,
) -> Result<Acted> {
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let mut shards = snapshot.shards().iter().map(|shard| &shard.value);
    let like = shards.find(|shard| is_active_in(shard, region) && shard.url.starts_with(EMBEDDED));
    let Some(like) = like else {
        return Ok(Acted::Needs(ShardsNeeded {
            region: region.clone(),
            count,
            until_active: active_in(&snapshot, region) + u64::from(count),
        }));
    };
    let mut names = Vec::new();
    let mut number = snapshot.shards().len();
    while names.len() < count as usize {
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
