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
use crate::key::{ApiKey, KeyStatus, ScopeSet, Throttle};
use crate::limits::Limits;
use crate::moving::MoveId;
use crate::registry::StoreError;
use crate::shard::ShardState;
use crate::tenant::{Slice, TenantStatus};

/// What a key allows: the answer to a look-up by hash. Routers keep very many
/// of these, so it holds only what a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The whole hash, compared in constant time after the look-up.
    pub hash: CredentialHash,
    /// The key's public name.
    pub key_id: KeyId,
    /// The tenant it speaks for.
    pub tenant_id: TenantId,
    /// What it may do.
    pub scopes: ScopeSet,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// Whether it was revoked.
    pub revoked: bool,
    /// That it is let through only so often for a while.
    pub throttle: Option<Throttle>,
}

impl Grant {
    /// What a key allows.
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

    /// Whether the key works at `now`.
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        KeyStatus::of(self.revoked, self.expires_at, now)
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

/// What a router knows of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRoute {
    /// The region it stands in.
    pub region: RegionId,
    /// Whether it serves.
    pub state: ShardState,
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

/// How far a move's changes were streamed back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streamed {
    /// Up to this position at least.
    UpTo(u64),
    /// That is about to be written down.
    NotYet,
    /// Nobody keeps count of it: it has to be carried from the beginning.
    Unknown,
}

/// Where routes come from. A missing answer is `None`; an error means that
/// the source is away, and the router goes on with what it knows.
#[async_trait]
pub trait RouteSource: Send + Sync + 'static {
    /// The key with this hash, whatever its status.
    async fn grant(&self, hash: &CredentialHash) -> Result<Option<Grant>, StoreError>;

    /// A tenant's route.
    async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<TenantRoute>>, StoreError>;

    /// Where a shard stands and whether it serves.
    async fn shard(&self, id: &ShardId) -> Result<Option<ShardRoute>, StoreError>;

    /// Waits for changes after `revision` and says what they made stale, with
    /// the revision to go on from.
    async fn stale_since(&self, revision: u64) -> Result<(u64, Vec<Stale>), StoreError>;

    /// How far what a move's target took since its cutover is known to be on the
    /// source, too: a position of the target's changes. Those before it need not be
    /// carried once more.
    async fn streamed_back(&self, id: &MoveId) -> Result<Streamed, StoreError>;

    /// The revision to start listening from.
    async fn revision(&self) -> Result<u64, StoreError>;

    /// Notes when keys were last used.
    async fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError>;
}
