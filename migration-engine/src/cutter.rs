//! Working on a cut: look, decide, do one thing, look again.
//!
//! ```text
//!   ready? ──► claim ──► look ──► protocol::recut::next ──► do ──► look ──► …
//! ```
//! Whoever finds a cut in a tenant's record can go on with it: all orders of a
//! cut carry the same token, which is above those of every move before it and
//! below those of every move after it, and what comes late is refused by its
//! epoch.

use std::sync::Arc;

use ballast_domain::moving::MoveId;
use ballast_domain::slicing::{Layout, Recut, RecutPhase};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{Clock, TenantId};
use ballast_vote_shard::shard::{Cut, Fence, Holding, Order};
use ballast_vote_shard::{At, ShardError, Shards, VoteShard};

use crate::faults;
use crate::ports::{Layouts, SeenLayout};
use crate::protocol::recut::{self, Op, Step, View};
use crate::protocol::token;
use crate::worker::MoveError;

/// How a cut came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// The children have taken the parents' place, and the shard knows.
    Cut {
        /// How long nobody could vote, in milliseconds.
        pause_ms: u64,
    },
    /// It took too long: everything is as it was.
    CalledOff,
    /// Somebody else has brought it to its end.
    Elsewhere,
}

/// Why a cut is not begun now.
#[derive(Debug, thiserror::Error)]
pub enum NotNow {
    /// The record does not allow it.
    #[error(transparent)]
    Refused(#[from] recut::Refused),
    /// The shard is not ready: it would be sealed for long.
    #[error(transparent)]
    Shard(#[from] MoveError),
    /// The record was changed at the same time: look again.
    #[error("the record was changed at the same time")]
    Changed,
}

/// Cuts slices.
#[derive(Clone)]
pub struct Cutter {
    layouts: Arc<dyn Layouts>,
    shards: Arc<dyn Shards>,
    clock: Arc<dyn Clock>,
}

impl Cutter {
    /// One on these records and shards.
    pub fn new(layouts: Arc<dyn Layouts>, shards: Arc<dyn Shards>, clock: Arc<dyn Clock>) -> Self {
        Self {
            layouts,
            shards,
            clock,
        }
    }

    /// Claims a cut, once its shard is seen to be ready for it.
    pub async fn claim(
        &self,
        tenant: &TenantId,
        id: &MoveId,
        parents: &[u32],
        cuts: &[u64],
    ) -> Result<(), NotNow> {
        let seen = self.read(tenant).await?;
        let then = recut::claim(&seen.layout, id, parents, cuts)?;
        if let Some(cut) = &then.recut {
            self.ready(tenant, &seen.layout, cut).await?;
        }
        faults::point("cut", "Claim");
        let swapped = self.layouts.swap(tenant, &seen, &then).await;
        faults::point("cut", "Claimed");
        match swapped.map_err(MoveError::from)? {
            true => Ok(()),
            false => Err(NotNow::Changed),
        }
    }

    /// Whether the shard owns all parents, as the record says. One that nobody
    /// has written to yet is told that it does: a slice that was never heard of
    /// cannot be sealed, nor unsealed.
    async fn ready(
        &self,
        tenant: &TenantId,
        layout: &Layout,
        cut: &Recut,
    ) -> Result<(), MoveError> {
        let shard = self.shard(cut)?;
        let failed = |source| MoveError::Shard {
            shard: cut.shard_id.clone(),
            source,
        };
        for slice in &cut.parents {
            let Some(part) = layout.part(*slice) else {
                continue;
            };
            let at = at(tenant, *slice, part.epoch);
            let mut fence = shard.fence(&at.slice).await.map_err(failed)?;
            if fence.is_none() && part.epoch == Epoch::FIRST {
                shard.found(&at).await.map_err(failed)?;
                fence = shard.fence(&at.slice).await.map_err(failed)?;
            }
            let ready = fence
                .is_some_and(|fence| fence.holding == Holding::Owner && fence.epoch == part.epoch);
            if !ready {
                let why = format!("it does not own {} yet", at.slice);
                return Err(failed(ShardError::unavailable(why)));
            }
        }
        Ok(())
    }

    /// Goes on with the cut that is at work on a tenant until it is over. After
    /// so many milliseconds it is called off, by whoever sees it.
    pub async fn work(&self, tenant: &TenantId, seal_max_ms: u64) -> Result<Came, MoveError> {
        let mut came = Came::Elsewhere;
        let mut id: Option<MoveId> = None;
        let mut since_ms = None;
        loop {
            let seen = self.read(tenant).await?;
            let Some(cut) = seen.layout.recut.clone() else {
                return Ok(came);
            };
            if *id.get_or_insert_with(|| cut.recut_id.clone()) != cut.recut_id {
                return Ok(came);
            }
            since_ms = since_ms.or(seen.sealing_since.map(|since| since.unix_ms()));
            let now_ms = self.clock.now().unix_ms();
            let sealed_ms = since_ms.map_or(0, |since| now_ms.saturating_sub(since).max(0));
            let sealed_ms = sealed_ms.unsigned_abs();
            match cut.phase {
                RecutPhase::Aborting => came = Came::CalledOff,
                RecutPhase::Cut => {
                    came = Came::Cut {
                        pause_ms: sealed_ms,
                    }
                }
                RecutPhase::Sealing => {}
            }
            let give_up = cut.phase == RecutPhase::Sealing && sealed_ms >= seal_max_ms;
            let step = match give_up {
                // Whether the shard answers or not.
                true => blind(&cut.recut_id, &seen),
                false => recut::next(&cut.recut_id, &self.look(tenant, &seen, &cut).await?),
            };
            match step {
                Step::Swap(then) => {
                    let phase = then.recut.as_ref().map(|cut| cut.phase);
                    faults::point("cut", ("Swap", phase));
                    self.layouts.swap(tenant, &seen, &then).await?;
                    faults::point("cut", ("Done", phase));
                }
                Step::Order(op) => {
                    faults::point("cut", ("Tell", op));
                    self.tell(tenant, &cut, op).await?;
                    faults::point("cut", ("Told", op));
                }
                Step::Over => return Ok(came),
            }
        }
    }

    async fn read(&self, tenant: &TenantId) -> Result<SeenLayout, MoveError> {
        let seen = self.layouts.read(tenant).await?;
        seen.ok_or_else(|| MoveError::NoSlice(slice_of(tenant, 0)))
    }

    fn shard(&self, cut: &Recut) -> Result<Arc<dyn VoteShard>, MoveError> {
        let shard = self.shards.shard(&cut.shard_id);
        shard.map_err(|source| failed(cut, source))
    }

    async fn look(
        &self,
        tenant: &TenantId,
        seen: &SeenLayout,
        cut: &Recut,
    ) -> Result<View, MoveError> {
        let shard = self.shard(cut)?;
        let fences = async |slices: Vec<u32>| {
            let mut fences: Vec<Option<Fence>> = Vec::with_capacity(slices.len());
            for slice in slices {
                let fence = shard.fence(&slice_of(tenant, slice)).await;
                fences.push(fence.map_err(|source| failed(cut, source))?);
            }
            Ok::<_, MoveError>(fences)
        };
        Ok(View {
            layout: seen.layout.clone(),
            parents: fences(cut.parents.clone()).await?,
            children: fences(cut.children.iter().map(|child| child.slice).collect()).await?,
            give_up: false,
        })
    }

    async fn tell(&self, tenant: &TenantId, cut: &Recut, op: Op) -> Result<(), MoveError> {
        let shard = self.shard(cut)?;
        let order = Order {
            move_id: cut.recut_id.clone(),
            token: token(cut.epoch, 0),
        };
        let told = match op {
            Op::Seal(slice, epoch) => shard.seal(&at(tenant, slice, epoch), &order).await,
            Op::Reinstate(slice, epoch) => shard.unseal(&at(tenant, slice, epoch), &order).await,
            Op::Recut => {
                let cut = Cut {
                    tenant_id: tenant.clone(),
                    epoch: cut.epoch,
                    parents: cut.parents.clone(),
                    children: cut.children.clone(),
                };
                shard.recut(&order, &cut).await
            }
        };
        told.map_err(|source| failed(cut, source))
    }
}

/// What is done about a cut that took too long, from its record alone.
fn blind(id: &MoveId, seen: &SeenLayout) -> Step {
    let view = View {
        layout: seen.layout.clone(),
        parents: Vec::new(),
        children: Vec::new(),
        give_up: true,
    };
    recut::next(id, &view)
}

fn slice_of(tenant: &TenantId, slice: u32) -> SliceId {
    SliceId {
        tenant_id: tenant.clone(),
        slice,
    }
}

fn at(tenant: &TenantId, slice: u32, epoch: Epoch) -> At {
    At {
        slice: slice_of(tenant, slice),
        epoch,
    }
}

fn failed(cut: &Recut, source: ShardError) -> MoveError {
    MoveError::Shard {
        shard: cut.shard_id.clone(),
        source,
    }
}
