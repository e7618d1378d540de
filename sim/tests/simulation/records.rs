//! The product's records of slices, and what planted bugs make of them.

use std::sync::Arc;

use async_trait::async_trait;
use ballast_control_plane::migrations::records::SliceRecords;
use ballast_domain::ShardId;
use ballast_domain::moving::{Phase, Route};
use ballast_domain::registry::StoreError;
use ballast_domain::tenant::SliceId;
use ballast_migration_engine::ports::{Records, Seen};
use ballast_migration_engine::protocol::token;
use ballast_vote_shard::shard::Order;
use ballast_vote_shard::{At, VoteShard};
use tokio::time::sleep;

use crate::bugs::{self, Bug};
use crate::chance;
use crate::nodes::Nodes;

/// The records, or what a bug makes of them.
pub(crate) struct BrokenRecords {
    pub(crate) whole: SliceRecords,
    pub(crate) nodes: Arc<Nodes>,
}

impl BrokenRecords {
    /// What a bug makes of a change before it is decided.
    async fn broken(&self, slice: &SliceId, seen: &Seen, then: &Route) -> Route {
        let mut then = then.clone();
        let Some(moving) = &then.moving else {
            return then;
        };
        if bugs::has(Bug::PublishBeforeCommit) && moving.phase == Phase::Window {
            let order = Order {
                move_id: moving.move_id.clone(),
                token: token(moving.prepared, 1 << 19),
            };
            self.activate(&moving.to, slice, &then, &order).await;
            // Long enough for others to decide otherwise.
            sleep(chance::ms(0, 2_000)).await;
        }
        let was = seen.route.moving.as_ref().map(|was| was.phase);
        if bugs::has(Bug::EpochReused)
            && moving.phase == Phase::Aborting
            && matches!(was, Some(Phase::Sealing { .. }))
        {
            then.epoch = seen.route.epoch;
        }
        then
    }

    async fn activate(&self, to: &ShardId, slice: &SliceId, then: &Route, order: &Order) {
        let at = At {
            slice: slice.clone(),
            epoch: then.epoch,
        };
        if let Some((shard, _)) = self.nodes.up(to) {
            let _ = shard.activate(&at, order).await;
        }
    }
}

#[async_trait]
impl Records for BrokenRecords {
    async fn read(&self, slice: &SliceId) -> Result<Option<Seen>, StoreError> {
        self.whole.read(slice).await
    }

    async fn swap(&self, slice: &SliceId, seen: &Seen, then: &Route) -> Result<bool, StoreError> {
        let then = self.broken(slice, seen, then).await;
        if bugs::has(Bug::RecordOverwritten)
            && let Some(now) = self.whole.read(slice).await?
        {
            return self.whole.swap(slice, &now, &then).await;
        }
        self.whole.swap(slice, seen, &then).await
    }
}
