//! Migrations, as operators see them: requested, listed, shown and controlled.
//!
//! ```text
//!   begin               checks a request, writes the record, claims the slice
//!   plan                dry run: what a migration would do
//!   commands            pause, resume, approve, cancel, reverse, complete
//!   accept_loss         whether the target may be abandoned
//!   left_behind         leftover copies on shards that were unreachable
//!   body                migrations as the API shows them
//!   finish              when migrations would be over
//!   admit               admission: limits, maintenance windows, approvals
//!   slice_records       port for the worker: the slices' records
//!   migration_records   port for the worker: the migrations' records
//!   price               estimated cost of a migration
//!   certificate_signer  signs and verifies certificates
//!   reconciler          restarts stopped migrations, ends overdue seals
//! ```
//! The work itself is in the crate `ballast-migration-engine`, as the steps of
//! the workflow `move-tenant`.

mod accept_loss;
mod admit;
pub mod begin;
pub mod body;
pub mod certificate_signer;
pub mod commands;
pub mod finish;
mod left_behind;
mod migration_records;
pub mod plan;
pub mod price;
pub mod reconciler;
pub mod settings;
pub mod slice_records;

use std::sync::Arc;

use ballast_domain::error::suggest_nearest;
use ballast_domain::migration::{Migration, OPEN, OVER, status_term, tenant_migrations_term};
use ballast_domain::moving::MigrationId;
use ballast_domain::registry::{RecordKind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use ballast_vote_shard::ShardDirectory;
use ballast_vote_shard::archive::ArchiveDirectory;

use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use certificate_signer::CertificateSigner;

use ballast_migration_engine::steps::FOR_RESUME;

pub use migration_records::MigrationRecords;
pub use settings::MigrationSettings;

/// The wait reason of a migration that needs an operator's approval.
pub const WAIT_FOR_APPROVAL: &str = "approval (ballast migration approve)";

/// Prefix of the wait reason of a migration that waits for a maintenance window.
pub const WAIT_FOR_MAINTENANCE: &str = "the maintenance window ";

/// The workflow that moves a slice.
pub const WORKFLOW: &str = "move-tenant";

/// What migrations need besides the registry.
pub struct MigrationBackends {
    /// The shards.
    pub shards: Arc<dyn ShardDirectory>,
    /// The archive files of the shards' closed polls.
    pub archives: Arc<dyn ArchiveDirectory>,
    /// Signs certificates.
    pub signer: CertificateSigner,
}

pub(crate) fn migration_backends(plane: &ControlPlane) -> Result<&MigrationBackends> {
    plane.migration_backends().ok_or_else(|| {
        let error = Error::new(ErrorCode::Unavailable, "migrations are not possible yet");
        error.retry_after(1)
    })
}

/// Which migrations to list.
#[derive(Debug, Clone, Default)]
pub struct MigrationFilter {
    /// Only those of this tenant.
    pub tenant: Option<TenantId>,
    /// Only those away from this shard.
    pub from: Option<ShardId>,
    /// Only those to this shard.
    pub to: Option<ShardId>,
    /// Only open ones (`true`) or ended ones (`false`).
    pub open: Option<bool>,
    /// Only those with this status.
    pub status: Option<ballast_domain::migration::MigrationStatus>,
}

impl MigrationFilter {
    fn terms(&self) -> Vec<String> {
        let mut terms = Vec::new();
        terms.extend(self.tenant.as_ref().map(tenant_migrations_term));
        terms.extend(self.from.as_ref().map(|shard| format!("from:{shard}")));
        terms.extend(self.to.as_ref().map(|shard| format!("to:{shard}")));
        terms.extend(self.open.map(|open| match open {
            true => OPEN.to_owned(),
            false => OVER.to_owned(),
        }));
        terms.extend(self.status.map(|status| match status.is_end() {
            true => status_term(status),
            // Open statuses depend on the execution: filter them later.
            false => OPEN.to_owned(),
        }));
        terms
    }
}

/// A page of migrations, newest first: ids sort by creation time.
pub async fn list(
    plane: &ControlPlane,
    filter: &MigrationFilter,
    mut after: Option<String>,
    limit: u32,
) -> Result<Vec<body::MigrationBody>> {
    let mut bodies = Vec::new();
    loop {
        let query = RecordQuery {
            terms: filter.terms(),
            after,
            descending: true,
            ..RecordQuery::all(RecordKind::Migration, limit)
        };
        let found = typed::list::<Migration>(plane.registry(), &query).await?;
        let last = found.len() < limit as usize;
        after = found.last().map(|last| last.value.migration_id.0.clone());
        for migration in found {
            let body = body::load_body(plane, migration).await?;
            if filter.status.is_none_or(|status| status == body.status) {
                bodies.push(body);
            }
        }
        if last || bodies.len() >= limit as usize {
            bodies.truncate(limit as usize);
            return Ok(bodies);
        }
    }
}

/// One migration, as the API shows it.
pub async fn show(plane: &ControlPlane, id: &MigrationId) -> Result<body::MigrationBody> {
    body::load_body(plane, get(plane, id).await?).await
}

/// One migration's record.
pub async fn get(plane: &ControlPlane, id: &MigrationId) -> Result<Versioned<Migration>> {
    let found = typed::get::<Migration>(plane.registry(), &id.0).await?;
    match found {
        Some(found) => Ok(found),
        None => Err(not_found(plane, id).await),
    }
}

async fn not_found(plane: &ControlPlane, id: &MigrationId) -> Error {
    let open = RecordQuery {
        terms: vec![OPEN.to_owned()],
        ..RecordQuery::all(RecordKind::Migration, 100)
    };
    let known = typed::list::<Migration>(plane.registry(), &open).await;
    let known = known.unwrap_or_default();
    let names = known
        .iter()
        .map(|known| known.value.migration_id.0.as_str());
    let like = suggest_nearest(&id.0, names);
    Error::new(
        ErrorCode::MigrationNotFound,
        format!("there is no migration {:?}{like}", id.0),
    )
}
