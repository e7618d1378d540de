//! A seal that has lasted too long is undone by anybody who sees it, without
//! waiting for whoever sealed: by the record, then on the shard.

use ballast_domain::migration::{Migration, Stage};
use ballast_domain::moving::Phase;
use ballast_vote_shard::shard::Order;

use super::{MoveError, Sides, Worker};
use crate::protocol::{self, Op, Step, View, Wish};

/// Steps that this may take: more means that somebody else is at work.
const STEPS_MAX: usize = 8;

impl Worker {
    /// Has the slice of a move take votes again, if it has been sealed for
    /// longer than this; and if the record has decided who takes them, but the
    /// shard was not told.
    pub async fn unseal_overdue(
        &self,
        migration: &Migration,
        most_ms: u64,
    ) -> Result<(), MoveError> {
        let slice = migration.slice_id();
        for _ in 0..STEPS_MAX {
            let seen = self.read(&slice).await?;
            let Some(moving) = seen.route.moving.clone() else {
                return Ok(());
            };
            let settled = match moving.phase {
                // Who would take votes is away for good.
                _ if moving.gives_up => true,
                Phase::Window | Phase::Cleaning => migration.stage == Stage::CutOver,
                Phase::Copying => migration.stage == Stage::Asked,
                Phase::Sealing { .. } => !self.is_overdue(&seen, Some(most_ms)),
                Phase::Aborting => false,
            };
            if settled {
                return Ok(());
            }
            // One of them being away keeps nobody from voting on the other: what is
            // not known of it is not needed for that.
            let view = View {
                route: seen.route.clone(),
                source: self.fence_on(&moving.from, &slice).await.unwrap_or(None),
                target: self.fence_on(&moving.to, &slice).await.unwrap_or(None),
                equal: true,
                wish: Wish::Wait,
            };
            let fences = [&view.source, &view.target];
            let highest = fences.into_iter().flatten().map(|fence| fence.token);
            let step = protocol::next(&moving.move_id, &view);
            let sealing = matches!(moving.phase, Phase::Sealing { .. });
            match step {
                Step::Swap(then) if sealing => {
                    let id = &moving.move_id;
                    tracing::warn!(%id, %slice, "sealed for too long: it takes votes again");
                    self.records.swap(&slice, &seen, &then).await?;
                }
                Step::Order(shard, op @ (Op::Reinstate(_) | Op::Activate(_))) => {
                    // Whoever worked on it was not refused this token, and is
                    // not afterwards: what it does late is refused by epoch.
                    let token = highest.max().unwrap_or(0);
                    let token = token.max(protocol::token(moving.prepared, 0));
                    let order = Order {
                        move_id: moving.move_id.clone(),
                        token,
                    };
                    let side = Sides::find(&*self.shards, None, &shard, &shard)?;
                    side.tell(&slice, &shard, op, &order).await?;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}
