//! A part of *Rollback*: the slice's owner is away for good, and somebody who
//! may has accepted that what only it has is lost; or nothing that was
//! acknowledged is, because both sides had to have it. What was left behind gets
//! written down before the record is free again.

use std::time::Duration;

use ballast_domain::certificate::GivenUp;
use ballast_domain::migration::{Finding, LeftBehind, Migration, StreamedBack, Word};
use ballast_domain::moving::Route;
use ballast_domain::{Actor, ShardId, Timestamp};
use ballast_state_machines::engine::{TaskContext, TaskError};

use super::monitor_dual_read::streamed_back;
use super::{Given, Steps, UNAVAILABLE, alive, failed};
use crate::copy::Copied;
use crate::worker::{Fitness, Gone, Job, MoveError, Worker, fitness};

/// How long it is tried to read what can still be read of an owner.
const RESCUE_MS: i64 = 600_000;
/// How long one page of it may take.
const PAGE_WITHIN: Duration = Duration::from_secs(30);

/// An owner that may be left behind.
pub(super) struct Owner<'a> {
    pub(super) steps: &'a Steps,
    pub(super) given: &'a Given,
    pub(super) context: &'a TaskContext,
    pub(super) migration: &'a Migration,
    pub(super) job: &'a Job,
}

impl Owner<'_> {
    /// Whether it may be left behind, and has to be. Should it answer again after
    /// all, the slice goes back with everything.
    pub(super) async fn is_lost(&self) -> Result<bool, TaskError> {
        let route = self.steps.worker.route(&self.job.slice).await;
        let route = route.map_err(failed)?;
        if is_given_up(&route) {
            return Ok(true);
        }
        if self.migration.asked.accept_loss.is_none() && !is_synced(&route) {
            return Ok(false);
        }
        let (slice, owner, back) = (&self.job.slice, &self.migration.to, self.back());
        let asked = fitness(self.steps.worker.shards(), slice, owner, &back);
        match alive(self.context, asked).await {
            Fitness::Fit => Ok(false),
            Fitness::Unfit(_) => Ok(true),
            Fitness::Starting => {
                let why = format!("whether {owner} can be had is not known: it is starting");
                Err(TaskError::new(UNAVAILABLE, why))
            }
        }
    }

    /// Whether the ordinary way back failed because of the owner, not for the first
    /// time, and that may be enough. A failure that passes costs no vote.
    pub(super) fn is_to_blame(&self, error: &TaskError) -> bool {
        let before = self.migration.waiting_for.as_deref();
        self.migration.asked.accept_loss.is_some() && again(error, before, &self.migration.to)
    }

    /// Leaves it behind; the move's record then, or none if there was nothing to
    /// be given up.
    pub(super) async fn leave(&self) -> Result<Option<Migration>, TaskError> {
        let (steps, migration) = (self.steps, self.migration);
        let rescued = self.rescue().await;
        let giving_up = steps
            .worker
            .give_up(self.job, migration.asked.accept_loss.is_some());
        let gone = alive(self.context, giving_up).await.map_err(failed)?;
        let noted = match (gone, &migration.given_up) {
            // It was written down, and whoever did so did not come to the end.
            (_, Some(_)) => migration.clone(),
            (Gone::NotSo, None) => return Ok(None),
            (gone @ Gone::GivenUp { .. }, None) => match self.lost(&gone, rescued) {
                Some(lost) => self.note(lost).await?,
                None => return Ok(None),
            },
        };
        steps.worker.let_go(self.job).await.map_err(failed)?;
        Ok(Some(noted))
    }

    async fn note(&self, lost: GivenUp) -> Result<Migration, TaskError> {
        let (id, shard, actor) = (&self.migration.migration_id, &lost.shard, &lost.actor.name);
        match lost.synced {
            true => {
                tracing::warn!(%id, %shard, "a shard is left behind with nothing that was acknowledged")
            }
            false => {
                tracing::error!(%id, %shard, accepted_by = %actor, after = %lost.after, "votes are given up: `ballast migration show` says which");
            }
        }
        let finding = Finding {
            at: lost.at,
            phase: "Rollback".to_owned(),
            shard: lost.shard.clone(),
            what: format!("it could not be drained, and {}", lost.told()),
            then: format!("{} owns the slice without it", self.migration.from),
        };
        let edit = move |migration: &mut Migration| {
            if migration.given_up.is_none() {
                migration.given_up = Some(lost.clone());
                migration.left_behind = Some(LeftBehind::Away);
                migration.found(finding.clone());
            }
        };
        let steps = self.steps;
        steps.note(self.migration, "migration.giveUp", edit).await
    }

    /// Brings over what can still be read of the owner, though it cannot be
    /// sealed: one whose disk is full or read-only still has it all.
    async fn rescue(&self) -> Option<StreamedBack> {
        let mut back = self.back();
        let saved = alive(self.context, self.carry(&mut back)).await;
        if let Err(error) = saved {
            let id = &self.migration.migration_id;
            tracing::info!(%id, %error, "nothing more can be read of the owner");
        }
        streamed_back(&back)
    }

    async fn carry(&self, back: &mut Copied) -> Result<(), MoveError> {
        let worker = &self.steps.worker;
        let way_back = Job {
            move_id: self.job.move_id.back(),
            ..self.job.clone()
        };
        // From the owner to where it was, whichever of both moves is at work.
        let (job, seen, sides) = match worker.sides_of(&way_back).await? {
            Some((seen, sides)) => (&way_back, seen, sides),
            None => match worker.sides_of(self.job).await? {
                Some((seen, sides)) => (self.job, seen, sides.exchanged()),
                None => return Ok(()),
            },
        };
        let order = Worker::order(job, &seen);
        let began = self.steps.clock.now();
        while self.steps.now_ms() < began.unix_ms() + RESCUE_MS {
            let page = tokio::time::timeout(PAGE_WITHIN, sides.carry(&job.slice, &order, back));
            let Ok(carried) = page.await else {
                // It hangs, as dead disks do.
                return Ok(());
            };
            if carried?.caught_up {
                back.complete_before = Some(began);
                return Ok(());
            }
        }
        Ok(())
    }

    fn lost(&self, gone: &Gone, rescued: Option<StreamedBack>) -> Option<GivenUp> {
        let Gone::GivenUp {
            epoch,
            present,
            synced,
        } = *gone
        else {
            return None;
        };
        let word = self.word();
        let figures = &self.migration.figures;
        let known = farthest(rescued, figures.streamed_back);
        let cutover = figures.cut_over_at;
        Some(GivenUp {
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

    /// Who wanted it: somebody, or the move itself where nothing is lost by it.
    fn word(&self) -> Word {
        let asked = &self.migration.asked;
        let back = asked.back.as_ref().map(|back| &back.word);
        let said = asked.accept_loss.as_ref().or(back).cloned();
        said.unwrap_or_else(|| Word {
            actor: Actor::ballast("move"),
            reason: None,
            at: self.steps.clock.now(),
        })
    }

    /// How far the stream back was, as the step before said.
    fn back(&self) -> Copied {
        Given::part(&self.given.dual_read, "back").unwrap_or_default()
    }
}

fn is_given_up(route: &Route) -> bool {
    let moving = route.moving.as_ref();
    moving.is_some_and(|moving| moving.gives_up && moving.move_id.is_back())
}

/// Whether both sides have everything that was acknowledged, by the record: the
/// change that leaves the owner behind compares that record.
fn is_synced(route: &Route) -> bool {
    let moving = route.moving.as_ref();
    moving.is_some_and(|moving| moving.also_durable_on().is_some())
}

fn farthest(one: Option<StreamedBack>, two: Option<StreamedBack>) -> Option<StreamedBack> {
    one.into_iter().chain(two).max_by_key(|known| known.before)
}

fn known_until(known: Option<StreamedBack>, cutover: Timestamp) -> Timestamp {
    known.map_or(cutover, |known| known.before.max(cutover))
}

/// Whether a worker failed because of this shard: its failure begins with the
/// shard's name ([`crate::worker::MoveError`]).
pub(super) fn blames(error: &TaskError, shard: &ShardId) -> bool {
    let rest = error.cause.strip_prefix(shard.as_str());
    rest.is_some_and(|rest| rest.starts_with(": "))
}

/// Whether a worker failed because of this shard, and it was said before that it
/// waits for that to pass.
pub(super) fn again(error: &TaskError, before: Option<&str>, shard: &ShardId) -> bool {
    let named = format!("{shard}: ");
    blames(error, shard) && before.is_some_and(|why| why.contains(&named))
}

#[cfg(test)]
mod tests {
    use ballast_vote_shard::ShardError;

    use super::*;
    use crate::worker::MoveError;

    #[test]
    fn who_is_to_blame_is_told_from_the_failure() {
        let shard = |name: &str| name.parse::<ShardId>().unwrap();
        let away = failed(MoveError::Shard {
            shard: shard("shard-1"),
            source: ShardError::unavailable("it is away"),
        });
        assert!(blames(&away, &shard("shard-1")));
        assert!(!blames(&away, &shard("shard-2")));
        assert!(!blames(&away, &shard("shard")));
        let other = TaskError::new("x", "nobody can say whether shard-1 is right");
        assert!(!blames(&other, &shard("shard-1")));
    }

    #[test]
    fn what_failed_once_may_pass() {
        let shard: ShardId = "shard-1".parse().unwrap();
        let error = TaskError::new("x", "shard-1: it is away");
        assert!(!again(&error, None, &shard));
        let of_another = Some("this to pass: shard-2: it is away (bringing it back)");
        assert!(!again(&error, of_another, &shard));
        let of_it = Some("this to pass: shard-1: it is full (bringing it back)");
        assert!(again(&error, of_it, &shard));
    }

    #[test]
    fn what_is_known_is_the_latest_that_anybody_knew() {
        let at = Timestamp::from_unix_ms;
        let known = |position, ms| StreamedBack {
            position,
            before: at(ms),
        };
        let (early, late) = (known(5, 100), known(9, 200));
        assert_eq!(farthest(Some(early), Some(late)), Some(late));
        assert_eq!(farthest(Some(late), None), Some(late));
        assert_eq!(farthest(None, None), None);
        // Everything from before the cutover is there in any case.
        assert_eq!(known_until(None, at(150)), at(150));
        assert_eq!(known_until(Some(early), at(150)), at(150));
        assert_eq!(known_until(Some(late), at(150)), at(200));
    }
}
