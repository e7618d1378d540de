//! Working on a move: look, decide, do one thing, look again.
//!
//! ```text
//!   look ──► protocol::next ──► do ──► look ──► …  until the goal is reached
//!
//!   sides     both shards of a move: looked at, compared, told things
//!   files     closed polls' files: brought, read back, removed
//!   overdue   a seal that has lasted, undone by anybody
//!   give_up   an owner that is away for good, left behind
//!   leave     a copy that nobody needs, on a shard that is away
//!   claim     a move begins
//! ```
//! Nothing is kept between two looks but how far the copy is, and that is only
//! to save work.

mod claim;
mod files;
mod give_up;
mod leave;
mod overdue;
mod sides;

use std::sync::Arc;

use ballast_domain::certificate::VotesProved;
use ballast_domain::moving::{MoveId, Moving, Phase, Route};
use ballast_domain::registry::StoreError;
use ballast_domain::tenant::SliceId;
use ballast_domain::{Clock, ShardId};
use ballast_vote_shard::archive::{ArchiveError, Archives};
use ballast_vote_shard::shard::{At, Order};
use ballast_vote_shard::{ShardError, Shards};

pub use claim::{ClaimError, claim};
pub use files::BadFile;
pub use give_up::{Fitness, Gone, fitness};
pub use leave::Leaving;
pub use sides::{Compared, Digests, Side, Sides, differing};

use crate::copy::Copied;
use crate::faults;
use crate::ports::{Records, Seen};
use crate::protocol::{self, Op, Step, View, Wish};

/// Why a move cannot go on right now, or at all.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// There is no such slice.
    #[error("there is no slice {0}")]
    NoSlice(SliceId),
    /// The record is away.
    #[error(transparent)]
    Records(#[from] StoreError),
    /// A shard does not do what it is told. It may later, or a newer worker is
    /// at work.
    #[error("{shard}: {source}")]
    Shard {
        /// Which shard.
        shard: ShardId,
        /// Why not.
        #[source]
        source: ShardError,
    },
    /// The files of a shard. One that is damaged stays so; a place that is away
    /// may come back.
    #[error("{shard}: {source}")]
    Archive {
        /// Which shard.
        shard: ShardId,
        /// What is wrong.
        #[source]
        source: Box<ArchiveError>,
    },
    /// The copy does not become equal to what it was made from.
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

/// How far a worker is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The target is prepared, and nothing more.
    Prepared,
    /// The target owns the slice, and everybody concerned knows.
    CutOver,
    /// The source's copy is gone.
    Finished,
    /// The move was called off before its cutover, and all is as it was; or its
    /// way back is begun, and the shard that it left is prepared for it.
    Turned,
    /// All is as it was before the move, or as it was before the last one.
    Undone,
    /// A way back that was begun is called off: the slice stays where it is, and
    /// what is left of it elsewhere is removed.
    Stays,
}

impl Goal {
    fn wish(self) -> Wish {
        match self {
            Self::Prepared | Self::CutOver => Wish::Go,
            Self::Finished => Wish::Finish,
            Self::Turned | Self::Undone | Self::Stays => Wish::GoBack,
        }
    }
}

/// How it came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// The goal.
    Goal,
    /// The source was sealed for longer than it may be: it takes votes again,
    /// and the copy goes on.
    PutOff,
    /// The move is over.
    Over {
        /// Whether the slice is at the target of the move that was last.
        moved: bool,
        /// Whether that was the way back.
        back: bool,
    },
    /// The move was never claimed, or is long forgotten.
    Unknown,
}

/// A worker's move.
#[derive(Debug, Clone)]
pub struct Job {
    /// The move.
    pub move_id: MoveId,
    /// What is moved.
    pub slice: SliceId,
    /// The number of the worker's lease: a later one has a higher one.
    pub lease: u64,
    /// How long the source may be sealed before it takes votes again, in
    /// milliseconds; as long as it takes when absent.
    pub seal_max_ms: Option<u64>,
}

/// How long nobody could write, in milliseconds, if anybody was kept waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    sealed_at_ms: Option<i64>,
    /// How long it was, at the longest.
    pub ms: Option<i64>,
}

/// What is noted while a move is worked on.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// How far the copy is.
    pub copied: Copied,
    /// How long nobody could vote.
    pub pause: Pause,
    /// What was found on both sides when the source was sealed and they were
    /// equal.
    pub proved: Option<VotesProved>,
}

/// Works on moves.
#[derive(Clone)]
pub struct Worker {
    records: Arc<dyn Records>,
    shards: Arc<dyn Shards>,
    archives: Option<Arc<dyn Archives>>,
    clock: Arc<dyn Clock>,
}

impl Worker {
    /// A worker on these records and shards. It cannot move archived polls
    /// before it knows where their files are.
    pub fn new(records: Arc<dyn Records>, shards: Arc<dyn Shards>, clock: Arc<dyn Clock>) -> Self {
        Self {
            records,
            shards,
            archives: None,
            clock,
        }
    }

