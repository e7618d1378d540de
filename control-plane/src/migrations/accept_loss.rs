//! Whether it may be accepted that what only a move's target has is lost. It is
//! the last way, and must not be the easy one: whoever can have the slice back
//! with everything is refused.

use ballast_domain::migration::Migration;
use ballast_domain::moving::{Moving, Phase};
use ballast_domain::{Error, ErrorCode, Result};
use ballast_migration_engine::copy::Copied;
use ballast_migration_engine::ports::Records as _;
use ballast_migration_engine::worker::{Fitness, fitness};

use super::ask::is_unclear;
use super::movers;
use super::records::SliceRecords;
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// Refuses it unless the slice is at a target that cannot be sealed and drained.
pub(super) async fn check(
    plane: &ControlPlane,
    intent: &Intent,
    migration: &Migration,
) -> Result<()> {
    if intent.reason.is_none() {
        let message = "it is needed: votes are given up for it";
        let error = Error::invalid_field("?reason", message);
        return Err(error.next("Say why, for the audit log and the certificate (--reason)."));
    }
    if migration.is_over() || migration.asked.accept_loss.is_some() {
        // What follows of that is said where everything else is.
        return Ok(());
    }
    let slice = migration.slice_id();
    let seen = SliceRecords::new(plane.clone()).read(&slice).await?;
    let moving = seen.and_then(|seen| seen.route.moving);
    if let Some(why) = is_elsewhere(migration, moving.as_ref()) {
        let detail = format!("move {} {why}", migration.migration_id);
        return Err(Error::new(ErrorCode::WrongPhase, detail));
    }
    if is_unclear(migration) {
        let to = &migration.to;
        let detail = format!(
            "{to} answers, and nothing of it has to be given up: nobody can say which side is right"
        );
        let error = Error::new(ErrorCode::LossNotNeeded, detail);
        return Err(error.next("Look at the findings (migration show); to complete the move keeps what the target has."));
    }
    let shards = &*movers(plane)?.shards;
    let to = &migration.to;
    // It was tried without, and does not get on because of the target. The shard to
    // go back to being away is no reason to give anything up.
    let waits = migration.waiting_for.as_deref().unwrap_or_default();
    if migration.asked.back.is_some() && waits.contains(&format!("{to}: ")) {
        return Ok(());
    }
    match fitness(shards, &slice, to, &Copied::default()).await {
        Fitness::Unfit(_) => Ok(()),
        Fitness::Starting => {
            let detail = format!("{to} is starting: whether anything is lost is not known yet");
            Err(Error::new(ErrorCode::Unavailable, detail).retry_after(5))
        }
        Fitness::Fit => {
            let detail = format!("{to} answers: the slice can be brought back with all votes");
            Err(Error::new(ErrorCode::LossNotNeeded, detail))
        }
    }
}

/// Why there is nothing to give up, if there is not: pure.
fn is_elsewhere(migration: &Migration, moving: Option<&Moving>) -> Option<&'static str> {
    let id = &migration.migration_id;
    let (Some(moving), back) = (moving, id.back()) else {
        return Some("is not at work on its slice");
    };
    match moving.phase {
        Phase::Window if moving.move_id == *id => None,
        Phase::Copying | Phase::Sealing { .. } if moving.move_id == *id => {
            Some("has not been cut over: cancel it instead")
        }
        Phase::Copying | Phase::Sealing { .. } if moving.move_id == back => None,
        Phase::Window | Phase::Cleaning if moving.move_id == back => {
            Some("is back with all votes: only the other copy is not removed yet")
        }
        Phase::Cleaning => Some("removes the source's copy already"),
        _ => Some("is being called off"),
    }
}
