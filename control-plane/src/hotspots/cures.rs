//! Applies cures other than moving slices: throttle, lanes, splits, new shards.

use ballast_domain::bounds::SLICES_PER_TENANT_MAX;
use ballast_domain::key::KeyThrottle;
use ballast_domain::moving::MigrationPhase;
use ballast_domain::shard::{Shard, ShardState};
use ballast_domain::tenant::{SliceId, Tenant, find_slice};
use ballast_domain::text::count_noun;
use ballast_domain::{Error, ErrorCode, KeyId, PollId, RegionId, Result};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_vote_shard::FencedSlice;

use super::records::ShardRequest;
use crate::fleet::VersionedFleet;
use crate::intent::Intent;
use crate::keys;
use crate::migrations::migration_backends;
use crate::plane::ControlPlane;
use crate::shards::{self, NewShard};
use crate::slicing::requests::{self, SlicingRequest};
use crate::tenants;

/// URL prefix of embedded shards, which Ballast can create itself.
const EMBEDDED: &str = "file:shards/";

/// The result of applying a cure.
pub(crate) enum CureOutcome {
    /// It is done.
    Done(String),
    /// It has begun and continues by itself.
    Begun(String),
    /// An operator has to add shards first.
    Needs(ShardRequest),
}

/// Computes the final count that a cure aims at, for cures that would otherwise add more
/// each time they are applied: slices of the tenant, or active shards of the
/// region. It is recorded before the cure is applied, so that a restarted process
/// can apply it again safely.
pub(crate) async fn compute_cure_target(plane: &ControlPlane, cure: &Cure) -> Result<Option<u64>> {
    Ok(match cure {
        Cure::Split { slice, parts, .. } => {
            let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
            let have = u32::try_from(tenant.slices.len()).unwrap_or(u32::MAX);
            // Splits need a power of two: the next one that gives every
            // existing slice at least `parts` parts.
            let more = have
                .max(1)
                .saturating_mul((*parts).max(2))
                .min(SLICES_PER_TENANT_MAX);
            Some(u64::from(more.next_power_of_two()))
        }
        Cure::AddShards { region, count } => {
            let snapshot = plane.fleet().refresh(plane.registry()).await?;
            Some(count_active_shards(&snapshot, region) + u64::from(*count))
        }
        _ => None,
    })
}

/// Applies a cure and describes what was done. `aim` is the recorded final count.
pub(crate) async fn apply_cure(
    plane: &ControlPlane,
    plan: &str,
    cure: &Cure,
    aim: Option<u64>,
) -> Result<CureOutcome> {
    let intent = Intent::ballast("hotspots", plan);
    let done = match (cure, aim) {
        (Cure::Split { slice, .. }, Some(aim)) => {
            let begun = begin_split(plane, &intent, slice, aim).await?;
            return Ok(CureOutcome::Begun(begun));
        }
        (Cure::AddShards { region, .. }, Some(aim)) => {
            return add_shards(plane, &intent, region, aim).await;
        }
        (Cure::Throttle { key, to, .. }, _) => throttle(plane, &intent, key, *to).await,
        (Cure::Lanes { item, from, to }, _) => {
            change_lanes(plane, &item.slice, item.poll, (*from, *to)).await
        }
        _ => Ok("nothing to do".to_owned()),
    };
    done.map(CureOutcome::Done)
}

async fn throttle(plane: &ControlPlane, intent: &Intent, key: &KeyId, to: f64) -> Result<String> {
    let per_second = to.max(1.0) as u64;
    let seconds = plane.settings().hotspots.throttle_seconds;
    let until = plane.now().plus_seconds(seconds);
    let throttle = KeyThrottle {
        calls_per_second: per_second,
        until,
    };
    keys::throttle(plane, intent, key, Some(throttle)).await?;
    Ok(format!(
        "{key} is throttled to {per_second} calls/s until {until}"
    ))
}

/// Gives a poll's counters more or fewer lanes. A change made in the meantime
/// stays: a cure never reverts another one.
async fn change_lanes(
    plane: &ControlPlane,
    slice: &SliceId,
    poll: PollId,
    (from, to): (u16, u16),
) -> Result<String> {
    let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
    let (at, shard) = locate_poll(&tenant, poll)?;
    let shard = migration_backends(plane)?
        .shards
        .shard(&shard)
        .map_err(Error::from)?;
    let known = shard.poll(&at.slice, poll).await.map_err(Error::from)?;
    let has = known.spec.options.lanes;
    let changed = match to >= from {
        true if has < to => shard.widen_lanes(&at, poll, to).await,
        false if has > to => shard.narrow_lanes(&at, poll, to).await,
        _ => {
            return Ok(format!(
                "{poll} already has {}",
                count_noun(has.into(), "lane")
            ));
        }
    };
    let lanes = changed.map_err(Error::from)?.spec.options.lanes;
    let lanes = count_noun(lanes.into(), "lane");
    Ok(format!("{poll} has {lanes} instead of {has}"))
}

