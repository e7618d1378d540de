//! The [`Moves`] port over the registry: reads and changes migration records.

use async_trait::async_trait;
use ballast_domain::certificate::{Certificate, SignedCertificate};
use ballast_domain::migration::Migration;
use ballast_domain::moving::MigrationId;
use ballast_domain::registry::{CommitError, RegistryError};
use ballast_domain::{Actor, Error, error::ErrorCategory};
use ballast_migration_engine::ports::{
    Admission, MigrationEdit, MigrationLimits, MigrationRequest, MigrationStore,
    MigrationStoreError,
};

use super::begin::{NewMigration, create_record};
use super::{MigrationBackends, admit};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Migration records in the registry.
#[derive(Clone)]
pub struct MigrationRecords {
    plane: ControlPlane,
}

impl MigrationRecords {
    /// Uses the records of this control plane.
    #[must_use]
    pub fn new(plane: ControlPlane) -> Self {
        Self { plane }
    }
}

/// Maps transient errors to retryable store errors, all others to refusals.
fn to_moves_error(error: Error) -> MigrationStoreError {
    match error.code().kind() {
        ErrorCategory::Unavailable | ErrorCategory::Internal | ErrorCategory::TooMany => {
            MigrationStoreError::Store(RegistryError::new("use a migration's record", error))
        }
        _ => MigrationStoreError::Refused(error.to_string()),
    }
}

#[async_trait]
impl MigrationStore for MigrationRecords {
    async fn open(
        &self,
        id: &MigrationId,
        wanted: &MigrationRequest,
    ) -> Result<Migration, MigrationStoreError> {
        if let Some(there) = self.read(id).await? {
            return Ok(there);
        }
        let new = NewMigration {
            to: wanted.to.clone(),
            from: wanted.from.clone(),
            slice: wanted.slice,
            window_ms: wanted.window_ms,
            sync: wanted.sync,
            max_pause_ms: wanted.max_pause_ms,
            passed_over: wanted.passed_over.clone(),
            now: wanted.now,
            dry_run: false,
        };
        let intent = Intent {
            actor: Actor::ballast("workflow"),
            reason: wanted.reason.clone(),
            idempotency: None,
        };
        let written = create_record(&self.plane, &intent, id, &wanted.tenant_id, &new).await;
        written.map(|found| found.value).map_err(to_moves_error)
    }

    async fn read(&self, id: &MigrationId) -> Result<Option<Migration>, RegistryError> {
        let found = typed::get::<Migration>(self.plane.registry(), &id.0).await?;
        Ok(found.map(|found| found.value))
    }

    async fn change(
        &self,
        id: &MigrationId,
        action: &'static str,
        edit: MigrationEdit<'_>,
    ) -> Result<Migration, MigrationStoreError> {
        loop {
            let found = typed::get::<Migration>(self.plane.registry(), &id.0).await?;
            let found = found.ok_or_else(|| {
                MigrationStoreError::Refused(format!("there is no migration {id}"))
            })?;
            let mut then = found.value.clone();
            edit(&mut then);
            if then == found.value {
                return Ok(then);
            }
            let intent = Intent {
                actor: Actor::ballast("move"),
                reason: None,
                idempotency: None,
            };
            let write = typed::update(found.version, &then)?;
            let commit = intent.commit(action, vec![write], Vec::new());
            match self.plane.registry().commit(commit).await {
                Ok(_) => return Ok(then),
                Err(CommitError::Store(error)) => return Err(error.into()),
                // The record changed concurrently: retry.
                Err(_) => {}
            }
        }
    }

    async fn admit(&self, migration: &Migration) -> Result<Admission, MigrationStoreError> {
        admit::admit(&self.plane, migration)
            .await
            .map_err(to_moves_error)
    }

    async fn cutover_hold(
        &self,
        migration: &Migration,
    ) -> Result<Option<String>, MigrationStoreError> {
        Ok(admit::poll_freeze_reason(&self.plane, migration))
    }

    fn pace(&self) -> MigrationLimits {
        let settings = self.plane.settings();
        MigrationLimits {
            bytes_per_second: settings.moves.bytes_per_second,
            seal_max_ms: settings.moves.seal_max_ms,
            archive_rows_min: settings.moves.archive_rows_min,
            budget: settings.moves.budget,
        }
    }

    fn sign(&self, certificate: Certificate) -> Option<SignedCertificate> {
        let backends: Option<&MigrationBackends> = self.plane.migration_backends();
        backends.map(|backends| backends.signer.sign(certificate))
    }
}
