//! The records of slices in the registry, as a worker reads and changes them.

use std::sync::Arc;

use async_trait::async_trait;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::registry::typed::{self, Versioned};
use ballast_domain::moving::{Phase, Route};
use ballast_domain::registry::{CommitError, Registry, StoreError};
use ballast_domain::tenant::{SliceId, Tenant};
use ballast_domain::{Clock, ShardId};
use ballast_migration_engine::ports::{Records, Seen};
use ballast_migration_engine::protocol::token;
use ballast_vote_shard::shard::Order;
use ballast_vote_shard::{At, VoteShard};

use crate::bugs::{self, Bug};
use crate::nodes::Nodes;
use crate::trace::SimClock;

pub(crate) struct TenantRecords {
    pub(crate) registry: Arc<dyn Registry>,
    /// For planted bugs only.
    pub(crate) nodes: Arc<Nodes>,
}

impl TenantRecords {
    async fn tenant(&self, slice: &SliceId) -> Result<Option<Versioned<Tenant>>, StoreError> {
        typed::get::<Tenant>(&*self.registry, slice.tenant_id.as_str()).await
    }

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
        }
        if bugs::has(Bug::EpochReused)
            && moving.phase == Phase::Aborting
            && let Some(Phase::Sealing { .. }) = seen.route.moving.as_ref().map(|was| was.phase)
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
impl Records for TenantRecords {
    async fn read(&self, slice: &SliceId) -> Result<Option<Seen>, StoreError> {
        Ok(self.tenant(slice).await?.and_then(|tenant| {
            let mut slices = tenant.value.slices.iter();
            let found = slices.find(|known| known.slice == slice.slice)?;
            Some(Seen {
                route: found.route(),
                version: tenant.version,
            })
        }))
    }

    async fn swap(&self, slice: &SliceId, seen: &Seen, then: &Route) -> Result<bool, StoreError> {
        let Some(Versioned { mut value, version }) = self.tenant(slice).await? else {
            return Ok(false);
        };
        if version != seen.version && !bugs::has(Bug::RecordOverwritten) {
            return Ok(false);
        }
        let then = self.broken(slice, seen, then).await;
        for known in &mut value.slices {
            if known.slice == slice.slice {
                known.set_route(then.clone(), SimClock.now());
            }
        }
        let write = typed::update(version, &value)?;
        let intent = Intent::ballast("mover", "a move");
        let commit = intent.commit("tenant.move", vec![write], Vec::new());
        match self.registry.commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
