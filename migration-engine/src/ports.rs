//! What a move needs of the world, besides the shards.

use async_trait::async_trait;
use ballast_domain::moving::Route;
use ballast_domain::registry::StoreError;
use ballast_domain::tenant::SliceId;

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
}
