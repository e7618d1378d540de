//! Where routers and movers find the shards.

use std::sync::Arc;

use ballast_domain::ShardId;

use super::{ShardResult, VoteShard};

/// The shards that can be reached from here.
pub trait Shards: Send + Sync + 'static {
    /// A shard by its id. [`super::ShardError::Unavailable`] while it starts
    /// or recovers, or when it cannot be reached from here.
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>>;

    /// Whether a shard that cannot be had is about to be, as far as anybody
    /// knows: it would be wrong to take it for lost.
    fn is_starting(&self, _: &ShardId) -> bool {
        false
    }
}
