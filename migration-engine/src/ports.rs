//! What a move needs of the world, besides the shards.
//!
//! ```text
//!   Records   who owns a slice and what becomes of it: decides
//!   Layouts   which slices a tenant has, and what is cut of them: decides
//!   Moves     what was asked of a move, and what is kept of it: tells
//! ```

use async_trait::async_trait;
use ballast_domain::answers::AroundCutover;
use ballast_domain::certificate::{Certificate, Signed};
use ballast_domain::migration::Migration;
use ballast_domain::moving::{MoveId, Route};
use ballast_domain::registry::StoreError;
use ballast_domain::slicing::Layout;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::budget::Budget;

/// The records of slices: read, and changed by compare-and-swap.
#[async_trait]
pub trait Records: Send + Sync + 'static {
    /// A slice's record as it is now, not as a cache remembers it; `None` if
    /// there is no such slice.
    async fn read(&self, slice: &SliceId) -> Result<Option<Seen>, StoreError>;

    /// Changes a record if it is still what was seen; whether it was. An error
    /// says that the store failed, not whether it happened: whoever gets one
    /// reads again.
    async fn swap(&self, slice: &SliceId, seen: &Seen, then: &Route) -> Result<bool, StoreError>;
}

/// A record as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What it says.
    pub route: Route,
    /// Its version: another one means that it has changed.
    pub version: u64,
    /// Since when the slice is being sealed, if it is.
    pub sealing_since: Option<Timestamp>,
}

/// The tenants' records as cuts see them: read, and changed by
/// compare-and-swap.
#[async_trait]
pub trait Layouts: Send + Sync + 'static {
    /// A tenant's slices as they are now, not as a cache remembers them; `None`
    /// if there is no such tenant.
    async fn read(&self, tenant: &TenantId) -> Result<Option<SeenLayout>, StoreError>;

    /// Changes them if they are still what was seen; whether they were. An
    /// error says that the store failed, not whether it happened.
    async fn swap(
        &self,
        tenant: &TenantId,
        seen: &SeenLayout,
        then: &Layout,
    ) -> Result<bool, StoreError>;
}

/// A tenant's slices as they were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLayout {
    /// What the record says.
    pub layout: Layout,
    /// Since when slices are being sealed, if they are.
    pub sealing_since: Option<Timestamp>,
}

/// A move as a workflow is given it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// Its name; that of the execution when absent.
    #[serde(
        rename = "migrationID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub migration_id: Option<MoveId>,
    /// Whose slice.
    #[serde(rename = "tenantID")]
    pub tenant_id: ballast_domain::TenantId,
    /// Which slice of the tenant.
    #[serde(default)]
    pub slice: u32,
    /// The shard that it is expected on.
    #[serde(
        rename = "fromShardID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<ShardId>,
    /// The shard that it is to come to.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long both sides are kept after the cutover, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Whether, within the window, a write is acknowledged only when both sides
    /// have it. In the workflow `sync` is what copying said.
    #[serde(rename = "bothAcknowledge", default)]
    pub sync: bool,
    /// How long nobody may be able to vote at the cutover, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pause_ms: Option<u64>,
    /// Shards that outscore the target, and are passed over on purpose.
    #[serde(
        rename = "passedOverShardIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub passed_over: Vec<ShardId>,
}

/// Whether a move may begin to copy.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It may, and counts as one that does.
    Now(Box<Migration>),
    /// Not yet.
    Later {
        /// What it waits for.
        why: String,
        /// When to ask again.
        ask_again_seconds: u64,
    },
}

/// How fast, how long sealed, and how bad for its tenant a move may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Bytes per second that it may carry; any when absent.
    pub bytes_per_second: Option<u64>,
    /// How long a slice may be sealed, in milliseconds.
    pub seal_max_ms: u64,
    /// Closed polls with fewer rows are not archived.
    pub archive_rows_min: u64,
    /// What the tenant's calls may suffer at the target before it is brought
    /// back.
    pub budget: Budget,
}

/// What readers have seen while both sides of a slice were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCounts {
    /// Reads of both sides that were compared.
    pub compared: u64,
    /// Those that differed.
    pub differences: u64,
    /// Rows that only the old side had, or newer: there should be none.
    pub stragglers: u64,
}

/// Those who read both sides while a window is open.
pub trait Readers: Send + Sync + 'static {
    /// What they have seen of a slice since its cutover, or since this process
    /// began.
    fn counts(&self, slice: &SliceId) -> ReadCounts;

    /// How the slice's calls were answered around its cutover, as far as this
    /// process made them.
    fn around_cutover(&self, slice: &SliceId) -> AroundCutover;

    /// The slice's move is over: what was seen of it can be forgotten.
    fn forget(&self, slice: &SliceId);
}

/// Why a move's own record cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MovesError {
    /// It may not be, and asking again does not help.
    #[error("{0}")]
    Refused(String),
    /// The store failed: later perhaps.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is done to a move's own record. It may be done again, to a newer one.
pub type Edit<'a> = &'a (dyn Fn(&mut Migration) + Send + Sync);

/// The moves' own records.
#[async_trait]
pub trait Moves: Send + Sync + 'static {
    /// A move's record; if there is none, it is written and the slice claimed
    /// in one step.
    async fn open(&self, id: &MoveId, wanted: &Wanted) -> Result<Migration, MovesError>;

    /// A move's record.
    async fn read(&self, id: &MoveId) -> Result<Option<Migration>, StoreError>;

    /// Changes a move's record, whatever it is by now; what it is then.
    async fn change(
        &self,
        id: &MoveId,
        action: &'static str,
        edit: Edit<'_>,
    ) -> Result<Migration, MovesError>;

    /// Asks for a move's turn to copy: limits, maintenance windows, approval.
    async fn admit(&self, migration: &Migration) -> Result<Admission, MovesError>;

    /// Why a slice that is copied may not be cut over at this moment, though the
    /// move had its turn.
    async fn held(&self, migration: &Migration) -> Result<Option<String>, MovesError>;

    /// How fast, and how long sealed, a move may be.
    fn pace(&self) -> Pace;

    /// Signs a certificate; `None` while nobody can.
    fn sign(&self, certificate: Certificate) -> Option<Signed>;
}
