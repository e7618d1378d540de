//! A move begins.

use ballast_domain::ShardId;
use ballast_domain::moving::{MoveId, Route};
use ballast_domain::registry::StoreError;
use ballast_domain::tenant::SliceId;

use crate::ports::Records;
use crate::protocol;

/// The record of a slice that a move is to be claimed on.
pub async fn claim(
    records: &dyn Records,
    slice: &SliceId,
    id: &MoveId,
    to: &ShardId,
    sync: bool,
) -> Result<Route, ClaimError> {
    let seen = records.read(slice).await?;
    let seen = seen.ok_or_else(|| ClaimError::NoSlice(slice.clone()))?;
    // The same move claimed before, its answer lost.
    if seen.route.move_of(id).is_some() {
        return Ok(seen.route);
    }
    let then = protocol::route::claim(&seen.route, id, to.clone(), sync)?;
    match records.swap(slice, &seen, &then).await? {
        true => Ok(then),
        false => Err(ClaimError::Changed),
    }
}

/// Why a move is not claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no such slice.
    #[error("there is no slice {0}")]
    NoSlice(SliceId),
    /// The record does not allow it.
    #[error(transparent)]
    Refused(#[from] protocol::route::Refused),
    /// Somebody changed the record at the same time: look again.
    #[error("the record was changed at the same time")]
    Changed,
    /// The record is away.
    #[error(transparent)]
    Records(#[from] StoreError),
}
