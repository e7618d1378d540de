//! Part of *Rollback*: abandons an owner that is permanently gone. Either an operator
//! has accepted that writes only it has are lost, or no acknowledged write is lost
//! because both sides had to have it. The loss is recorded before the slice's record
//! is freed.

use std::time::Duration;

use ballast_domain::certificate::AcceptedLoss;
use ballast_domain::migration::{
    LeftoverState, Migration, MigrationFinding, OperatorRequest, StreamedBack,
};
use ballast_domain::moving::SliceRoute;
use ballast_domain::{Actor, ShardId, Timestamp};
use ballast_state_machines::engine::{TaskContext, TaskError};

use super::monitor_dual_read::streamed_back;
use super::{MigrationSteps, StepInput, UNAVAILABLE, to_task_error, with_heartbeats};
use crate::copy::CopyProgress;
use crate::worker::{
    AbandonOutcome, LeasedMigration, MigrationError, MigrationWorker, OwnerHealth, check_owner,
};

/// How long to try to read what can still be read from an owner.
const READ_REMAINING_MS: i64 = 600_000;
/// How long one page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The owner in a rollback, which may have to be abandoned.
pub(super) struct UnavailableOwner<'a> {
    pub(super) steps: &'a MigrationSteps,
    pub(super) input: &'a StepInput,
    pub(super) context: &'a TaskContext,
    pub(super) migration: &'a Migration,
    pub(super) job: &'a LeasedMigration,
}

