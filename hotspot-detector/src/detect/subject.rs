//! What may be hot.

use std::fmt;

use ballast_domain::ShardId;
use ballast_domain::tenant::SliceId;
use serde::Serialize;

use crate::load::ItemName;

/// What a rule was judged on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Subject {
    /// A shard.
    Shard {
        /// Which.
        shard: ShardId,
    },
    /// A slice on its shard.
    Slice {
        /// Where.
        shard: ShardId,
        /// Which.
        slice: SliceId,
    },
    /// An item's counter on its shard.
    Item {
        /// Where.
        shard: ShardId,
        /// Which.
        item: ItemName,
    },
}

impl Subject {
    /// The shard it is, or is on.
    #[must_use]
    pub fn shard(&self) -> &ShardId {
        match self {
            Self::Shard { shard } | Self::Slice { shard, .. } | Self::Item { shard, .. } => shard,
        }
    }
}

impl fmt::Display for Subject {
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
