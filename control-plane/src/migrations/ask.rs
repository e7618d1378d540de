//! What operators ask of moves that run. It is written into the move's record;
//! whoever works on the move finds it there and acts on it.

use ballast_domain::migration::{Asked, Back, BackHow, LeftBehind, Migration, Stage, Word};
use ballast_domain::moving::MoveId;
use ballast_domain::{Error, ErrorCode, Result};
use ballast_migration_engine::steps::UNCLEAR;

use super::accept_loss;
use super::admit::FOR_POLLS;
use super::body::{self, MigrationBody};
use super::{FOR_RESUME, get};
use crate::change::{Attempts, Edit, IfMatch};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Not to go on for now.
    Pause,
    /// To go on.
    Resume,
    /// That it may begin.
    Approve,
    /// To leave everything as it was.
    Cancel,
    /// To bring the slice back.
    Reverse,
    /// To bring it back also without what only the target has, should that be
    /// away for good.
    AcceptLoss,
    /// To end the window now.
    Complete,
    /// To end it also if the source is away.
    WithoutSource,
    /// To remove the copy that was given up.
    Discard,
}

impl Ask {
    fn action(self) -> &'static str {
        match self {
            Self::Pause => "migration.pause",
            Self::Resume => "migration.resume",
            Self::Approve => "migration.approve",
            Self::Cancel => "migration.cancel",
            Self::Reverse => "migration.reverse",
            Self::AcceptLoss => "migration.acceptLoss",
            Self::Complete => "migration.complete",
            Self::WithoutSource => "migration.completeWithoutSource",
            Self::Discard => "migration.discard",
        }
    }
}

/// Asks something of a move. What was asked before is not asked again.
pub async fn ask(
    plane: &ControlPlane,
    intent: &Intent,
    id: &MoveId,
    if_match: &IfMatch,
    ask: Ask,
) -> Result<MigrationBody> {
    let mut attempts = Attempts::new(plane, intent, ask.action(), if_match);
    loop {
        let old = get(plane, id).await?;
        if ask == Ask::AcceptLoss {
            accept_loss::check(plane, intent, &old.value).await?;
        }
        let word = Word {
            actor: intent.actor.clone(),
            reason: intent.reason.clone(),
            at: plane.now(),
        };
        let asked = asked(&old.value, ask, word)?;
        let value = Migration {
            waiting_for: waiting_for(&old.value, &asked),
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
            return body::shown(plane, done).await;
        }
    }
}

/// What a move waits for once this is asked of it, as far as is known before
/// whoever works on it has looked: pure.
fn waiting_for(migration: &Migration, asked: &Asked) -> Option<String> {
    if asked.paused.is_some() {
        return Some(FOR_RESUME.to_owned());
    }
    // It has been answered: whatever else there is to wait for, is told then.
    let before = &migration.asked;
    let is_answered = before.paused.is_some()
        || asked.approved != before.approved
        || asked.back != before.back
        || asked.accept_loss != before.accept_loss
        || asked.complete != before.complete
        || asked.without_source != before.without_source;
    let waits = migration.waiting_for.clone();
    waits.filter(|_| !is_answered)
}

