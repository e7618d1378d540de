//! Operator commands on running migrations. A command is written into the
//! migration's record; the worker reads it there and acts on it.

use ballast_domain::migration::{
    LeftoverState, Migration, MigrationRequests, MigrationStage, OperatorRequest, ReturnKind,
    ReturnRequest,
};
use ballast_domain::moving::MigrationId;
use ballast_domain::{Error, ErrorCode, Result};
use ballast_migration_engine::steps::UNCLEAR;

use super::accept_loss;
use super::admit::WAIT_FOR_POLLS;
use super::begin::check_reason_to_start_now;
use super::body::{self, MigrationBody};
use super::{FOR_RESUME, WAIT_FOR_MAINTENANCE, get};
use crate::change::{Attempts, Edit, IfMatch};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// A command on a running migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationCommand {
    /// Pause.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Allow it to start.
    Approve,
    /// Allow it to start outside of the maintenance windows, too.
    StartNow,
    /// Stop before the cutover and leave everything as it was.
    Cancel,
    /// Bring the slice back after the cutover.
    Reverse,
    /// Bring it back even if that loses what only the target has, in case the target
    /// is gone for good.
    AcceptLoss,
    /// End the dual-read window now.
    Complete,
    /// End it even if the source is unreachable.
    WithoutSource,
    /// Remove the copy of the abandoned shard.
    Discard,
}

impl MigrationCommand {
    fn action(self) -> &'static str {
        match self {
            Self::Pause => "migration.pause",
            Self::Resume => "migration.resume",
            Self::Approve => "migration.approve",
            Self::StartNow => "migration.startNow",
            Self::Cancel => "migration.cancel",
            Self::Reverse => "migration.reverse",
            Self::AcceptLoss => "migration.acceptLoss",
            Self::Complete => "migration.complete",
            Self::WithoutSource => "migration.completeWithoutSource",
            Self::Discard => "migration.discard",
        }
    }
}

/// Records a command on a migration. Repeating a command changes nothing.
pub async fn apply_command(
    plane: &ControlPlane,
    intent: &Intent,
    id: &MigrationId,
    if_match: &IfMatch,
    ask: MigrationCommand,
) -> Result<MigrationBody> {
    let mut attempts = Attempts::new(plane, intent, ask.action(), if_match);
    loop {
        let old = get(plane, id).await?;
        if ask == MigrationCommand::AcceptLoss {
            accept_loss::check_loss_is_needed(plane, intent, &old.value).await?;
        }
        check_reason_to_start_now(ask == MigrationCommand::StartNow, intent)?;
        let word = OperatorRequest {
            actor: intent.actor.clone(),
            reason: intent.reason.clone(),
            at: plane.now(),
        };
        let asked = requests_after(&old.value, ask, word)?;
        let value = Migration {
            waiting_for: wait_reason_after(&old.value, &asked),
            asked,
            ..old.value.clone()
        };
        let writes = match value == old.value {
            true => Vec::new(),
            false => vec![typed::update(old.version, &value)?],
        };
        let edit = Edit {
            old: old.version,
            value,
            writes,
            expects: Vec::new(),
        };
        if let Some(done) = attempts.commit(edit).await? {
            return body::load_body(plane, done).await;
        }
    }
}

/// What a migration waits for after this command, as far as that is known before
/// the worker has reacted. Pure.
fn wait_reason_after(migration: &Migration, asked: &MigrationRequests) -> Option<String> {
    if asked.paused.is_some() {
        return Some(FOR_RESUME.to_owned());
    }
    // The command answers the wait; the worker reports any further wait.
    let before = &migration.asked;
    let is_answered = before.paused.is_some()
        || asked.approved != before.approved
        || asked.start_now != before.start_now
        || asked.back != before.back
        || asked.accept_loss != before.accept_loss
        || asked.complete != before.complete
        || asked.without_source != before.without_source;
    let waits = migration.waiting_for.clone();
    waits.filter(|_| !is_answered)
}

/// The requests on a migration after this command. Pure.
fn requests_after(
    migration: &Migration,
    command: MigrationCommand,
    request: OperatorRequest,
) -> Result<MigrationRequests> {
    let mut asked = migration.asked.clone();
    if command == MigrationCommand::Discard {
        return match migration.left_behind {
            Some(LeftoverState::Away | LeftoverState::Kept) => {
                asked.discard.get_or_insert(request);
                Ok(asked)
            }
            Some(LeftoverState::Gone) | None => Err(refuse(migration, "left no copy")),
        };
    }
    if let Some(ended) = &migration.ended {
        return Err(refuse(migration, &format!("is over: {}", ended.status)));
    }
    match command {
        MigrationCommand::Pause => {
            if asked.back.is_some() {
                let why = "is being brought back, which cannot be paused";
                return Err(refuse(migration, why));
            }
            asked.paused.get_or_insert(request);
        }
        MigrationCommand::Resume => asked.paused = None,
        MigrationCommand::Approve => {
            let waits = migration.waiting_for.as_deref().unwrap_or_default();
            if !migration.terms.needs_approval && !waits.starts_with(WAIT_FOR_POLLS) {
                return Err(refuse_approval(migration));
            }
            asked.approved.get_or_insert(request);
        }
        MigrationCommand::StartNow => {
            if migration.stage != MigrationStage::Asked {
                return Err(refuse(migration, "has started already"));
            }
            if migration.terms.needs_approval {
                asked.approved.get_or_insert_with(|| request.clone());
            }
            asked.start_now.get_or_insert(request);
        }
        MigrationCommand::Cancel => request_cancellation(migration, &mut asked, request)?,
        MigrationCommand::Reverse | MigrationCommand::AcceptLoss => {
            request_reversal(migration, &mut asked, command, request)?;
        }
        MigrationCommand::Complete | MigrationCommand::WithoutSource => {
            request_completion(migration, &mut asked, command, request)?;
        }
        // Handled above.
        MigrationCommand::Discard => {}
    }
    Ok(asked)
}

