//! Cures that are no moves of slices.

use ballast_domain::key::Throttle;
use ballast_domain::shard::ShardState;
use ballast_domain::tenant::{SliceId, Tenant, slice_of};
use ballast_domain::{Error, ErrorCode, KeyId, PollId, RegionId, Result};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_vote_shard::At;

use crate::intent::Intent;
use crate::keys;
use crate::migrations::movers;
use crate::plane::ControlPlane;
use crate::shards::{self, NewShard};
use crate::slicing::ask::{self, Wanted};
use crate::tenants;

/// A throttle ends by itself after so long.
const THROTTLE_SECONDS: i64 = 3_600;

/// Does it, and says what was done.
pub(crate) async fn act(plane: &ControlPlane, plan: &str, cure: &Cure) -> Result<String> {
    let intent = Intent::ballast("hotspots", plan);
    match cure {
        Cure::Throttle { key, to, .. } => throttle(plane, &intent, key, *to).await,
        Cure::Lanes { item, to, .. } => lanes(plane, &item.slice, item.poll, *to).await,
        Cure::Split { slice, parts, .. } => split(plane, &intent, slice, *parts).await,
        Cure::AddShards { region, count } => add_shards(plane, &intent, region, *count).await,
        Cure::Move { .. } | Cure::Wait { .. } | Cure::Nothing => {
            Ok("there is nothing to do".to_owned())
        }
    }
}

async fn throttle(plane: &ControlPlane, intent: &Intent, key: &KeyId, to: f64) -> Result<String> {
    let per_second = to.max(1.0) as u64;
    let until = plane.now().plus_seconds(THROTTLE_SECONDS);
    let throttle = Throttle {
        calls_per_second: per_second,
        until,
    };
    keys::throttle(plane, intent, key, Some(throttle)).await?;
    Ok(format!(
        "{key} is let through {per_second} times a second until {until}"
    ))
}

/// Gives a poll's counters more lanes. Fewer are not made while it runs: the
/// counts of a lane would have to be added to another's.
async fn lanes(plane: &ControlPlane, slice: &SliceId, poll: PollId, to: u16) -> Result<String> {
    let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
    let at = at(&tenant, poll)?;
    let shard = movers(plane)?.shards.shard(&at.1).map_err(Error::from)?;
    let known = shard.poll(&at.0.slice, poll).await.map_err(Error::from)?;
    let has = known.spec.options.lanes;
    if to <= has {
        return Ok(format!(
            "{poll} keeps its {has} lanes: they cost nothing when idle"
        ));
    }
    let widened = shard
        .widen_lanes(&at.0, poll, to)
        .await
        .map_err(Error::from)?;
    Ok(format!(
        "{poll} has {} lanes instead of {has}",
        widened.spec.options.lanes
    ))
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

/// Adds embedded shards, where the region's shards are such. Elsewhere somebody
/// has to make them: the plan says how many.
async fn add_shards(
    plane: &ControlPlane,
    intent: &Intent,
    region: &RegionId,
    count: u32,
) -> Result<String> {
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let like = snapshot
        .shards()
        .iter()
        .map(|shard| &shard.value)
        .find(|shard| {
            shard.region == *region
                && shard.state == ShardState::Active
                && shard.url.starts_with("file:shards/")
        });
    let Some(like) = like else {
        let detail =
            format!("{count} shards are needed in {region}, and none can be made from here");
        let error = Error::new(ErrorCode::NoEligibleShard, detail);
        return Err(error.next("Make them, and add them (ballast shard add)."));
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
            url: Some(format!("file:shards/{id}")),
            region: Some(region.clone()),
            zones: like.zones.clone(),
            weight: Some(like.weight),
            max_slices: Some(like.max_slices),
        };
        shards::add(plane, intent, &new).await?;
        names.push(id.to_string());
    }
    Ok(format!("added {} to {region}", names.join(", ")))
}