impl UnavailableOwner<'_> {
    /// Whether the owner may and has to be abandoned. If it answers again, the slice
    /// goes back with everything.
    pub(super) async fn must_be_abandoned(&self) -> Result<bool, TaskError> {
        let route = self.steps.worker.read_route(&self.job.slice).await;
        let route = route.map_err(to_task_error)?;
        if is_abandoned(&route) {
            return Ok(true);
        }
        if self.migration.asked.accept_loss.is_none() && !is_synced(&route) {
            return Ok(false);
        }
        let (slice, owner, back) = (
            &self.job.slice,
            &self.migration.to,
            self.stream_back_progress(),
        );
        let asked = check_owner(self.steps.worker.shards(), slice, owner, &back);
        match with_heartbeats(self.context, asked).await {
            OwnerHealth::Healthy => Ok(false),
            OwnerHealth::Unhealthy(_) => Ok(true),
            OwnerHealth::Starting => {
                let why = format!("{owner} is starting: it is not known yet whether it is usable");
                Err(TaskError::new(UNAVAILABLE, why))
            }
        }
    }

    /// Whether reversing failed repeatedly because of the owner, and an operator has
    /// accepted the loss. A single failure can be temporary, and must not cost votes.
    pub(super) fn caused_failure(&self, error: &TaskError) -> bool {
        let before = self.migration.waiting_for.as_deref();
        self.migration.asked.accept_loss.is_some()
            && is_repeated_failure(error, before, &self.migration.to)
    }

    /// Abandons the owner, and returns the migration's record; `None` if there was
    /// nothing to abandon.
    pub(super) async fn abandon(&self) -> Result<Option<Migration>, TaskError> {
        let (steps, migration) = (self.steps, self.migration);
        let rescued = self.copy_what_is_readable().await;
        let abandoning = steps
            .worker
            .take_back_without_owner(self.job, migration.asked.accept_loss.is_some());
        let gone = with_heartbeats(self.context, abandoning)
            .await
            .map_err(to_task_error)?;
        let noted = match (gone, &migration.given_up) {
            // A worker that crashed has recorded the loss already.
            (_, Some(_)) => migration.clone(),
            (AbandonOutcome::NotApplicable, None) => return Ok(None),
            (gone @ AbandonOutcome::Abandoned { .. }, None) => {
                match self.to_accepted_loss(&gone, rescued) {
                    Some(lost) => self.record_loss(lost).await?,
                    None => return Ok(None),
                }
            }
        };
        steps
            .worker
            .release_abandoned(self.job)
            .await
            .map_err(to_task_error)?;
        Ok(Some(noted))
    }

    async fn record_loss(&self, lost: AcceptedLoss) -> Result<Migration, TaskError> {
        let (id, shard, actor) = (&self.migration.migration_id, &lost.shard, &lost.actor.name);
        match lost.synced {
            true => {
                tracing::warn!(%id, %shard, "abandoned a shard without losing acknowledged votes")
            }
            false => {
                tracing::error!(%id, %shard, accepted_by = %actor, after = %lost.after, "abandoned a shard, acknowledged votes are lost: see `ballast migration show`");
            }
        }
        let finding = MigrationFinding {
            at: lost.at,
            phase: "Rollback".to_owned(),
            shard: lost.shard.clone(),
            what: format!("it could not be drained, and {}", lost.describe()),
            then: format!("{} owns the slice without it", self.migration.from),
        };
        let edit = move |migration: &mut Migration| {
            if migration.given_up.is_none() {
                migration.given_up = Some(lost.clone());
                migration.left_behind = Some(LeftoverState::Away);
                migration.record_finding(finding.clone());
            }
        };
        let steps = self.steps;
        steps
            .update_record(self.migration, "migration.giveUp", edit)
            .await
    }

    /// Copies what can still be read from the owner although it cannot be sealed: an
    /// owner whose disk is full or read-only still has everything.
    async fn copy_what_is_readable(&self) -> Option<StreamedBack> {
        let mut back = self.stream_back_progress();
        let saved = with_heartbeats(self.context, self.copy_remaining(&mut back)).await;
        if let Err(error) = saved {
            let id = &self.migration.migration_id;
            tracing::info!(%id, %error, "cannot read more from the owner");
        }
        streamed_back(&back)
    }

    async fn copy_remaining(&self, back: &mut CopyProgress) -> Result<(), MigrationError> {
        let worker = &self.steps.worker;
        let way_back = LeasedMigration {
            migration_id: self.job.migration_id.way_back(),
            ..self.job.clone()
        };
        // From the owner to the copy, whether the forward or the reverse migration is
        // active.
        let (job, record, sides) = match worker.active_sides(&way_back).await? {
            Some((record, sides)) => (&way_back, record, sides),
            None => match worker.active_sides(self.job).await? {
                Some((record, sides)) => (self.job, record, sides.swap_roles()),
                None => return Ok(()),
            },
        };
        let token = MigrationWorker::command_token(job, &record);
        let began = self.steps.clock.now();
        while self.steps.now_ms() < began.unix_ms() + READ_REMAINING_MS {
            let page =
                tokio::time::timeout(PAGE_TIMEOUT, sides.copy_page(&job.slice, &token, back));
            let Ok(carried) = page.await else {
                // Reads from a dead disk hang.
                return Ok(());
            };
            if carried?.caught_up {
                back.complete_before = Some(began);
                return Ok(());
            }
        }
        Ok(())
    }

    fn to_accepted_loss(
        &self,
        gone: &AbandonOutcome,
        rescued: Option<StreamedBack>,
    ) -> Option<AcceptedLoss> {
        let AbandonOutcome::Abandoned {
            epoch,
            present,
            synced,
        } = *gone
        else {
            return None;
        };
        let word = self.decision();
        let figures = &self.migration.figures;
        let known = latest(rescued, figures.streamed_back);
        let cutover = figures.cut_over_at;
        Some(AcceptedLoss {
            shard: self.migration.to.clone(),
            actor: word.actor,
            reason: word.reason,
            accepted_at: word.at,
            at: self.steps.clock.now(),
            epoch,
            after_position: known.map(|known| known.position),
            after: known_until(known, cutover.unwrap_or(self.migration.requested_at)),
            present,
            synced,
        })
    }

    /// Who decided it: an operator, or the migration itself where nothing is lost.
    fn decision(&self) -> OperatorRequest {
        let asked = &self.migration.asked;
        let back = asked.back.as_ref().map(|back| &back.word);
        let said = asked.accept_loss.as_ref().or(back).cloned();
        said.unwrap_or_else(|| OperatorRequest {
            actor: Actor::ballast("move"),
            reason: None,
            at: self.steps.clock.now(),
        })
    }

    /// How far the stream back was, from the previous task's output.
    fn stream_back_progress(&self) -> CopyProgress {
        StepInput::parse_part(&self.input.dual_read, "back").unwrap_or_default()
    }
}

