//! An owner that is away for good, in the window: the slice goes back to the
//! shard that it came from without it. What only the owner has is given up; it
//! is never removed, and the owner is told, should it answer again, that it owns
//! nothing any more.
//!
//! ```text
//!   fitness ─► it can be sealed and drained: the ordinary way back does
//!   give_up ─► taken back without it        let_go ─► and the record is free
//!   disown ──► whoever comes back is told     remove_lost ─► when somebody says so
//! ```
//! The owner is neither looked at nor told anything on this way. Nothing is
//! decided here but by the record, as ever.

use std::time::Duration;

use ballast_domain::ShardId;
use ballast_domain::moving::{MoveId, Moving, Phase};
use ballast_domain::registry::StoreError;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_vote_shard::shard::{Fence, Holding, Order};
use ballast_vote_shard::{ShardError, Shards};

use super::sides::failed;
use super::{Job, MoveError, Sides, Worker};
use crate::copy::Copied;
use crate::faults;
use crate::protocol::{self, Step, View, Wish};

/// Steps that this may take: more means that somebody else is at work.
const STEPS_MAX: usize = 32;
/// How long a shard may take to answer before it is taken to be away.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether one that is starting has started.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// As much is read of it to see whether it can be read.
const PAGE_BYTES: usize = 1 << 10;

/// How an owner was left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// It owns the slice no longer: the other shard does, at this epoch.
    GivenUp {
        /// The epoch.
        epoch: Epoch,
        /// Voters' rows that the other shard had then; unknown to whoever goes on
        /// with what another one began.
        present: Option<u64>,
        /// Whether both sides had everything that was acknowledged.
        synced: bool,
    },
    /// The move is not so far, or farther: there is nothing to give up.
    NotSo,
}

/// The shard that the slice goes back to.
struct Kept<'a> {
    sides: Sides,
    slice: &'a SliceId,
}

/// What can be had of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fitness {
    /// It answers, and can be sealed and drained: the ordinary way back is the
    /// right one.
    Fit,
    /// It is starting: nobody knows yet.
    Starting,
    /// It does not, for this reason.
    Unfit(String),
}

