//! The lines of a load record.

use ballast_domain::poll::{ItemId, PollId};
use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, RegionId, ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::load::flow::Flow;
use crate::load::latency::Sketch;
use crate::load::sample::{
    Interval, IoWait, ItemName, ItemSample, KeySample, ShardSample, SliceSample,
};
use crate::resources::Resources;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) source: String,
}

/// Any other line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub(super) enum RecordLine {
    Shard(Box<ShardLine>),
    Slice(SliceLine),
    Key(KeyLine),
    Item(ItemLine),
}

/// The kinds of lines, for messages.
pub(super) const KINDS: [&str; 4] = ["shard", "slice", "key", "item"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ShardLine {
    pub(super) at: Timestamp,
    pub(super) ms: u64,
    pub(super) shard: ShardId,
    pub(super) region: RegionId,
    #[serde(default)]
    pub(super) capacity: Resources,
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub(super) takes_slices: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured_ms: Option<u64>,
    #[serde(default)]
    pub(super) flow: Flow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) storage: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) concurrency: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) io_wait: Option<IoWait>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) vote_latency: Option<Latency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) query_latency: Option<Latency>,
}

fn default_true() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_true(value: &bool) -> bool {
    *value
}

/// A latency in milliseconds: the buckets of a sketch, or percentiles.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Latency {
    #[serde(skip_serializing_if = "Option::is_none")]
    zero: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<Vec<(i32, u64)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
}

impl Latency {
    /// The latency of a sketch; `None` if it is empty.
    pub(super) fn from_sketch(sketch: &Sketch) -> Option<Self> {
        if sketch.count() == 0 {
            return None;
        }
        let (zero, buckets) = sketch.parts();
        Some(Self {
            zero: (zero > 0).then_some(zero),
            buckets: Some(buckets),
            ..Self::default()
        })
    }

    pub(super) fn into_sketch(self) -> Result<Sketch, String> {
        match self {
            Self {
                buckets: Some(buckets),
                count: None,
                p50: None,
                p95: None,
                p99: None,
                zero,
            } => Sketch::from_parts(zero.unwrap_or(0), buckets).map_err(|error| error.to_string()),
            Self {
                buckets: None,
                count: Some(count),
                p50: Some(p50),
                p95: Some(p95),
                p99: Some(p99),
                zero: None,
            } => {
                if !(0.0 <= p50 && p50 <= p95 && p95 <= p99) {
                    return Err(
                        "percentiles must be milliseconds with p50 <= p95 <= p99".to_owned()
                    );
                }
                Ok(Sketch::from_percentiles(count, p50, p95, p99))
            }
            _ => Err("a latency must have either buckets, or count, p50, p95 and p99".to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SliceLine {
    pub(super) at: Timestamp,
    pub(super) shard: ShardId,
    pub(super) tenant: TenantId,
    #[serde(default)]
    pub(super) slice: u32,
    #[serde(default)]
    pub(super) flow: Flow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) storage: Option<f64>,
    #[serde(default)]
    pub(super) concurrency: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KeyLine {
    pub(super) at: Timestamp,
    pub(super) shard: ShardId,
    pub(super) tenant: TenantId,
    pub(super) key: KeyId,
    pub(super) calls: f64,
    #[serde(default)]
    pub(super) refused: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ItemLine {
    pub(super) at: Timestamp,
    pub(super) shard: ShardId,
    pub(super) tenant: TenantId,
    #[serde(default)]
    pub(super) slice: u32,
    pub(super) poll: PollId,
    pub(super) item: ItemId,
    pub(super) votes: f64,
    pub(super) lanes: Vec<u64>,
}

impl ShardLine {
    pub(super) fn new(interval: Interval, sample: &ShardSample) -> Self {
        Self {
            at: interval.start,
            ms: interval.ms,
            shard: sample.shard.clone(),
            region: sample.region.clone(),
            capacity: sample.capacity,
            takes_slices: sample.takes_slices,
            measured_ms: sample.measured_ms,
            flow: sample.flow,
            storage: sample.storage,
            concurrency: sample.concurrency,
            io_wait: sample.io_wait,
            vote_latency: Latency::from_sketch(&sample.vote_latency),
            query_latency: Latency::from_sketch(&sample.query_latency),
        }
    }

    pub(super) fn into_sample(self) -> Result<ShardSample, String> {
        let sketch =
            |latency: Option<Latency>| latency.map_or(Ok(Sketch::default()), Latency::into_sketch);
        let mut sample = ShardSample::new(self.shard, self.region, self.capacity);
        sample.takes_slices = self.takes_slices;
        sample.measured_ms = self.measured_ms;
        sample.flow = self.flow;
        sample.storage = self.storage;
        sample.concurrency = self.concurrency;
        sample.io_wait = self.io_wait;
        sample.vote_latency = sketch(self.vote_latency)?;
        sample.query_latency = sketch(self.query_latency)?;
        Ok(sample)
    }
}

impl SliceLine {
    pub(super) fn new(at: Timestamp, shard: &ShardId, sample: &SliceSample) -> Self {
        Self {
            at,
            shard: shard.clone(),
            tenant: sample.slice.tenant_id.clone(),
            slice: sample.slice.slice,
            flow: sample.flow,
            storage: sample.storage,
            concurrency: sample.concurrency,
        }
    }

    pub(super) fn into_sample(self) -> SliceSample {
        let slice = SliceId {
            tenant_id: self.tenant,
            slice: self.slice,
        };
        SliceSample {
            slice,
            flow: self.flow,
            storage: self.storage,
            concurrency: self.concurrency,
        }
    }
}

impl KeyLine {
    pub(super) fn new(at: Timestamp, shard: &ShardId, sample: &KeySample) -> Self {
        Self {
            at,
            shard: shard.clone(),
            tenant: sample.tenant.clone(),
            key: sample.key.clone(),
            calls: sample.calls,
            refused: sample.refused,
        }
    }

    pub(super) fn into_sample(self) -> KeySample {
        KeySample {
            key: self.key,
            tenant: self.tenant,
            calls: self.calls,
            refused: self.refused,
        }
    }
}

impl ItemLine {
    pub(super) fn new(at: Timestamp, shard: &ShardId, sample: &ItemSample) -> Self {
        let ItemName { slice, poll, item } = sample.name.clone();
        Self {
            at,
            shard: shard.clone(),
            tenant: slice.tenant_id,
            slice: slice.slice,
            poll,
            item,
            votes: sample.votes,
            lanes: sample.lanes.clone(),
        }
    }

    pub(super) fn into_sample(self) -> ItemSample {
        let slice = SliceId {
            tenant_id: self.tenant,
            slice: self.slice,
        };
        let name = ItemName {
            slice,
            poll: self.poll,
            item: self.item,
        };
        ItemSample {
            name,
            votes: self.votes,
            lanes: self.lanes,
        }
    }
}
