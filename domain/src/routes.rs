//! What a router must know to turn an API key into a shard, and the port
//! through which it learns it.
//!
//! A router keeps what it has read and is told what to forget. What it knows
//! may be stale: that is harmless, because every write carries the epoch and
//! the shard refuses an old one.

use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::credential::CredentialHash;
use crate::id::{KeyId, RegionId, ShardId, TenantId};
use crate::key::{ApiKey, Scope};
use crate::limits::Limits;
use crate::registry::StoreError;
use crate::tenant::{Slice, TenantStatus};

/// What a key allows: the answer to a look-up by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The whole hash, compared in constant time after the look-up.
    pub hash: CredentialHash,
    /// The key.
    pub key: ApiKey,
}

impl Grant {
    /// Whether the key has this scope.
    pub fn allows(&self, scope: Scope) -> bool {
        self.key.scopes.contains(&scope)
    }
}

/// What a router knows of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRoute {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Whether it is served.
    pub status: TenantStatus,
    /// Where it lives.
    pub home_region: RegionId,
    /// What it may use.
    pub limits: Limits,
    /// Browser origins that may use its keys.
    pub cors_origins: Vec<String>,
    /// Where its slices are.
    pub slices: Vec<Slice>,
}

/// Something a router may have kept is no longer true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stale {
    /// A key changed.
    Key(KeyId),
    /// A tenant changed.
    Tenant(TenantId),
    /// A shard changed.
    Shard(ShardId),
}

/// Where routes come from. A missing answer is `None`; an error means that
/// the source is away, and the router goes on with what it knows.
#[async_trait]
pub trait RouteSource: Send + Sync + 'static {
    /// The key with this hash, whatever its status.
    async fn grant(&self, hash: &CredentialHash) -> Result<Option<Arc<Grant>>, StoreError>;

    /// A tenant's route.
    async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<TenantRoute>>, StoreError>;

    /// The region a shard stands in.
    async fn shard_region(&self, id: &ShardId) -> Result<Option<RegionId>, StoreError>;

    /// Waits for changes after `revision` and says what they made stale, with
    /// the revision to go on from.
    async fn stale_since(&self, revision: u64) -> Result<(u64, Vec<Stale>), StoreError>;

    /// The revision to start listening from.
    async fn revision(&self) -> Result<u64, StoreError>;

    /// Notes when keys were last used.
    async fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError>;
}