fn refuse(migration: &Migration, why: &str) -> Error {
    let detail = format!("migration {} {why}", migration.migration_id);
    Error::new(ErrorCode::WrongPhase, detail)
}

/// Refuses an approval that a migration does not need, and says what it waits for.
fn refuse_approval(migration: &Migration) -> Error {
    let Some(waits) = &migration.waiting_for else {
        return refuse(migration, "needs no approval, and waits for nothing");
    };
    let error = refuse(
        migration,
        &format!("needs no approval: it waits for {waits}"),
    );
    let id = &migration.migration_id;
    match waits.as_str() {
        FOR_RESUME => error.with_next_step(format!("Use: migration resume {id}.")),
        waits if waits.starts_with(WAIT_FOR_MAINTENANCE) => error.with_next_step(format!(
            "To start it before that: migration approve {id} --now --reason TEXT."
        )),
        _ => error,
    }
}

const REMOVES_SOURCE: &str = "is already removing the source's copy";

fn request_cancellation(
    migration: &Migration,
    asked: &mut MigrationRequests,
    request: OperatorRequest,
) -> Result<()> {
    match migration.stage {
        MigrationStage::Asked | MigrationStage::Admitted => {
            request_return(asked, ReturnKind::Cancel, request);
            Ok(())
        }
        MigrationStage::CutOver if asked.back.is_some() => {
            Err(refuse(migration, "is already being brought back"))
        }
        MigrationStage::CutOver => {
            let error = refuse(migration, "has been cut over: reverse it instead");
            let id = &migration.migration_id;
            Err(error.with_next_step(format!("Use: migration reverse {id}.")))
        }
        MigrationStage::Cleaning | MigrationStage::Ended => Err(refuse(migration, REMOVES_SOURCE)),
    }
}

fn request_reversal(
    migration: &Migration,
    asked: &mut MigrationRequests,
    command: MigrationCommand,
    request: OperatorRequest,
) -> Result<()> {
    let accepts_loss = command == MigrationCommand::AcceptLoss;
    match migration.stage {
        MigrationStage::Cleaning | MigrationStage::Ended => Err(refuse(migration, REMOVES_SOURCE)),
        // `accept_loss.rs` has checked where the slice is: it may be at the target
        // before this record says so.
        MigrationStage::Asked | MigrationStage::Admitted | MigrationStage::CutOver
            if accepts_loss =>
        {
            request_return(asked, ReturnKind::Reverse, request.clone());
            asked.accept_loss.get_or_insert(request);
            Ok(())
        }
        MigrationStage::Asked | MigrationStage::Admitted => {
            let error = refuse(migration, "has not been cut over: cancel it instead");
            let id = &migration.migration_id;
            Err(error.with_next_step(format!("Use: migration cancel {id}.")))
        }
        MigrationStage::CutOver => {
            asked.stay = None;
            request_return(asked, ReturnKind::Reverse, request);
            Ok(())
        }
    }
}

fn request_completion(
    migration: &Migration,
    asked: &mut MigrationRequests,
    command: MigrationCommand,
    request: OperatorRequest,
) -> Result<()> {
    let without_source = command == MigrationCommand::WithoutSource;
    match migration.stage {
        // It cannot go back, and an operator has looked at the findings.
        MigrationStage::CutOver if asked.back.is_some() && is_unclear(migration) => {
            asked.back = None;
            asked.accept_loss = None;
            asked.complete = Some(request);
        }
        // Bringing it back does not progress, and availability matters more: stay.
        MigrationStage::CutOver if asked.back.is_some() && migration.waiting_for.is_some() => {
            asked.back = None;
            asked.accept_loss = None;
            if without_source {
                asked.without_source.get_or_insert(request.clone());
            }
            asked.stay = Some(request.clone());
            asked.complete = Some(request);
        }
        _ if asked.back.is_some() => return Err(refuse(migration, "is being brought back")),
        MigrationStage::Asked | MigrationStage::Admitted => {
            let why = "has no window to end: it has not been cut over";
            return Err(refuse(migration, why));
        }
        MigrationStage::CutOver | MigrationStage::Cleaning | MigrationStage::Ended => {
            // A command repeated after a new finding counts as a new decision.
            let found = migration.findings.last().map(|found| found.at);
            let is_current =
                |earlier: &OperatorRequest| found.is_none_or(|found| earlier.at > found);
            if without_source {
                asked.without_source.get_or_insert(request.clone());
            }
            let earlier = asked.complete.take().filter(is_current);
            asked.complete = earlier.or(Some(request));
            asked.paused = None;
        }
    }
    Ok(())
}

/// Whether bringing the slice back waits because the checks cannot tell which
/// side is right.
pub(super) fn is_unclear(migration: &Migration) -> bool {
    let last = migration.findings.last();
    migration.waiting_for.is_some() && last.is_some_and(|found| found.then == UNCLEAR)
}

fn request_return(asked: &mut MigrationRequests, how: ReturnKind, word: OperatorRequest) {
    asked.back.get_or_insert(ReturnRequest { how, word });
    asked.paused = None;
}
