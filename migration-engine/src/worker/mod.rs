//! The migration worker: observe, ask the protocol, perform one action, repeat.
//!
//! ```text
//!   observe ──► protocol::next_action ──► act ──► observe ──► …  until the goal is reached
//!
//!   sides     both shards of a migration: read, compare, copy between, command
//!   files     the files of closed polls: copy, verify, remove
//!   overdue   undoes a seal that lasts too long, without a lease
//!   abandon   takes a slice back without its owner, which is permanently gone
//!   leave     ends a migration without removing a copy on an unreachable shard
//!   claim     claims a slice for a migration
//! ```
//! Between two actions a worker keeps only the copy's cursor, to save work.

mod abandon;
mod claim;
mod files;
mod leave;
mod overdue;
mod sides;

use std::sync::Arc;

use ballast_domain::certificate::VoteProof;
use ballast_domain::moving::{ActiveMigration, MigrationId, MigrationPhase, SliceRoute};
use ballast_domain::registry::RegistryError;
use ballast_domain::tenant::SliceId;
use ballast_domain::{Clock, ShardId};
use ballast_vote_shard::archive::{ArchiveDirectory, ArchiveError};
use ballast_vote_shard::shard::{FencedSlice, MigrationToken};
use ballast_vote_shard::{ShardDirectory, ShardError};

pub use abandon::{AbandonOutcome, OwnerHealth, check_owner};
pub use claim::{MigrationClaimError, claim_slice};
pub use files::DamagedFile;
pub use leave::AbandonedCopy;
pub use sides::{DigestComparison, MigrationSide, MigrationSides, PollDigests, differing_polls};

use crate::copy::CopyProgress;
use crate::faults;
use crate::ports::{RouteRecord, RouteStore};
use crate::protocol::goal::{self, EqualityCheck};
use crate::protocol::{self, FenceCommand, MigrationIntent, ObservedMigration, ProtocolAction};

pub use crate::protocol::goal::WorkGoal;

/// Why a migration cannot continue, now or at all.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// There is no such slice.
    #[error("there is no slice {0}")]
    NoSlice(SliceId),
    /// The registry that holds the record is unavailable.
    #[error(transparent)]
    Records(#[from] RegistryError),
    /// A shard refused or failed a call. It may accept it later, or a newer worker
    /// has taken over.
    #[error("{shard}: {source}")]
    Shard {
        /// Which shard.
        shard: ShardId,
        /// What the shard answered.
        #[source]
        source: ShardError,
    },
    /// A shard's archive failed. A damaged file stays damaged; an unavailable
    /// archive may come back.
    #[error("{shard}: {source}")]
    Archive {
        /// Which shard.
        shard: ShardId,
        /// What is wrong.
        #[source]
        source: Box<ArchiveError>,
    },
    /// The copy stays different from its source although the source is sealed.
    #[error("the copy on {target} differs from {from} in {polls} polls")]
    Different {
        /// The source.
        from: ShardId,
        /// The target.
        target: ShardId,
        /// How many polls differ.
        polls: usize,
    },
}

/// How a worker's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The goal is reached.
    GoalReached,
    /// The source was sealed for too long: it takes writes again, and copying can
    /// continue.
    Postponed,
    /// The migration has ended.
    Ended {
        /// Whether the slice is on the target of the migration that ended last.
        moved: bool,
        /// Whether that was the reverse migration.
        back: bool,
    },
    /// The record does not know the migration: it was never claimed, or later ones
    /// have replaced it.
    Unknown,
}

/// A migration that a worker holds the lease of.
#[derive(Debug, Clone)]
pub struct LeasedMigration {
    /// The migration.
    pub migration_id: MigrationId,
    /// The slice that is moved.
    pub slice: SliceId,
    /// The number of the worker's lease: a later lease has a higher number.
    pub lease: u64,
    /// How long the source may be sealed before it takes writes again, in
    /// milliseconds; unlimited when absent.
    pub seal_max_ms: Option<u64>,
}

/// How long the slice took no writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WritePause {
    sealed_at_ms: Option<i64>,
    /// The longest pause so far, in milliseconds; `None` if there was none.
    pub ms: Option<i64>,
}

