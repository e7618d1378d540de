//! The ports of the migration engine, in addition to the shards.
//!
//! ```text
//!   RouteStore       who owns a slice and what migration is active: decides
//!   LayoutStore      which slices a tenant has and what recut is active: decides
//!   MigrationStore   a migration's own record: what was requested, and its figures
//!   DualReadStats    what routers counted while both sides were read
//! ```

use async_trait::async_trait;
use ballast_domain::call_stats::CutoverCallStats;
use ballast_domain::certificate::{Certificate, SignedCertificate};
use ballast_domain::migration::Migration;
use ballast_domain::moving::{MigrationId, SliceRoute};
use ballast_domain::registry::RegistryError;
use ballast_domain::slicing::SliceLayout;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::budget::ServiceBudget;

/// The records of slices, changed by compare-and-swap.
#[async_trait]
pub trait RouteStore: Send + Sync + 'static {
    /// Reads a slice's current record, not a cached one; `None` if there is no such
    /// slice.
    async fn read(&self, slice: &SliceId) -> Result<Option<RouteRecord>, RegistryError>;

    /// Replaces a record if it is still the one that was read, and returns whether it
    /// was. After an error the swap may or may not have happened: read again.
    async fn swap(
        &self,
        slice: &SliceId,
        seen: &RouteRecord,
        then: &SliceRoute,
    ) -> Result<bool, RegistryError>;
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRecord {
    /// Its content.
    pub route: SliceRoute,
    /// Its version, which changes with every update.
    pub version: u64,
    /// Since when the slice has been in phase `Sealing`, if it is.
    pub sealing_since: Option<Timestamp>,
}

/// The tenants' layouts, changed by compare-and-swap.
#[async_trait]
pub trait LayoutStore: Send + Sync + 'static {
    /// Reads a tenant's current layout, not a cached one; `None` if there is no such
    /// tenant.
    async fn read(&self, tenant: &TenantId) -> Result<Option<LayoutRecord>, RegistryError>;

    /// Replaces a layout if it is still the one that was read, and returns whether it
    /// was. After an error the swap may or may not have happened: read again.
    async fn swap(
        &self,
        tenant: &TenantId,
        seen: &LayoutRecord,
        then: &SliceLayout,
    ) -> Result<bool, RegistryError>;
}

/// A tenant's layout as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutRecord {
    /// Its content.
    pub layout: SliceLayout,
    /// Since when a recut has been in phase `Sealing`, if one is.
    pub sealing_since: Option<Timestamp>,
}

/// The input of a migration's workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationRequest {
    /// The migration's id; the name of the execution when absent.
    #[serde(
        rename = "migrationID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub migration_id: Option<MigrationId>,
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: ballast_domain::TenantId,
    /// The tenant's slice.
    #[serde(default)]
    pub slice: u32,
    /// The shard that is expected to own the slice.
    #[serde(
        rename = "fromShardID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<ShardId>,
    /// The target shard.
    #[serde(rename = "toShardID")]
    pub to: ShardId,
    /// Why the slice is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long both sides are kept after the cutover (the window), in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Whether, within the window, a write is acknowledged only when both sides have
    /// it. (In the workflow's data `sync` is the output of WaitForSync.)
    #[serde(rename = "bothAcknowledge", default)]
    pub sync: bool,
    /// Whether it begins outside of the maintenance windows, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
    /// The longest allowed write pause at the cutover, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pause_ms: Option<u64>,
    /// Shards that score higher than the target and were deliberately not chosen.
    #[serde(
        rename = "passedOverShardIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub passed_over: Vec<ShardId>,
}

/// Whether a migration may start to copy.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It may, and counts against the limits from now on.
    Now(Box<Migration>),
    /// Not yet.
    Later {
        /// What it waits for.
        why: String,
        /// When to ask again.
        ask_again_seconds: u64,
    },
}

/// A migration's limits: speed, write pause, and effect on its tenant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MigrationLimits {
    /// Bytes per second that it may copy; unlimited when absent.
    pub bytes_per_second: Option<u64>,
    /// How long a slice may be sealed, in milliseconds.
    pub seal_max_ms: u64,
    /// Closed polls with fewer rows are not archived.
    pub archive_rows_min: u64,
    /// How much worse the tenant's calls may get on the target before the slice goes
    /// back.
    pub budget: ServiceBudget,
}

/// What routers counted while they read both sides of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCounts {
    /// Reads of both sides that were compared.
    pub compared: u64,
    /// Those that differed.
    pub differences: u64,
    /// Rows that only the source had, or had newer: there should be none.
    pub stragglers: u64,
}

/// Statistics of the routers that read both sides during a window.
pub trait DualReadStats: Send + Sync + 'static {
    /// The counts of a slice since its cutover, or since this process started.
    fn counts(&self, slice: &SliceId) -> ReadCounts;

    /// How this process's calls to the slice were answered around its cutover.
    fn around_cutover(&self, slice: &SliceId) -> CutoverCallStats;

    /// Drops the slice's statistics: its migration has ended.
    fn forget(&self, slice: &SliceId);
}

/// Why a migration's own record cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum MigrationStoreError {
    /// The request is refused, and retrying does not help.
    #[error("{0}")]
    Refused(String),
    /// The store failed: retry later.
    #[error(transparent)]
    Store(#[from] RegistryError),
}

/// A change of a migration's own record. It may be applied again, to a newer version.
pub type MigrationEdit<'a> = &'a (dyn Fn(&mut Migration) + Send + Sync);

/// The migrations' own records.
#[async_trait]
pub trait MigrationStore: Send + Sync + 'static {
    /// Returns a migration's record. If there is none, writes it and claims the slice,
    /// in one step.
    async fn open(
        &self,
        id: &MigrationId,
        wanted: &MigrationRequest,
    ) -> Result<Migration, MigrationStoreError>;

    /// Reads a migration's record.
    async fn read(&self, id: &MigrationId) -> Result<Option<Migration>, RegistryError>;

    /// Changes the current version of a migration's record, and returns the result.
    async fn change(
        &self,
        id: &MigrationId,
        action: &'static str,
        edit: MigrationEdit<'_>,
    ) -> Result<Migration, MigrationStoreError>;

    /// Asks whether a migration may start to copy: limits, maintenance windows,
    /// approval.
    async fn admit(&self, migration: &Migration) -> Result<Admission, MigrationStoreError>;

    /// Returns why a copied slice may not be cut over at this moment, if it may not.
    async fn cutover_hold(
        &self,
        migration: &Migration,
    ) -> Result<Option<String>, MigrationStoreError>;

    /// The limits of a migration.
    fn pace(&self) -> MigrationLimits;

    /// Signs a certificate; `None` while there is no key.
    fn sign(&self, certificate: Certificate) -> Option<SignedCertificate>;
}
