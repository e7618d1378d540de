//! Working on a move: look, decide, do one thing, look again.
//!
//! ```text
//!   look ──► protocol::next ──► do ──► look ──► …  until the goal is reached
//! ```
//! Nothing is kept between two looks but how far the copy is, and that is only
//! to save work.

use std::sync::Arc;

use ballast_domain::moving::{MoveId, Phase, Route};
use ballast_domain::registry::StoreError;
use ballast_domain::tenant::SliceId;
use ballast_domain::{Clock, ShardId};
use ballast_vote_shard::shard::Order;
use ballast_vote_shard::{At, ShardError, Shards, VoteShard};

use crate::copy::{self, Copied};
use crate::ports::{Records, Seen};
use crate::protocol::{self, Op, Step, View, Wish};

/// Polls that one purge removes.
const PURGED_AT_ONCE: usize = 100;

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
    /// All is as it was before the move, or as it was before the last one.
    Undone,
}

impl Goal {
    fn wish(self) -> Wish {
        match self {
            Self::Prepared | Self::CutOver => Wish::Go,
            Self::Finished => Wish::Finish,
            Self::Undone => Wish::GoBack,
        }
    }
}

/// How it came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// The goal.
    Goal,
    /// The move is over; whether the slice is at its target.
    Over {
        /// Whether it is.
        moved: bool,
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
}

/// How long nobody could write, in milliseconds, if anybody was kept waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    sealed_at_ms: Option<i64>,
    /// How long it was.
    pub ms: Option<i64>,
}

/// Works on moves.
#[derive(Clone)]
pub struct Worker {
    records: Arc<dyn Records>,
    shards: Arc<dyn Shards>,
    clock: Arc<dyn Clock>,
}

/// Both sides of a move.
struct Sides {
    from: (ShardId, Arc<dyn VoteShard>),
    to: (ShardId, Arc<dyn VoteShard>),
}

impl Worker {
    /// A worker on these records and shards.
    pub fn new(records: Arc<dyn Records>, shards: Arc<dyn Shards>, clock: Arc<dyn Clock>) -> Self {
        Self {
            records,
            shards,
            clock,
        }
    }

    /// Goes on with a move until a goal is reached. How far the copy is, and
    /// the pause, are noted as they change.
    pub async fn work(
        &self,
        job: &Job,
        goal: Goal,
        copied: &mut Copied,
        pause: &mut Pause,
    ) -> Result<Reached, MoveError> {
        let mut job = job.clone();
        let mut fruitless = 0;
        loop {
            let seen = self.read(&job.slice).await?;
            // A move that went back goes on under the name of its way back.
            let back = protocol::back(&job.move_id);
            if seen.route.move_of(&back).is_some() {
                job.move_id = back.clone();
                *copied = Copied::default();
            }
            let Some(moving) = seen.route.move_of(&job.move_id).cloned() else {
                return Ok(match &seen.route.last {
                    Some(last) if last.move_id == job.move_id || last.move_id == back => {
                        Reached::Over { moved: last.moved }
                    }
                    _ => Reached::Unknown,
                });
            };
            let sides = self.sides(&moving.from, &moving.to)?;
            // What goes back is to arrive there, and to be done with.
            let wish = match (goal, is_way_back(&job.move_id)) {
                (Goal::Undone, true) => Wish::Finish,
                _ => goal.wish(),
            };
            let view = self.look(&job.slice, &seen, &sides, wish, goal).await?;
            if is_reached(goal, &view, &moving.phase) {
                return Ok(Reached::Goal);
            }
            let order = Order {
                move_id: job.move_id.clone(),
                token: protocol::token(moving.prepared, job.lease),
            };
            match protocol::next(&job.move_id, &view) {
                Step::Swap(then) => {
                    // Lost against somebody else, or its answer lost: the next
                    // look tells.
                    self.records.swap(&job.slice, &seen, &then).await?;
                }
                Step::Order(shard, op) => {
                    self.tell(&job.slice, &sides, &shard, op, &order, pause)
                        .await?
                }
                Step::Copy => {
                    let before = copied.clone();
                    self.copy(&job.slice, &sides, &order, copied).await?;
                    // What is sealed does not change: if nothing more comes of
                    // it, it never will.
                    let sealed = matches!(moving.phase, Phase::Sealing { .. });
                    fruitless = if sealed && before == *copied {
                        fruitless + 1
                    } else {
                        0
                    };
                    if fruitless > 1 {
                        return Err(self.difference(&job.slice, &sides).await?);
                    }
                }
                Step::Watch => return Ok(Reached::Goal),
                Step::Over { moved } => return Ok(Reached::Over { moved }),
                Step::Unknown => return Ok(Reached::Unknown),
            }
        }
    }

    async fn read(&self, slice: &SliceId) -> Result<Seen, MoveError> {
        let seen = self.records.read(slice).await?;
        seen.ok_or_else(|| MoveError::NoSlice(slice.clone()))
    }

    fn sides(&self, from: &ShardId, to: &ShardId) -> Result<Sides, MoveError> {
        let find = |id: &ShardId| {
            let found = self.shards.shard(id).map_err(failed(id))?;
            Ok::<_, MoveError>((id.clone(), found))
        };
        Ok(Sides {
            from: find(from)?,
            to: find(to)?,
        })
    }