fn locate_poll(tenant: &Tenant, poll: PollId) -> Result<(FencedSlice, ballast_domain::ShardId)> {
    let slice = find_slice(&tenant.slices, poll).ok_or_else(|| {
        let detail = format!("tenant {} has no slice for {poll}", tenant.tenant_id);
        Error::new(ErrorCode::PollNotFound, detail)
    })?;
    let at = FencedSlice {
        slice: SliceId {
            tenant_id: tenant.tenant_id.clone(),
            slice: slice.slice,
        },
        epoch: slice.epoch,
    };
    Ok((at, slice.shard_id.clone()))
}

/// Splits a tenant, unless it has that many slices or is being split.
async fn begin_split(
    plane: &ControlPlane,
    intent: &Intent,
    slice: &SliceId,
    aim: u64,
) -> Result<String> {
    let id = &slice.tenant_id;
    let tenant = tenants::get(plane, id).await?.value;
    let into = u32::try_from(aim).unwrap_or(SLICES_PER_TENANT_MAX);
    let is_begun = tenant.slicing.is_some_and(|slicing| slicing.into == into);
    if !is_begun && (tenant.slices.len() as u64) < aim {
        let wanted = SlicingRequest::Split { into, spread: true };
        requests::begin(plane, intent, id, wanted).await?;
    }
    Ok(format!("{id} is being split into {into} slices"))
}

/// Reads the result of a split, once it has ended: the slice count when all cuts are
/// made and the moved slices are cut over, or why it was given up.
pub(crate) async fn read_split_result(
    plane: &ControlPlane,
    slice: &SliceId,
) -> Result<Option<std::result::Result<usize, String>>> {
    let tenant = tenants::get(plane, &slice.tenant_id).await?.value;
    let is_there = |part: &ballast_domain::tenant::Slice| {
        let phase = part.moving.as_ref().map(|moving| moving.phase);
        phase.is_none_or(|phase| matches!(phase, MigrationPhase::Window | MigrationPhase::Cleaning))
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

/// Counts a region's shards that accept slices.
pub(crate) fn count_active_shards(snapshot: &VersionedFleet, region: &RegionId) -> u64 {
    let shards = snapshot.shards().iter().map(|shard| &shard.value);
    shards.filter(|shard| is_active_in(shard, region)).count() as u64
}

fn is_active_in(shard: &Shard, region: &RegionId) -> bool {
    shard.region == *region && shard.state == ShardState::Active
}

/// Adds embedded shards up to the target count, if the region has embedded shards.
/// Elsewhere an operator has to add them and is asked to.
async fn add_shards(
    plane: &ControlPlane,
    intent: &Intent,
    region: &RegionId,
    aim: u64,
) -> Result<CureOutcome> {
    let snapshot = plane.fleet().refresh(plane.registry()).await?;
    let missing = aim.saturating_sub(count_active_shards(&snapshot, region));
    if missing == 0 {
        return Ok(CureOutcome::Done(format!(
            "{region} has {aim} active shards"
        )));
    }
    let mut shards = snapshot.shards().iter().map(|shard| &shard.value);
    let like = shards.find(|shard| is_active_in(shard, region) && shard.url.starts_with(EMBEDDED));
    let Some(like) = like else {
        return Ok(CureOutcome::Needs(ShardRequest {
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
    Ok(CureOutcome::Done(format!("added {names} to {region}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may die between applying a cure and recording it, and then applies it again.
    #[tokio::test]
    async fn applying_a_cure_again_adds_no_more_than_its_target() {
        let (_directory, plane, _) = crate::testing::plane().await;
        let region: RegionId = "local".parse().unwrap();
        let count = || async {
            let snapshot = plane.fleet().refresh(plane.registry()).await.unwrap();
            count_active_shards(&snapshot, &region)
        };
        let before = count().await;
        let cure = Cure::AddShards {
            region: region.clone(),
            count: 2,
        };
        let aimed = compute_cure_target(&plane, &cure).await.unwrap();
        assert_eq!(aimed, Some(before + 2));
        for _ in 0..2 {
            let acted = apply_cure(&plane, "plan-1", &cure, aimed).await.unwrap();
            assert!(matches!(acted, CureOutcome::Done(_)));
            assert_eq!(count().await, before + 2);
        }
    }
}
