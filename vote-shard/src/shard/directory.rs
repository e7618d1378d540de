//! How routers and migration workers find shards.

use std::sync::Arc;

use ballast_domain::ShardId;

use super::{ShardResult, VoteShard};

/// The shards that this process can reach.
pub trait ShardDirectory: Send + Sync + 'static {
    /// Returns a shard. [`super::ShardError::Unavailable`] while it starts or
    /// recovers, or if this process cannot reach it.
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>>;

    /// Whether an unavailable shard is starting, so that it must not be treated
    /// as lost.
    fn is_starting(&self, _: &ShardId) -> bool {
        false
    }
}