/// What can be had of an owner, asked for a few seconds at the most.
pub async fn fitness(
    shards: &dyn Shards,
    slice: &SliceId,
    owner: &ShardId,
    copied: &Copied,
) -> Fitness {
    let known = async {
        while shards.is_starting(owner) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    if tokio::time::timeout(ANSWER_WITHIN, known).await.is_err() {
        return Fitness::Starting;
    }
    let asked = tokio::time::timeout(ANSWER_WITHIN, answers(shards, slice, owner, copied)).await;
    match asked {
        Ok(Ok(())) => Fitness::Fit,
        Ok(Err(why)) => Fitness::Unfit(why),
        Err(_) => {
            let seconds = ANSWER_WITHIN.as_secs();
            Fitness::Unfit(format!("it does not answer within {seconds} s"))
        }
    }
}

async fn answers(
    shards: &dyn Shards,
    slice: &SliceId,
    owner: &ShardId,
    copied: &Copied,
) -> Result<(), String> {
    let told = |error: ShardError| error.to_string();
    let shard = shards.shard(owner).map_err(told)?;
    if let Some(trouble) = shard.usage().await.trouble {
        return Err(trouble);
    }
    holds_the_slice(shard.fence(slice).await.map_err(told)?.as_ref())?;
    match shard.export(slice, &copied.cursor, PAGE_BYTES).await {
        Ok(_) | Err(ShardError::CursorTooOld) => Ok(()),
        Err(error) => Err(told(error)),
    }
}

impl Worker {
    /// Takes a slice back without its owner, up to where the shard that it came
    /// from owns it again. The record still names the move then, for whoever has
    /// to write down what was given up. Unless somebody has `accepted` a loss, only
    /// while nothing that was acknowledged is lost by it: each change compares the
    /// record that said so.
    pub async fn give_up(&self, job: &Job, accepted: bool) -> Result<Gone, MoveError> {
        let mut present = None;
        for _ in 0..STEPS_MAX {
            let seen = self.read(&job.slice).await?;
            let Some((id, moving)) = at_work(job, seen.route.moving.as_ref()) else {
                return Ok(Gone::NotSo);
            };
            if !accepted && !moving.gives_up && moving.also_durable_on().is_none() {
                return Ok(Gone::NotSo);
            }
            let kept = self.kept(&id, &moving, &job.slice)?;
            let fence = kept.fence().await?;
            if moving.gives_up && owns(fence.as_ref(), seen.route.epoch) {
                return Ok(Gone::GivenUp {
                    epoch: seen.route.epoch,
                    present,
                    synced: moving.sync,
                });
            }
            let (source, target) = match id.is_back() {
                true => (None, fence),
                false => (fence, None),
            };
            let view = View {
                route: seen.route.clone(),
                source,
                target,
                equal: false,
                wish: Wish::GiveUp,
            };
            match protocol::next(&id, &view) {
                Step::Swap(then) => {
                    if then.owner != seen.route.owner {
                        present = Some(kept.votes().await?);
                    }
                    faults::point("swap", &then);
                    self.records.swap(&job.slice, &seen, &then).await?;
                    faults::point("swapped", &then);
                }
                Step::Order(shard, op) if shard == kept.sides.to.0 => {
                    let order = Order {
                        move_id: id,
                        token: protocol::token(moving.prepared, job.lease),
                    };
                    faults::point("order", op);
                    let sides = &kept.sides;
                    sides.tell(&job.slice, &shard, op, &order).await?;
                    faults::point("ordered", op);
                }
                _ => return Ok(Gone::NotSo),
            }
        }
        Err(StoreError::new("give up", "the record keeps changing").into())
    }

    /// Has the owner alone acknowledge from now on, where both sides did.
    pub async fn relax(&self, job: &Job) -> Result<(), MoveError> {
        for _ in 0..STEPS_MAX {
            let seen = self.read(&job.slice).await?;
            let Ok(then) = protocol::route::relax(&seen.route, &job.move_id) else {
                return Ok(());
            };
            let slice = &job.slice;
            tracing::warn!(%slice, "one side alone acknowledges votes from now on");
            self.records.swap(slice, &seen, &then).await?;
        }
        Err(StoreError::new("relax", "the record keeps changing").into())
    }

    /// Ends a move that gave up: the record is free.
    pub async fn let_go(&self, job: &Job) -> Result<(), MoveError> {
        for _ in 0..STEPS_MAX {
            let seen = self.read(&job.slice).await?;
            let Some((id, moving)) = at_work(job, seen.route.moving.as_ref()) else {
                return Ok(());
            };
            if !moving.gives_up {
                return Ok(());
            }
            let Ok(then) = protocol::route::release(&seen.route, &id) else {
                return Ok(());
            };
            faults::point("swap", &then);
            self.records.swap(&job.slice, &seen, &then).await?;
            faults::point("swapped", &then);
        }
        Ok(())
    }

    /// Tells a shard whose copy was given up at this epoch that it owns nothing
    /// any more, if it answers; what it holds then.
    pub async fn disown(
        &self,
        slice: &SliceId,
        (shard, epoch): (&ShardId, Epoch),
        id: &MoveId,
    ) -> Result<Option<Holding>, MoveError> {
        let sides = Sides::find(&*self.shards, None, shard, shard)?;
        loop {
            let (fence, _) = sides.fences(slice).await?;
            let Some(op) = protocol::disown(&fence, epoch) else {
                return Ok(fence.map(|fence| fence.holding));
            };
            let fence = fence.as_ref();
            let order = Order {
                // Whoever owns it is left by the way back; what is sealed or was
                // never owned is the move's that made it so.
                move_id: fence
                    .filter(|fence| fence.holding != Holding::Owner)
                    .and_then(|fence| fence.move_id.clone())
                    .unwrap_or_else(|| id.back()),
                token: fence.map_or(0, |fence| fence.token),
            };
            sides.tell(slice, shard, op, &order).await?;
        }
    }

    /// Removes the copy that a shard has which was left behind at this epoch, with
    /// its files. Only what knows that it owns nothing is removed.
    pub async fn remove_lost(
        &self,
        slice: &SliceId,
        (shard, epoch): (&ShardId, Epoch),
        id: &MoveId,
    ) -> Result<(), MoveError> {
        let sides = Sides::find(&*self.shards, self.archives.clone(), shard, shard)?;
        loop {
            let (fence, _) = sides.fences(slice).await?;
            let fence = match fence {
                Some(fence) if fence.holding == Holding::Gone => {
                    return sides.remove_files(&sides.from, slice).await;
                }
                // Retired by it, or by the move that it was to undo. A later one has a
                // higher epoch.
                Some(fence) if fence.holding == Holding::Retired && fence.epoch <= epoch => fence,
                _ => return Ok(()),
            };
            let order = Order {
                move_id: id.back(),
                token: fence.token,
            };
            let op = protocol::Op::Purge(epoch);
            sides.tell(slice, shard, op, &order).await?;
        }
    }

    fn kept<'a>(
        &self,
        id: &MoveId,
        moving: &Moving,
        slice: &'a SliceId,
    ) -> Result<Kept<'a>, MoveError> {
        let kept = match id.is_back() {
            true => &moving.to,
            false => &moving.from,
        };
        // It is asked for its own key and range.
        let sides = Sides::find(&*self.shards, self.archives.clone(), kept, kept)?;
        Ok(Kept { sides, slice })
    }
}

impl Kept<'_> {
    async fn fence(&self) -> Result<Option<Fence>, MoveError> {
        let (id, shard) = &self.sides.to;
        shard.fence(self.slice).await.map_err(failed(id))
    }

    /// Votes that are there, in files too.
    async fn votes(&self) -> Result<u64, MoveError> {
        let side = &self.sides.to;
        let digest = side.1.digest(self.slice).await.map_err(failed(&side.0))?;
        let in_files = self.sides.rows_in_files(side, self.slice).await?;
        Ok(digest.votes() + in_files)
    }
}

/// The move, or its way back, while it is where an owner can be left behind.
fn at_work(job: &Job, moving: Option<&Moving>) -> Option<(MoveId, Moving)> {
    let moving = moving?;
    let back = job.move_id.back();
    let fits = match moving.phase {
        Phase::Window if moving.move_id == job.move_id => true,
        Phase::Copying | Phase::Sealing { .. } => moving.move_id == back,
        Phase::Window | Phase::Cleaning => moving.move_id == back && moving.gives_up,
        Phase::Aborting => false,
    };
    fits.then(|| (moving.move_id.clone(), moving.clone()))
}

pub(super) fn owns(fence: Option<&Fence>, epoch: Epoch) -> bool {
    fence.is_some_and(|fence| fence.holding == Holding::Owner && fence.epoch == epoch)
}

/// Whether what a shard remembers is what an owner would: one whose disk was
/// replaced remembers nothing.
fn holds_the_slice(fence: Option<&Fence>) -> Result<(), String> {
    match fence.map(|fence| fence.holding) {
        Some(Holding::Owner | Holding::Sealed | Holding::Importing) => Ok(()),
        Some(Holding::Retired | Holding::Gone) => Err("it does not own the slice".to_owned()),
        None => Err("it remembers nothing of the slice".to_owned()),
    }
}