/// What a worker records while it works on a migration.
#[derive(Debug, Clone, Default)]
pub struct MigrationProgress {
    /// How far the copy is.
    pub copied: CopyProgress,
    /// How long the slice took no writes.
    pub pause: WritePause,
    /// The votes counted on both sides when the source was sealed and both sides
    /// were equal.
    pub proved: Option<VoteProof>,
}

/// Works on migrations.
#[derive(Clone)]
pub struct MigrationWorker {
    records: Arc<dyn RouteStore>,
    shards: Arc<dyn ShardDirectory>,
    archives: Option<Arc<dyn ArchiveDirectory>>,
    clock: Arc<dyn Clock>,
}

/// What a worker keeps between two actions of one run.
struct WorkRun<'a> {
    job: LeasedMigration,
    goal: WorkGoal,
    progress: &'a mut MigrationProgress,
    /// Whether the seal lasted too long, so that it is being taken back.
    postponed: bool,
    /// Consecutive attempts to copy from the sealed source that copied nothing.
    fruitless: u32,
}

/// One observation, and the action that the protocol wants next.
struct Observation {
    record: RouteRecord,
    moving: ActiveMigration,
    sides: MigrationSides,
    observed: ObservedMigration<ShardId>,
}

impl MigrationWorker {
    /// Creates a worker. Without [`archives`](Self::with_archives) it cannot migrate
    /// archived polls.
    pub fn new(
        records: Arc<dyn RouteStore>,
        shards: Arc<dyn ShardDirectory>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            records,
            shards,
            archives: None,
            clock,
        }
    }

    /// Sets where the files of archived polls are.
    #[must_use]
    pub fn with_archives(mut self, archives: Arc<dyn ArchiveDirectory>) -> Self {
        self.archives = Some(archives);
        self
    }

    /// Works on a migration until it reaches the goal. Updates `progress` along the
    /// way, so that it is right also after an error.
    pub async fn work(
        &self,
        job: &LeasedMigration,
        goal: WorkGoal,
        progress: &mut MigrationProgress,
    ) -> Result<WorkOutcome, MigrationError> {
        let mut run = WorkRun {
            job: job.clone(),
            goal,
            progress,
            postponed: false,
            fruitless: 0,
        };
        loop {
            let record = self.read(&run.job.slice).await?;
            let Some(moving) = run.find_migration(&record) else {
                return Ok(run.ended_outcome(&record));
            };
            let now = self.observe(&mut run, record, moving).await?;
            if goal.is_reached(&now.observed) {
                return Ok(WorkOutcome::GoalReached);
            }
            let action = protocol::next_action(&run.job.migration_id, &now.observed);
            if goal::is_write_pause_over(now.moving.phase, &action) {
                // Another worker may have activated the target.
                run.progress.pause.end(self.now_ms());
            }
            if run.postponed && goal::is_source_reinstated(now.moving.phase, &action) {
                return Ok(WorkOutcome::Postponed);
            }
            match action {
                ProtocolAction::UpdateRecord(then) => {
                    self.update_record(&run.job.slice, &now, &then).await?;
                }
                ProtocolAction::SendCommand(shard, command) => {
                    self.send_command(&mut run, &now, &shard, command).await?;
                }
                ProtocolAction::CopyData => self.copy(&mut run, &now).await?,
                ProtocolAction::Watch => return Ok(WorkOutcome::GoalReached),
                ProtocolAction::Ended { moved } => {
                    let back = run.job.migration_id.is_back();
                    return Ok(WorkOutcome::Ended { moved, back });
                }
                ProtocolAction::Unknown => return Ok(WorkOutcome::Unknown),
            }
        }
    }

    /// Reads both fences, and compares both sides if the protocol asks for it.
    async fn observe(
        &self,
        run: &mut WorkRun<'_>,
        record: RouteRecord,
        moving: ActiveMigration,
    ) -> Result<Observation, MigrationError> {
        let sides = self.sides(&moving)?;
        let overdue = self.is_overdue(&record, run.job.seal_max_ms);
        let is_reverse = run.job.migration_id.is_back();
        let intent = run.goal.to_intent(is_reverse, overdue || run.postponed);
        run.postponed |= overdue && intent == MigrationIntent::Postpone;
        let (source, target) = sides.fences(&run.job.slice).await?;
        let mut observed = ObservedMigration {
            route: record.route.clone(),
            source,
            target,
            equal: true,
            intent,
        };
        observed.equal = match run.goal.equality_check(&observed) {
            EqualityCheck::Assume(equal) => equal,
            EqualityCheck::Compare(epoch) => {
                let compared = sides.compare(&run.job.slice).await?;
                if compared.is_equal() {
                    run.progress.proved = Some(VoteProof {
                        sealed_position: run.progress.copied.position(),
                        ..compared.to_votes_proved(epoch)
                    });
                }
                compared.is_equal()
            }
        };
        Ok(Observation {
            record,
            moving,
            sides,
            observed,
        })
    }

    /// Swaps the record. If another worker was faster, or the answer is lost, the
    /// next observation shows it.
    async fn update_record(
        &self,
        slice: &SliceId,
        now: &Observation,
        then: &SliceRoute,
    ) -> Result<(), MigrationError> {
        if let Some(side) = now.sides.side_to_empty(then, &now.moving) {
            now.sides.remove_files(side, slice).await?;
        }
        faults::crash_point("swap", then);
        self.records.swap(slice, &now.record, then).await?;
        faults::crash_point("swapped", then);
        Ok(())
    }

    /// Sends a shard a command, and measures the write pause.
    async fn send_command(
        &self,
        run: &mut WorkRun<'_>,
        now: &Observation,
        shard: &ShardId,
        command: FenceCommand,
    ) -> Result<(), MigrationError> {
        faults::crash_point("order", command);
        let pause = &mut run.progress.pause;
        if matches!(command, FenceCommand::Seal(_)) {
            pause.sealed_at_ms.get_or_insert(self.now_ms());
        }
        let token = Self::command_token(&run.job, &now.record);
        let sides = &now.sides;
        sides
            .send_command(&run.job.slice, shard, command, &token)
            .await?;
        if matches!(
            command,
            FenceCommand::Activate(_) | FenceCommand::Reinstate(_)
        ) {
            // If another worker sealed, the record says when.
            let since = now.record.sealing_since.map(|since| since.unix_ms());
            pause.sealed_at_ms = pause.sealed_at_ms.or(since);
            pause.end(self.now_ms());
        }
        faults::crash_point("ordered", command);
        Ok(())
    }

    /// Copies until the target has everything, or until the seal has lasted too long.
    async fn copy(&self, run: &mut WorkRun<'_>, now: &Observation) -> Result<(), MigrationError> {
        let before = run.progress.copied.clone();
        let token = Self::command_token(&run.job, &now.record);
        let until_ms = copy_deadline(&now.record, now.moving.phase, run.job.seal_max_ms);
        loop {
            let copied = &mut run.progress.copied;
            let page = now.sides.copy_page(&run.job.slice, &token, copied).await?;
            let is_time = until_ms.is_some_and(|until| self.now_ms() >= until);
            if page.caught_up || is_time {
                break;
            }
        }
        // A sealed source does not change: if copying twice brings nothing and both
        // sides still differ, they stay different.
        let is_sealed = matches!(now.moving.phase, MigrationPhase::Sealing { .. });
        run.fruitless = match is_sealed && before == run.progress.copied {
            true => run.fruitless + 1,
            false => 0,
        };
        if run.fruitless > 1 {
            return Err(now.sides.difference_error(&run.job.slice).await?);
        }
        Ok(())
    }

    /// Returns a slice's record and both shards, while the migration is active.
    pub async fn active_sides(
        &self,
        job: &LeasedMigration,
    ) -> Result<Option<(RouteRecord, MigrationSides)>, MigrationError> {
        let record = self.read(&job.slice).await?;
        let Some(moving) = record.route.active_migration(&job.migration_id) else {
            return Ok(None);
        };
        let sides = self.sides(moving)?;
        Ok(Some((record, sides)))
    }

    /// Reads a slice's record.
    pub async fn read_route(&self, slice: &SliceId) -> Result<SliceRoute, MigrationError> {
        Ok(self.read(slice).await?.route)
    }

    /// The directory of shards.
    #[must_use]
    pub fn shards(&self) -> &dyn ShardDirectory {
        &*self.shards
    }

    /// The token that a job's commands carry.
    #[must_use]
    pub fn command_token(job: &LeasedMigration, record: &RouteRecord) -> MigrationToken {
        let moving = record.route.moving.as_ref();
        let prepared = moving.map_or(record.route.epoch, |moving| moving.prepared);
        MigrationToken {
            migration_id: job.migration_id.clone(),
            token: protocol::command_token(prepared, job.lease),
        }
    }

    /// The slice at the highest epoch that the observed record has issued. A shard
    /// refuses a discard that carries it once it knows a later epoch.
    #[must_use]
    pub fn observed_slice(job: &LeasedMigration, record: &RouteRecord) -> FencedSlice {
        FencedSlice {
            slice: job.slice.clone(),
            epoch: record.route.spent,
        }
    }

    fn sides(&self, moving: &ActiveMigration) -> Result<MigrationSides, MigrationError> {
        let archives = self.archives.clone();
        MigrationSides::resolve(&*self.shards, archives, &moving.from, &moving.to)
    }

    async fn read(&self, slice: &SliceId) -> Result<RouteRecord, MigrationError> {
        let record = self.records.read(slice).await?;
        record.ok_or_else(|| MigrationError::NoSlice(slice.clone()))
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().unix_ms()
    }

    fn is_overdue(&self, record: &RouteRecord, seal_max_ms: Option<u64>) -> bool {
        let deadline = seal_deadline(record, seal_max_ms);
        deadline.is_some_and(|deadline| self.now_ms() >= deadline)
    }
}

