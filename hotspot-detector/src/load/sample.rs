//! What a source tells of one interval.

use ballast_domain::poll::{ItemId, PollId};
use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, RegionId, ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::flow::Flow;
use super::latency::Sketch;
use crate::resources::Resources;

/// A stretch of time in which something was measured.
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

/// All shards that could be measured in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// When.
    pub interval: Interval,
    /// The shards; one that could not be measured is absent.
    pub shards: Vec<ShardSample>,
}

/// One shard in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardSample {
    /// Which.
    pub shard: ShardId,
    /// Where it stands.
    pub region: RegionId,
    /// What it can do. A dimension that is nought has no limit.
    pub capacity: Resources,
    /// Whether slices may be moved to it.
    pub takes_slices: bool,
    /// How much of the interval was measured, in milliseconds, if not all.
    pub measured_ms: Option<u64>,
    /// What passed through it.
    pub flow: Flow,
    /// Bytes stored at the end, where known.
    pub storage: Option<f64>,
    /// Calls at a time on average, where known.
    pub concurrency: Option<f64>,
    /// How long writes waited, where known.
    pub io_wait: Option<IoWait>,
    /// How long votes took.
    pub vote_latency: Sketch,
    /// How long queries took.
    pub query_latency: Sketch,
    /// Its slices. One that is not named used nothing but the bytes it stores.
    pub slices: Vec<SliceSample>,
    /// The API keys with the most calls.
    pub keys: Vec<KeySample>,
    /// The items with the most votes.
    pub items: Vec<ItemSample>,
}

impl ShardSample {
    /// A shard of which nothing was measured yet.
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

/// How much of the interval writes waited, as shares of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IoWait {
    /// Behind other writes.
    pub queue: f64,
    /// For the disk.
    pub fsync: f64,
}

impl IoWait {
    /// Both, at most all of the time.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.queue + self.fsync).min(1.0)
    }
}

/// One slice on one shard in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceSample {
    /// Which.
    pub slice: SliceId,
    /// What passed through it.
    pub flow: Flow,
    /// Bytes stored at the end, where known; nought when it has left the shard.
    pub storage: Option<f64>,
    /// Calls at a time on average.
    pub concurrency: f64,
}

/// One API key in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct KeySample {
    /// Its public name.
    pub key: KeyId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its calls, whatever became of them.
    pub calls: f64,
    /// Those that were refused: second votes, bad requests, too many.
    pub refused: f64,
}

/// An item by its full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemName {
    /// Whose it is.
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
    /// Whether both are items of one poll: they share its lanes.
    #[must_use]
    pub fn is_of_same_poll(&self, other: &Self) -> bool {
        (self.poll, &self.slice) == (other.poll, &other.slice)
    }
}

/// One item's counter in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemSample {
    /// Which.
    pub name: ItemName,
    /// Its votes in the interval.
    pub votes: f64,
    /// All its votes so far, by lane.
    pub lanes: Vec<u64>,
}