    /// With the files of archived polls.
    #[must_use]
    pub fn with_archives(mut self, archives: Arc<dyn Archives>) -> Self {
        self.archives = Some(archives);
        self
    }

    /// Goes on with a move until a goal is reached. How far the copy is, and
    /// the pause, are noted as they change.
    pub async fn work(
        &self,
        job: &Job,
        goal: Goal,
        notes: &mut Notes,
    ) -> Result<Reached, MoveError> {
        let mut job = job.clone();
        let (mut fruitless, mut put_off) = (0, false);
        loop {
            let seen = self.read(&job.slice).await?;
            // A move that went back goes on under the name of its way back.
            let back = job.move_id.back();
            if seen.route.move_of(&back).is_some() {
                job.move_id = back.clone();
                notes.copied = Copied::default();
            }
            let Some(moving) = seen.route.move_of(&job.move_id).cloned() else {
                return Ok(match &seen.route.last {
                    Some(last) if last.move_id == job.move_id || last.move_id == back => {
                        Reached::Over {
                            moved: last.moved,
                            back: last.move_id.is_back(),
                        }
                    }
                    _ => Reached::Unknown,
                });
            };
            let sides = self.sides(&moving)?;
            let overdue = self.is_overdue(&seen, job.seal_max_ms);
            let wish = match (goal, job.move_id.is_back()) {
                (Goal::Undone, true) if overdue || put_off => Wish::Wait,
                // What goes back is to arrive there, and to be done with.
                (Goal::Undone, true) => Wish::Finish,
                (Goal::CutOver, _) if overdue || put_off => Wish::Wait,
                (Goal::Turned, true) => Wish::Go,
                _ => goal.wish(),
            };
            put_off |= overdue && wish == Wish::Wait;
            let mut view = self.look(&job.slice, &seen, &sides, wish).await?;
            match moving.phase {
                // What is not sealed yet is sealed first, equal or not.
                Phase::Sealing { epoch } if protocol::is_sealed(&view) => {
                    let compared = sides.compare(&job.slice).await?;
                    view.equal = compared.is_equal();
                    if view.equal {
                        notes.proved = Some(VotesProved {
                            sealed_position: notes.copied.position(),
                            ..compared.proved(epoch)
                        });
                    }
                }
                Phase::Sealing { .. } => view.equal = false,
                _ => view.equal = !matches!(goal, Goal::Prepared | Goal::Turned),
            }
            let goal_here = match (goal, job.move_id.is_back()) {
                (Goal::Turned, true) => Goal::Prepared,
                (goal, _) => goal,
            };
            if is_reached(goal_here, &view, &moving.phase) {
                return Ok(Reached::Goal);
            }
            let order = Order {
                move_id: job.move_id.clone(),
                token: protocol::token(moving.prepared, job.lease),
            };
            let step = protocol::next(&job.move_id, &view);
            let is_moved = matches!(moving.phase, Phase::Window | Phase::Cleaning);
            if is_moved && !matches!(&step, Step::Order(_, Op::Activate(_))) {
                // Somebody else may have told the target: then it was by now.
                notes.pause.is_over(self.now_ms());
            }
            if put_off && !matches!(&step, Step::Swap(_) | Step::Order(_, Op::Reinstate(_))) {
                return Ok(Reached::PutOff);
            }
            match step {
                // It takes votes again, and that was all that was wanted.
                Step::Swap(_) if put_off && moving.phase == Phase::Copying => {
                    return Ok(Reached::PutOff);
                }
                Step::Swap(then) => {
                    if let Some(left) = sides.left_by(&then, &moving) {
                        sides.remove_files(left, &job.slice).await?;
                    }
                    faults::point("swap", &then);
                    // Lost against somebody else, or its answer lost: the next
                    // look tells.
                    self.records.swap(&job.slice, &seen, &then).await?;
                    faults::point("swapped", &then);
                }
                Step::Order(shard, op) => {
                    faults::point("order", op);
                    let told = sides.tell(&job.slice, &shard, op, &order);
                    self.timed(&seen, op, &mut notes.pause, told).await?;
                    faults::point("ordered", op);
                }
                Step::Copy => {
                    let before = notes.copied.clone();
                    let until = self.sealed_until(&seen, &moving.phase, &job);
                    self.copy(&job.slice, &sides, &order, &mut notes.copied, until)
                        .await?;
                    // What is sealed does not change: if nothing more comes of
                    // it, it never will.
                    let sealed = matches!(moving.phase, Phase::Sealing { .. });
                    fruitless = if sealed && before == notes.copied {
                        fruitless + 1
                    } else {
                        0
                    };
                    if fruitless > 1 {
                        return Err(sides.difference(&job.slice).await?);
                    }
                }
                Step::Watch => return Ok(Reached::Goal),
                Step::Over { moved } => {
                    let back = job.move_id.is_back();
                    return Ok(Reached::Over { moved, back });
                }
                Step::Unknown => return Ok(Reached::Unknown),
            }
        }
    }

