//! The port through which a router reads keys and routes, and the types that it reads.
//!
//! A router caches what it reads and follows a feed of invalidations. A cached route may
//! be stale. That is harmless, because every write carries the epoch and the shard
//! refuses an old one.

use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::credential::CredentialHash;
use crate::id::{KeyId, RegionId, ShardId, TenantId};
use crate::key::{ApiKey, KeyStatus, KeyThrottle, ScopeSet};
use crate::limits::TenantLimits;
use crate::moving::MigrationId;
use crate::registry::RegistryError;
use crate::shard::ShardState;
use crate::tenant::{Slice, TenantStatus};

/// What a key allows. Routers cache very many of these, so it has only what a request
/// needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyGrant {
    /// The whole hash, compared in constant time after the look-up.
    pub hash: CredentialHash,
    /// The key's id.
    pub key_id: KeyId,
    /// The tenant it speaks for.
    pub tenant_id: TenantId,
    /// Its scopes.
    pub scopes: ScopeSet,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Its throttle, if it is throttled for a while.
    pub throttle: Option<KeyThrottle>,
}

impl KeyGrant {
    /// Makes it from a key's record.
    pub fn new(hash: CredentialHash, key: &ApiKey) -> Self {
        Self {
            hash,
            key_id: key.key_id.clone(),
            tenant_id: key.tenant_id.clone(),
            scopes: key.scopes.iter().copied().collect(),
            expires_at: key.expires_at,
            revoked: key.revoked_at.is_some(),
            throttle: key.throttle,
        }
    }

    /// The status of the key at `now`.
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        KeyStatus::at_time(self.revoked, self.expires_at, now)
    }
}

/// A tenant as a router needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRoute {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Whether it is served.
    pub status: TenantStatus,
    /// Its home region.
    pub home_region: RegionId,
    /// Its limits.
    pub limits: TenantLimits,
    /// Browser origins that may use its keys.
    pub cors_origins: Vec<String>,
    /// Its slices with their routes.
    pub slices: Vec<Slice>,
}

/// A shard as a router needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRoute {
    /// Its region.
    pub region: RegionId,
    /// Its state.
    pub state: ShardState,
}

/// A cached entry of a router that is no longer valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteInvalidation {
    /// A key changed.
    Key(KeyId),
    /// A tenant changed.
    Tenant(TenantId),
    /// A shard changed.
    Shard(ShardId),
}

/// How far a migration's target has streamed its changes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamedPosition {
    /// Up to this position at least.
    UpTo(u64),
    /// The position is about to be recorded.
    NotYet,
    /// The position is not recorded: copy from the beginning.
    Unknown,
}

/// The source of keys and routes. A missing record is `None`. An error means that the
/// source is unavailable, and the router continues with its cache.
#[async_trait]
pub trait RouteSource: Send + Sync + 'static {
    /// The key with this hash, whatever its status.
    async fn grant(&self, hash: &CredentialHash) -> Result<Option<KeyGrant>, RegistryError>;

    /// A tenant's route.
    async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<TenantRoute>>, RegistryError>;

    /// A shard's region and state.
    async fn shard(&self, id: &ShardId) -> Result<Option<ShardRoute>, RegistryError>;

    /// Waits for changes after `revision`. Returns the entries that they invalidate, and
    /// the revision to continue from.
    async fn stale_since(
        &self,
        revision: u64,
    ) -> Result<(u64, Vec<RouteInvalidation>), RegistryError>;

    /// How far the changes of a migration's target since the cutover are also on the
    /// source, as a position in the target's change stream. Earlier changes need not be
    /// copied again.
    async fn streamed_back(&self, id: &MigrationId) -> Result<StreamedPosition, RegistryError>;

    /// The revision to start listening from.
    async fn revision(&self) -> Result<u64, RegistryError>;

    /// Records when keys were last used.
    async fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> Result<(), RegistryError>;
}
