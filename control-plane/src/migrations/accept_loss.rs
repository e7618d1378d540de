//! Checks whether an operator may accept losing what only a migration's target
//! has. This is the last resort and must not be the easy way out: the request is
//! rejected while the slice can still be brought back complete.

use ballast_domain::migration::Migration;
use ballast_domain::moving::{ActiveMigration, MigrationPhase};
use ballast_domain::{Error, ErrorCode, Result};
use ballast_migration_engine::copy::CopyProgress;
use ballast_migration_engine::ports::RouteStore as _;
use ballast_migration_engine::worker::{OwnerHealth, check_owner};

use super::commands::is_unclear;
use super::migration_backends;
use super::slice_records::SliceRecords;
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// Rejects the request unless the slice is at a target that cannot be sealed and drained.
pub(super) async fn check_loss_is_needed(
    plane: &ControlPlane,
    intent: &Intent,
    migration: &Migration,
) -> Result<()> {
    if intent.reason.is_none() {
        let message = "required: this gives votes up";
        let error = Error::invalid_field("?reason", message);
        return Err(
            error.with_next_step("Say why, for the audit log and the certificate (--reason).")
        );
    }
    if migration.is_over() || migration.asked.accept_loss.is_some() {
        // `requests_after` checks the consequences.
        return Ok(());
    }
    let slice = migration.slice_id();
    let seen = SliceRecords::new(plane.clone()).read(&slice).await?;
    let moving = seen.and_then(|seen| seen.route.moving);
    if let Some(why) = loss_refusal(migration, moving.as_ref()) {
        let detail = format!("migration {} {why}", migration.migration_id);
        return Err(Error::new(ErrorCode::WrongPhase, detail));
    }
    if is_unclear(migration) {
        let to = &migration.to;
        let detail = format!(
            "{to} answers, so it need not be abandoned: the checks cannot tell which side is right"
        );
        let error = Error::new(ErrorCode::LossNotNeeded, detail);
        return Err(error.with_next_step("Look at the findings (migration show); completing the migration keeps what the target has."));
    }
    let shards = &*migration_backends(plane)?.shards;
    let to = &migration.to;
    // Going back with everything was tried, and fails because of the target. An
    // unreachable source is no reason to abandon the target.
    let waits = migration.waiting_for.as_deref().unwrap_or_default();
    if migration.asked.back.is_some() && waits.contains(&format!("{to}: ")) {
        return Ok(());
    }
    match check_owner(shards, &slice, to, &CopyProgress::default()).await {
        OwnerHealth::Unhealthy(_) => Ok(()),
        OwnerHealth::Starting => {
            let detail = format!("{to} is starting: it is not known yet whether anything is lost");
            Err(Error::new(ErrorCode::Unavailable, detail).retry_after(5))
        }
        OwnerHealth::Healthy => {
            let detail = format!("{to} answers: the slice can be brought back with all votes");
            Err(Error::new(ErrorCode::LossNotNeeded, detail))
        }
    }
}

/// Why the target cannot be abandoned, if so. Pure.
fn loss_refusal(migration: &Migration, moving: Option<&ActiveMigration>) -> Option<&'static str> {
    let id = &migration.migration_id;
    let (Some(moving), back) = (moving, id.way_back()) else {
        return Some("does not hold its slice");
    };
    match moving.phase {
        MigrationPhase::Window if moving.migration_id == *id => None,
        MigrationPhase::Copying | MigrationPhase::Sealing { .. } if moving.migration_id == *id => {
            Some("has not been cut over: cancel it instead")
        }
        MigrationPhase::Copying | MigrationPhase::Sealing { .. } if moving.migration_id == back => {
            None
        }
        MigrationPhase::Window | MigrationPhase::Cleaning if moving.migration_id == back => {
            Some("is back with all votes; only the other copy remains to be removed")
        }
        MigrationPhase::Cleaning => Some("is already removing the source's copy"),
        _ => Some("is being cancelled"),
    }
}
