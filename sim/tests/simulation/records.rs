//! The product's slice records, with planted bugs.

use std::sync::Arc;

use async_trait::async_trait;
use ballast_control_plane::migrations::slice_records::SliceRecords;
use ballast_domain::ShardId;
use ballast_domain::moving::{MigrationPhase, SliceRoute};
use ballast_domain::registry::RegistryError;
use ballast_domain::tenant::SliceId;
use ballast_migration_engine::ports::{RouteRecord, RouteStore};
use ballast_migration_engine::protocol::command_token;
use ballast_vote_shard::shard::MigrationToken;
use ballast_vote_shard::{FencedSlice, VoteShard};
use tokio::time::sleep;

use crate::bugs::{self, Bug};
use crate::chance;
use crate::nodes::Nodes;

/// The product's slice records, with a planted bug if there is one.
pub(crate) struct FaultyRouteStore {
    pub(crate) whole: SliceRecords,
    pub(crate) nodes: Arc<Nodes>,
}

impl FaultyRouteStore {
    /// Applies a planted bug to an update.
    async fn broken(&self, slice: &SliceId, seen: &RouteRecord, then: &SliceRoute) -> SliceRoute {
        let mut then = then.clone();
        let Some(moving) = &then.moving else {
            return then;
        };
        if bugs::is_planted(Bug::PublishBeforeCommit) && moving.phase == MigrationPhase::Window {
            let order = MigrationToken {
                migration_id: moving.migration_id.clone(),
                token: command_token(moving.prepared, 1 << 19),
            };
            self.activate(&moving.to, slice, &then, &order).await;
            // Long enough for another worker to decide differently.
            sleep(chance::ms(0, 2_000)).await;
        }
        let was = seen.route.moving.as_ref().map(|was| was.phase);
        if bugs::is_planted(Bug::EpochReused)
            && moving.phase == MigrationPhase::Aborting
            && matches!(was, Some(MigrationPhase::Sealing { .. }))
        {
            then.epoch = seen.route.epoch;
        }
        then
    }

    async fn activate(
        &self,
        to: &ShardId,
        slice: &SliceId,
        then: &SliceRoute,
        order: &MigrationToken,
    ) {
        let at = FencedSlice {
            slice: slice.clone(),
            epoch: then.epoch,
        };
        if let Some((shard, _)) = self.nodes.up(to) {
            let _ = shard.activate(&at, order).await;
        }
    }
}

#[async_trait]
impl RouteStore for FaultyRouteStore {
    async fn read(&self, slice: &SliceId) -> Result<Option<RouteRecord>, RegistryError> {
        self.whole.read(slice).await
    }

    async fn swap(
        &self,
        slice: &SliceId,
        seen: &RouteRecord,
        then: &SliceRoute,
    ) -> Result<bool, RegistryError> {
        let then = self.broken(slice, seen, then).await;
        if bugs::is_planted(Bug::RecordOverwritten)
            && let Some(now) = self.whole.read(slice).await?
        {
            return self.whole.swap(slice, &now, &then).await;
        }
        self.whole.swap(slice, seen, &then).await
    }
}
