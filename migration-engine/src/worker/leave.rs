//! A move that has nothing left to do but to remove a copy, on a shard that is
//! away. Nobody needs that copy: whoever owns the slice has everything. So the
//! record is free without it, and it is removed when its shard answers again
//! ([`super::give_up`] tells it).
//!
//! ```text
//!   Window, Cleaning ──► the copy where the slice came from
//!   Aborting ──────────► what had come to the target
//! ```
//! That may be done at any time: a copy that is late to be removed is one that a
//! shard remembers as retired, and orders that come late are refused by token and
//! epoch as ever.

use ballast_domain::ShardId;
use ballast_domain::migration::Left;
use ballast_domain::moving::Phase;
use ballast_domain::registry::StoreError;
use ballast_domain::tenant::SliceId;
use ballast_vote_shard::shard::{Fence, Order};

use super::give_up::owns;
use super::sides::failed;
use super::{Job, MoveError, Sides, Worker};
use crate::faults;
use crate::protocol::{self, Op};

/// Steps that this may take: more means that somebody else is at work.
const STEPS_MAX: usize = 16;

/// A move without what it could not remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// What is left.
    pub left: Left,
    /// Whether the slice went back, or never left.
    pub undone: bool,
    /// Whether it went back.
    pub back: bool,
}

impl Worker {
    /// Brings a move, or its way back, to where nothing is left to do but to remove
    /// a copy; what that is. The record still names the move then, for whoever has
    /// to write that down. Nothing if the move is not so far, or over. With `undo`,
    /// one that is not cut over is called off.
    pub async fn leave(&self, job: &Job, undo: bool) -> Result<Option<Leaving>, MoveError> {
        for _ in 0..STEPS_MAX {
            let seen = self.read(&job.slice).await?;
            let route = &seen.route;
            let back = job.move_id.back();
            let moving = route.move_of(&job.move_id).or_else(|| route.move_of(&back));
            let Some(moving) = moving.filter(|moving| !moving.gives_up) else {
                return Ok(None);
            };
            let is_back = moving.move_id == back;
            let (shard, epoch, op) = match moving.phase {
                Phase::Copying | Phase::Sealing { .. } if undo && !is_back => {
                    if let Ok(then) = protocol::route::abort(route, &moving.move_id) {
                        self.records.swap(&job.slice, &seen, &then).await?;
                    }
                    continue;
                }
                Phase::Copying | Phase::Sealing { .. } => return Ok(None),
                // What came to the target came at an epoch that was given out.
                Phase::Aborting => (&moving.to, route.spent, Op::Reinstate(route.epoch)),
                Phase::Window | Phase::Cleaning => {
                    (&moving.from, route.epoch, Op::Activate(route.epoch))
                }
            };
            let owner = Sides::find(&*self.shards, None, &route.owner, &route.owner)?;
            let fence = self.fence_on(&route.owner, &job.slice).await?;
            if !owns(fence.as_ref(), route.epoch) {
                let order = Order {
                    move_id: moving.move_id.clone(),
                    token: protocol::token(moving.prepared, job.lease),
                };
                owner.tell(&job.slice, &route.owner, op, &order).await?;
                continue;
            }
            if moving.phase == Phase::Window {
                if let Ok(then) = protocol::route::clean(route, &moving.move_id) {
                    self.records.swap(&job.slice, &seen, &then).await?;
                }
                continue;
            }
            let left = Left {
                shard: shard.clone(),
                epoch,
            };
            return Ok(Some(Leaving {
                left,
                undone: is_back || moving.phase == Phase::Aborting,
                back: is_back && moving.phase == Phase::Cleaning,
            }));
        }
        Err(StoreError::new("leave a copy", "the record keeps changing").into())
    }

    /// Ends a move that leaves a copy: the record is free.
    pub async fn release(&self, job: &Job) -> Result<(), MoveError> {
        for _ in 0..STEPS_MAX {
            let seen = self.read(&job.slice).await?;
            let back = job.move_id.back();
            let ids = [&job.move_id, &back];
            let mut ids = ids.into_iter();
            let Some(id) = ids.find(|id| seen.route.move_of(id).is_some()) else {
                return Ok(());
            };
            let Ok(then) = protocol::route::release(&seen.route, id) else {
                return Ok(());
            };
            faults::point("swap", &then);
            self.records.swap(&job.slice, &seen, &then).await?;
            faults::point("swapped", &then);
        }
        Ok(())
    }

    /// What a shard remembers of a slice.
    pub(super) async fn fence_on(
        &self,
        shard: &ShardId,
        slice: &SliceId,
    ) -> Result<Option<Fence>, MoveError> {
        let found = self.shards.shard(shard).map_err(failed(shard))?;
        found.fence(slice).await.map_err(failed(shard))
    }
}
