//! The measurements of one interval.

use ballast_domain::poll::{ItemId, PollId};
use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, RegionId, ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::flow::Flow;
use super::latency::Sketch;
use crate::resources::Resources;

/// A measured interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// When it began.
    pub start: Timestamp,
    /// How long it was, in milliseconds.
    pub ms: u64,
}

impl Interval {
    /// When it ended.
    #[must_use]
    pub fn end(&self) -> Timestamp {
        let ms = i64::try_from(self.ms).unwrap_or(i64::MAX);
        Timestamp::from_unix_ms(self.start.unix_ms().saturating_add(ms))
    }
}

/// The shards that were measured in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSample {
    /// When.
    pub interval: Interval,
    /// The measured shards; a shard that could not be measured is absent.
    pub shards: Vec<ShardSample>,
}

/// One shard in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardSample {
    /// Its name.
    pub shard: ShardId,
    /// Its region.
    pub region: RegionId,
    /// Its capacity. A dimension of 0 has no limit.
    pub capacity: Resources,
    /// Whether slices may be moved to it.
    pub takes_slices: bool,
    /// The measured part of the interval in milliseconds, if not all of it.
    pub measured_ms: Option<u64>,
    /// Its calls and bytes.
    pub flow: Flow,
    /// Bytes stored at the end, if known.
    pub storage: Option<f64>,
    /// Average concurrent calls, if known.
    pub concurrency: Option<f64>,
    /// How long writes waited, if known.
    pub io_wait: Option<IoWait>,
    /// Vote latencies.
    pub vote_latency: Sketch,
    /// Query latencies.
    pub query_latency: Sketch,
    /// Its slices. A slice that is not listed had no load except its storage.
    pub slices: Vec<SliceSample>,
    /// The API keys with the most calls.
    pub keys: Vec<KeySample>,
    /// The items with the most votes.
    pub items: Vec<ItemSample>,
}

impl ShardSample {
    /// A shard without measurements.
    #[must_use]
    pub fn new(shard: ShardId, region: RegionId, capacity: Resources) -> Self {
        Self {
            shard,
            region,
            capacity,
            takes_slices: true,
            measured_ms: None,
            flow: Flow::default(),
            storage: None,
            concurrency: None,
            io_wait: None,
            vote_latency: Sketch::default(),
            query_latency: Sketch::default(),
            slices: Vec::new(),
            keys: Vec::new(),
            items: Vec::new(),
        }
    }
}

/// The shares of the interval that writes waited.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IoWait {
    /// Behind other writes.
    pub queue: f64,
    /// For the disk.
    pub fsync: f64,
}

impl IoWait {
    /// The total, at most 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.queue + self.fsync).min(1.0)
    }
}

/// One slice on one shard in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceSample {
    /// Its name.
    pub slice: SliceId,
    /// Its calls and bytes.
    pub flow: Flow,
    /// Bytes stored at the end, if known; 0 after it has left the shard.
    pub storage: Option<f64>,
    /// Average concurrent calls.
    pub concurrency: f64,
}

/// One API key in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct KeySample {
    /// The key's ID.
    pub key: KeyId,
    /// Its tenant.
    pub tenant: TenantId,
    /// Its calls, successful or not.
    pub calls: f64,
    /// Rejected calls: duplicate votes, bad requests, rate limits.
    pub refused: f64,
}

/// The full name of an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemName {
    /// Its tenant.
    #[serde(flatten)]
    pub slice: SliceId,
    /// The poll.
    #[serde(rename = "pollID")]
    pub poll: PollId,
    /// The item.
    #[serde(rename = "itemID")]
    pub item: ItemId,
}

impl ItemName {
    /// Whether both are items of the same poll and share its lanes.
    #[must_use]
    pub fn is_of_same_poll(&self, other: &Self) -> bool {
        (self.poll, &self.slice) == (other.poll, &other.slice)
    }
}

/// One item's counter in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemSample {
    /// Its name.
    pub name: ItemName,
    /// Its votes in the interval.
    pub votes: f64,
    /// Its total votes, by lane.
    pub lanes: Vec<u64>,
}