impl WorkRun<'_> {
    /// Returns the active migration. Once it was reversed, the run continues with
    /// the reverse migration, whose copy starts from the beginning.
    fn find_migration(&mut self, record: &RouteRecord) -> Option<ActiveMigration> {
        let back = self.job.migration_id.way_back();
        if record.route.active_migration(&back).is_some() {
            self.job.migration_id = back;
            self.progress.copied = CopyProgress::default();
        }
        record
            .route
            .active_migration(&self.job.migration_id)
            .cloned()
    }

    /// Returns how a migration ended that the record no longer names as active.
    fn ended_outcome(&self, record: &RouteRecord) -> WorkOutcome {
        let id = &self.job.migration_id;
        match &record.route.last {
            Some(last) if last.migration_id == *id || last.migration_id == id.way_back() => {
                WorkOutcome::Ended {
                    moved: last.moved,
                    back: last.migration_id.is_back(),
                }
            }
            _ => WorkOutcome::Unknown,
        }
    }
}

impl WritePause {
    /// Ends the pause, if writes are paused.
    fn end(&mut self, now_ms: i64) {
        if let Some(sealed_at_ms) = self.sealed_at_ms.take() {
            let ms = now_ms.saturating_sub(sealed_at_ms);
            self.ms = Some(self.ms.map_or(ms, |before| before.max(ms)));
        }
    }
}

/// When to stop copying because the seal has lasted for as long as it may, in unix
/// milliseconds; `None` if the slice is not being sealed or the seal has no limit.
fn copy_deadline(
    record: &RouteRecord,
    phase: MigrationPhase,
    seal_max_ms: Option<u64>,
) -> Option<i64> {
    let is_sealing = matches!(phase, MigrationPhase::Sealing { .. });
    seal_deadline(record, seal_max_ms).filter(|_| is_sealing)
}

/// When a seal has lasted for as long as it may, in unix milliseconds.
fn seal_deadline(record: &RouteRecord, seal_max_ms: Option<u64>) -> Option<i64> {
    let since = record.sealing_since?.unix_ms();
    let most = i64::try_from(seal_max_ms?).unwrap_or(i64::MAX);
    Some(since.saturating_add(most))
}