    async fn look(
        &self,
        slice: &SliceId,
        seen: &Seen,
        sides: &Sides,
        wish: Wish,
        goal: Goal,
    ) -> Result<View<ShardId>, MoveError> {
        let (from, to) = (&sides.from, &sides.to);
        let source = from.1.fence(slice).await.map_err(failed(&from.0))?;
        let target = to.1.fence(slice).await.map_err(failed(&to.0))?;
        let mut view = View {
            route: seen.route.clone(),
            source,
            target,
            equal: goal != Goal::Prepared,
            wish,
        };
        let phase = seen.route.moving.as_ref().map(|moving| moving.phase);
        if let Some(Phase::Sealing { .. }) = phase {
            view.equal = self.differing(slice, sides).await? == 0;
        }
        Ok(view)
    }

    /// How many polls differ. The source is read first: once it is sealed it
    /// does not change.
    async fn differing(&self, slice: &SliceId, sides: &Sides) -> Result<usize, MoveError> {
        let (from, to) = (&sides.from, &sides.to);
        let mut source = from.1.digests(slice).await.map_err(failed(&from.0))?;
        let mut target = match to.1.digests(slice).await {
            Ok(digests) => digests,
            // It holds nothing of it yet.
            Err(ShardError::Unfit(_)) => Vec::new(),
            Err(other) => return Err(failed(&to.0)(other)),
        };
        source.sort_by_key(|(poll, _)| *poll);
        target.sort_by_key(|(poll, _)| *poll);
        let lacking = source.iter().filter(|digest| !target.contains(digest));
        let strange = target.iter().filter(|(poll, _)| {
            source
                .binary_search_by_key(poll, |(known, _)| *known)
                .is_err()
        });
        Ok(lacking.count() + strange.count())
    }

    async fn difference(&self, slice: &SliceId, sides: &Sides) -> Result<MoveError, MoveError> {
        Ok(MoveError::Different {
            from: sides.from.0.clone(),
            target: sides.to.0.clone(),
            polls: self.differing(slice, sides).await?,
        })
    }

    async fn copy(
        &self,
        slice: &SliceId,
        sides: &Sides,
        order: &Order,
        copied: &mut Copied,
    ) -> Result<(), MoveError> {
        let (from, to) = (&sides.from, &sides.to);
        let done = copy::rest(&*from.1, &*to.1, slice, order, copied).await;
        done.map_err(failed(&from.0))
    }

    async fn tell(
        &self,
        slice: &SliceId,
        sides: &Sides,
        shard: &ShardId,
        op: Op,
        order: &Order,
        pause: &mut Pause,
    ) -> Result<(), MoveError> {
        let (id, told) = if *shard == sides.from.0 {
            &sides.from
        } else {
            &sides.to
        };
        let at = |epoch| At {
            slice: slice.clone(),
            epoch,
        };
        let now = || self.clock.now().unix_ms();
        let done = match op {
            Op::Prepare(epoch) => {
                let (from, source) = &sides.from;
                let key = source.slice_key(slice).await.map_err(failed(from))?;
                told.prepare(&at(epoch), order, key).await
            }
            Op::Seal(epoch) => {
                pause.sealed_at_ms.get_or_insert(now());
                told.seal(&at(epoch), order).await
            }
            Op::Reinstate(epoch) => told.unseal(&at(epoch), order).await,
            Op::Activate(epoch) => told.activate(&at(epoch), order).await,
            Op::Retire(epoch) => told.retire(&at(epoch), order).await,
            Op::Purge(epoch) => told
                .purge(&at(epoch), order, PURGED_AT_ONCE)
                .await
                .map(drop),
        };
        done.map_err(failed(id))?;
        if matches!(op, Op::Activate(_) | Op::Reinstate(_))
            && let Some(sealed_at_ms) = pause.sealed_at_ms.take()
        {
            let ms = now().saturating_sub(sealed_at_ms);
            pause.ms = Some(pause.ms.map_or(ms, |before| before.max(ms)));
        }
        Ok(())
    }
}

fn is_way_back(id: &MoveId) -> bool {
    id.0.ends_with("-back")
}

/// Whether a goal is reached, as far as that is not the move's own end.
fn is_reached(goal: Goal, view: &View<ShardId>, phase: &Phase) -> bool {
    match goal {
        Goal::Prepared => view.target.as_ref().is_some_and(|fence| {
            let moving = view.route.moving.as_ref();
            moving.is_some_and(|moving| {
                fence.epoch == moving.prepared && fence.move_id.as_ref() == Some(&moving.move_id)
            })
        }),
        // What is to be told is told by `next`; when it only watches, it is so.
        Goal::CutOver => *phase == Phase::Cleaning,
        Goal::Finished | Goal::Undone => false,
    }
}

fn failed(shard: &ShardId) -> impl FnOnce(ShardError) -> MoveError + use<'_> {
    move |source| MoveError::Shard {
        shard: shard.clone(),
        source,
    }
}

/// The record of a slice that a move is to be claimed on.
pub async fn claim(
    records: &dyn Records,
    slice: &SliceId,
    id: &MoveId,
    to: &ShardId,
) -> Result<Route, ClaimError> {
    let seen = records.read(slice).await?;
    let seen = seen.ok_or_else(|| ClaimError::NoSlice(slice.clone()))?;
    // The same move claimed before, its answer lost.
    if seen.route.move_of(id).is_some() {
        return Ok(seen.route);
    }
    let then = protocol::route::claim(&seen.route, id, to.clone())?;
    match records.swap(slice, &seen, &then).await? {
        true => Ok(then),
        false => Err(ClaimError::Changed),
    }
}

/// Why a move is not claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no such slice.
    #[error("there is no slice {0}")]
    NoSlice(SliceId),
    /// The record does not allow it.
    #[error(transparent)]
    Refused(#[from] protocol::route::Refused),
    /// Somebody changed the record at the same time: look again.
    #[error("the record was changed at the same time")]
    Changed,
    /// The record is away.
    #[error(transparent)]
    Records(#[from] StoreError),
}