fn is_abandoned(route: &SliceRoute) -> bool {
    let moving = route.moving.as_ref();
    moving.is_some_and(|moving| moving.gives_up && moving.migration_id.is_back())
}

/// Whether both sides have every acknowledged write, by the record. The update that
/// abandons the owner compares this record.
fn is_synced(route: &SliceRoute) -> bool {
    let moving = route.moving.as_ref();
    moving.is_some_and(|moving| moving.also_durable_on().is_some())
}

fn latest(one: Option<StreamedBack>, two: Option<StreamedBack>) -> Option<StreamedBack> {
    one.into_iter().chain(two).max_by_key(|known| known.before)
}

fn known_until(known: Option<StreamedBack>, cutover: Timestamp) -> Timestamp {
    known.map_or(cutover, |known| known.before.max(cutover))
}

/// Whether a worker failed because of this shard: the error starts with the shard's id
/// ([`crate::worker::MigrationError`]).
pub(super) fn is_caused_by(error: &TaskError, shard: &ShardId) -> bool {
    let rest = error.cause.strip_prefix(shard.as_str());
    rest.is_some_and(|rest| rest.starts_with(": "))
}

/// Whether a worker failed because of this shard, and the recorded wait says that it
/// had before.
pub(super) fn is_repeated_failure(
    error: &TaskError,
    before: Option<&str>,
    shard: &ShardId,
) -> bool {
    let named = format!("{shard}: ");
    is_caused_by(error, shard) && before.is_some_and(|why| why.contains(&named))
}

#[cfg(test)]
mod tests {
    use ballast_vote_shard::ShardError;

    use super::*;
    use crate::worker::MigrationError;

    #[test]
    fn the_failed_shard_is_recognized_in_the_error() {
        let shard = |name: &str| name.parse::<ShardId>().unwrap();
        let away = to_task_error(MigrationError::Shard {
            shard: shard("shard-1"),
            source: ShardError::unavailable("it is away"),
        });
        assert!(is_caused_by(&away, &shard("shard-1")));
        assert!(!is_caused_by(&away, &shard("shard-2")));
        assert!(!is_caused_by(&away, &shard("shard")));
        let other = TaskError::new("x", "it is unclear whether shard-1 is right");
        assert!(!is_caused_by(&other, &shard("shard-1")));
    }

    #[test]
    fn a_failure_counts_once_it_is_repeated() {
        let shard: ShardId = "shard-1".parse().unwrap();
        let error = TaskError::new("x", "shard-1: it is away");
        assert!(!is_repeated_failure(&error, None, &shard));
        let of_another = Some("a retry: shard-2: it is away (bringing it back)");
        assert!(!is_repeated_failure(&error, of_another, &shard));
        let of_it = Some("a retry: shard-1: it is full (bringing it back)");
        assert!(is_repeated_failure(&error, of_it, &shard));
    }

    #[test]
    fn the_latest_stream_position_is_used() {
        let at = Timestamp::from_unix_ms;
        let known = |position, ms| StreamedBack {
            position,
            before: at(ms),
        };
        let (early, late) = (known(5, 100), known(9, 200));
        assert_eq!(latest(Some(early), Some(late)), Some(late));
        assert_eq!(latest(Some(late), None), Some(late));
        assert_eq!(latest(None, None), None);
        // The other side has everything from before the cutover in any case.
        assert_eq!(known_until(None, at(150)), at(150));
        assert_eq!(known_until(Some(early), at(150)), at(150));
        assert_eq!(known_until(Some(late), at(150)), at(200));
    }
}
