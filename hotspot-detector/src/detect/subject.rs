//! The subjects of rules: shards, slices and items.

use std::fmt;

use ballast_domain::ShardId;
use ballast_domain::tenant::SliceId;
use serde::Serialize;

use crate::load::ItemName;

/// The subject that a rule was evaluated on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum HotspotSubject {
    /// A shard.
    Shard {
        /// Its ID.
        shard: ShardId,
    },
    /// A slice on its shard.
    Slice {
        /// Its shard.
        shard: ShardId,
        /// Its ID.
        slice: SliceId,
    },
    /// An item's counter on its shard.
    Item {
        /// Its shard.
        shard: ShardId,
        /// Its ID.
        item: ItemName,
    },
}

impl HotspotSubject {
    /// Its shard.
    #[must_use]
    pub fn shard(&self) -> &ShardId {
        match self {
            Self::Shard { shard } | Self::Slice { shard, .. } | Self::Item { shard, .. } => shard,
        }
    }
}

impl fmt::Display for HotspotSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard { shard } => write!(f, "{shard}"),
            Self::Slice { shard, slice } => write!(f, "{slice} on {shard}"),
            Self::Item { shard, item } => {
                write!(
                    f,
                    "{} of {} ({}) on {shard}",
                    item.item, item.poll, item.slice.tenant_id
                )
            }
        }
    }
}