/// What was asked of a move by then: pure.
fn asked(migration: &Migration, ask: Ask, word: Word) -> Result<Asked> {
    let mut asked = migration.asked.clone();
    let refuse = |why: &str| {
        let detail = format!("move {} {why}", migration.migration_id);
        Err(Error::new(ErrorCode::WrongPhase, detail))
    };
    let rather = |verb: &str, why: &str| {
        let id = &migration.migration_id;
        let error = Error::new(ErrorCode::WrongPhase, format!("move {id} {why}"));
        Err(error.next(format!("Ask for that: migration {verb} {id}.")))
    };
    if ask == Ask::Discard {
        return match migration.left_behind {
            Some(LeftBehind::Away | LeftBehind::Kept) => {
                asked.discard.get_or_insert(word);
                Ok(asked)
            }
            Some(LeftBehind::Gone) | None => refuse("has left nothing behind"),
        };
    }
    if let Some(ended) = &migration.ended {
        return refuse(&format!("is over: {}", ended.status));
    }
    match ask {
        Ask::Pause => {
            if asked.back.is_some() {
                return refuse("is on its way back, which is not paused");
            }
            asked.paused.get_or_insert(word);
        }
        Ask::Resume => asked.paused = None,
        Ask::Approve => {
            let waits = migration.waiting_for.as_deref().unwrap_or_default();
            if !migration.terms.needs_approval && !waits.starts_with(FOR_POLLS) {
                return refuse("needs no approval");
            }
            asked.approved.get_or_insert(word);
        }
        Ask::Cancel => match migration.stage {
            Stage::CutOver if asked.back.is_some() => {
                return refuse("is on its way back already: it ends there");
            }
            Stage::Asked | Stage::Admitted => back(&mut asked, BackHow::Cancel, word),
            Stage::CutOver => return rather("reverse", "has been cut over: reverse it instead"),
            Stage::Cleaning | Stage::Ended => return refuse("removes the source's copy already"),
        },
        Ask::Reverse => match migration.stage {
            Stage::Asked | Stage::Admitted => {
                return rather("cancel", "has not been cut over: cancel it instead");
            }
            Stage::CutOver => {
                asked.stay = None;
                back(&mut asked, BackHow::Reverse, word);
            }
            Stage::Cleaning | Stage::Ended => return refuse("removes the source's copy already"),
        },
        // Where the slice is was looked at before (`accept_loss.rs`): it may be
        // at its target before that is written down here.
        Ask::AcceptLoss => match migration.stage {
            Stage::Asked | Stage::Admitted | Stage::CutOver => {
                back(&mut asked, BackHow::Reverse, word.clone());
                asked.accept_loss.get_or_insert(word);
            }
            Stage::Cleaning | Stage::Ended => return refuse("removes the source's copy already"),
        },
        // It was answered before.
        Ask::Discard => {}
        Ask::Complete | Ask::WithoutSource => match migration.stage {
            // It cannot go back, and somebody has looked.
            Stage::CutOver if asked.back.is_some() && is_unclear(migration) => {
                asked.back = None;
                asked.accept_loss = None;
                asked.complete = Some(word);
            }
            // It does not get on, and votes matter more: it stays where it is.
            Stage::CutOver if asked.back.is_some() && migration.waiting_for.is_some() => {
                asked.back = None;
                asked.accept_loss = None;
                if ask == Ask::WithoutSource {
                    asked.without_source.get_or_insert(word.clone());
                }
                asked.stay = Some(word.clone());
                asked.complete = Some(word);
            }
            _ if asked.back.is_some() => return refuse("is on its way back"),
            Stage::Asked | Stage::Admitted => {
                return refuse("has no window to end: it has not been cut over");
            }
            Stage::CutOver | Stage::Cleaning | Stage::Ended => {
                // Said again after something was found, it is said anew.
                let found = migration.findings.last().map(|found| found.at);
                let before = |said: &Word| found.is_none_or(|found| said.at > found);
                if ask == Ask::WithoutSource {
                    asked.without_source.get_or_insert(word.clone());
                }
                asked.complete = asked.complete.filter(before).or(Some(word));
                asked.paused = None;
            }
        },
    }
    Ok(asked)
}

/// Whether a way back waits because nobody can say which side is right.
pub(super) fn is_unclear(migration: &Migration) -> bool {
    let last = migration.findings.last();
    migration.waiting_for.is_some() && last.is_some_and(|found| found.then == UNCLEAR)
}

fn back(asked: &mut Asked, how: BackHow, word: Word) {
    asked.back.get_or_insert(Back { how, word });
    asked.paused = None;
}
