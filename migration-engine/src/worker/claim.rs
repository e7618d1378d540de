//! Claims a slice for a migration.

use ballast_domain::ShardId;
use ballast_domain::moving::{MigrationId, SliceRoute};
use ballast_domain::registry::RegistryError;
use ballast_domain::tenant::SliceId;

use crate::ports::RouteStore;
use crate::protocol;

/// Claims a slice for a migration, and returns its record. Claiming again with the
/// same id succeeds: the answer to the first attempt may have been lost.
pub async fn claim_slice(
    records: &dyn RouteStore,
    slice: &SliceId,
    id: &MigrationId,
    to: &ShardId,
    sync: bool,
) -> Result<SliceRoute, MigrationClaimError> {
    let record = records.read(slice).await?;
    let record = record.ok_or_else(|| MigrationClaimError::NoSlice(slice.clone()))?;

    if record.route.active_migration(id).is_some() {
        return Ok(record.route);
    }
    let then = protocol::route::claim(&record.route, id, to.clone(), sync)?;
    match records.swap(slice, &record, &then).await? {
        true => Ok(then),
        false => Err(MigrationClaimError::Changed),
    }
}

/// Why a slice is not claimed.
#[derive(Debug, thiserror::Error)]
pub enum MigrationClaimError {
    /// There is no such slice.
    #[error("there is no slice {0}")]
    NoSlice(SliceId),
    /// The record does not allow it.
    #[error(transparent)]
    Refused(#[from] protocol::route::TransitionError),
    /// The record was changed concurrently: read it again.
    #[error("the record was changed at the same time")]
    Changed,
    /// The registry that holds the record is unavailable.
    #[error(transparent)]
    Records(#[from] RegistryError),
}