    /// Both sides of a slice's move, while it is at work.
    pub async fn sides_of(&self, job: &Job) -> Result<Option<(Seen, Sides)>, MoveError> {
        let seen = self.read(&job.slice).await?;
        let Some(moving) = seen.route.move_of(&job.move_id) else {
            return Ok(None);
        };
        let sides = self.sides(moving)?;
        Ok(Some((seen, sides)))
    }

    /// A slice's record.
    pub async fn route(&self, slice: &SliceId) -> Result<Route, MoveError> {
        Ok(self.read(slice).await?.route)
    }

    /// Where the shards are.
    #[must_use]
    pub fn shards(&self) -> &dyn Shards {
        &*self.shards
    }

    /// What a job's orders carry.
    #[must_use]
    pub fn order(job: &Job, seen: &Seen) -> Order {
        let moving = seen.route.moving.as_ref();
        let prepared = moving.map_or(seen.route.epoch, |moving| moving.prepared);
        Order {
            move_id: job.move_id.clone(),
            token: protocol::token(prepared, job.lease),
        }
    }

    /// What a job looked at, for what is only right as long as nobody has got
    /// farther since.
    #[must_use]
    pub fn looked_at(job: &Job, seen: &Seen) -> At {
        At {
            slice: job.slice.clone(),
            epoch: seen.route.spent,
        }
    }

    fn sides(&self, moving: &Moving) -> Result<Sides, MoveError> {
        let archives = self.archives.clone();
        Sides::find(&*self.shards, archives, &moving.from, &moving.to)
    }

    async fn read(&self, slice: &SliceId) -> Result<Seen, MoveError> {
        let seen = self.records.read(slice).await?;
        seen.ok_or_else(|| MoveError::NoSlice(slice.clone()))
    }

    async fn look(
        &self,
        slice: &SliceId,
        seen: &Seen,
        sides: &Sides,
        wish: Wish,
    ) -> Result<View<ShardId>, MoveError> {
        let (source, target) = sides.fences(slice).await?;
        Ok(View {
            route: seen.route.clone(),
            source,
            target,
            equal: true,
            wish,
        })
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().unix_ms()
    }

    fn is_overdue(&self, seen: &Seen, most: Option<u64>) -> bool {
        let (Some(since), Some(most)) = (seen.sealing_since, most) else {
            return false;
        };
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.now_ms() >= since.unix_ms().saturating_add(most)
    }

    fn sealed_until(&self, seen: &Seen, phase: &Phase, job: &Job) -> Option<i64> {
        let (Phase::Sealing { .. }, Some(most)) = (phase, job.seal_max_ms) else {
            return None;
        };
        let since = seen.sealing_since?.unix_ms();
        Some(since.saturating_add(i64::try_from(most).unwrap_or(i64::MAX)))
    }

    /// Copies until everything is there, or until a moment has come.
    async fn copy(
        &self,
        slice: &SliceId,
        sides: &Sides,
        order: &Order,
        copied: &mut Copied,
        until_ms: Option<i64>,
    ) -> Result<(), MoveError> {
        loop {
            let carried = sides.carry(slice, order, copied).await?;
            let is_time = until_ms.is_some_and(|until| self.now_ms() >= until);
            if carried.caught_up || is_time {
                return Ok(());
            }
        }
    }

    /// Tells a shard something, and notes how long nobody could vote.
    async fn timed(
        &self,
        seen: &Seen,
        op: Op,
        pause: &mut Pause,
        told: impl Future<Output = Result<(), MoveError>>,
    ) -> Result<(), MoveError> {
        if matches!(op, Op::Seal(_)) {
            pause.sealed_at_ms.get_or_insert(self.now_ms());
        }
        told.await?;
        if !matches!(op, Op::Activate(_) | Op::Reinstate(_)) {
            return Ok(());
        }
        // Sealed by somebody who is gone: as the record says.
        let since = seen.sealing_since.map(|since| since.unix_ms());
        pause.sealed_at_ms = pause.sealed_at_ms.or(since);
        pause.is_over(self.now_ms());
        Ok(())
    }
}

impl Pause {
    /// Votes are taken again, if they were not.
    fn is_over(&mut self, now_ms: i64) {
        if let Some(sealed_at_ms) = self.sealed_at_ms.take() {
            let ms = now_ms.saturating_sub(sealed_at_ms);
            self.ms = Some(self.ms.map_or(ms, |before| before.max(ms)));
        }
    }
}

/// Whether a goal is reached, as far as that is not the move's own end.
fn is_reached(goal: Goal, view: &View<ShardId>, phase: &Phase) -> bool {
    match goal {
        Goal::Prepared => {
            let moving = view.route.moving.as_ref();
            moving.is_some_and(|moving| match phase {
                Phase::Copying => protocol::imports(&view.target, moving.prepared, &moving.move_id),
                // It is farther than that.
                _ => view.target.is_some(),
            })
        }
        // What is to be told is told by `next`; when it only watches, it is so.
        Goal::CutOver => *phase == Phase::Cleaning,
        Goal::Finished | Goal::Turned | Goal::Undone | Goal::Stays => false,
    }
}
