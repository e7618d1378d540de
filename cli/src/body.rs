//! The parts of the API's bodies that the views show. Unknown fields are ignored, so that a newer
//! server works.

use ballast_domain::key::ApiKey;
use ballast_domain::shard::Shard;
use ballast_domain::tenant::{Pin, Slice};
use ballast_domain::{Actor, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// A record with its version.
#[derive(Debug, Deserialize)]
pub(crate) struct Versioned<T> {
    #[serde(flatten)]
    pub(crate) value: T,
    #[serde(default)]
    pub(crate) version: u64,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

/// A key with its status and last use.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyBody {
    #[serde(flatten)]
    pub(crate) key: ApiKey,
    #[serde(default)]
    pub(crate) version: u64,
    pub(crate) status: String,
    pub(crate) last_used_at: Option<Timestamp>,
}

/// A new key.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewKeyBody {
    pub(crate) key: String,
    #[serde(rename = "keyID")]
    pub(crate) key_id: String,
    #[serde(rename = "tenantID")]
    pub(crate) tenant_id: String,
    pub(crate) mode: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) replaces: Option<String>,
    pub(crate) overlap_ends_at: Option<Timestamp>,
}

/// A new token.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewTokenBody {
    pub(crate) token: String,
    #[serde(rename = "tokenID")]
    pub(crate) token_id: String,
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) expires_at: Option<Timestamp>,
}

/// A shard with what it holds.
#[derive(Debug, Deserialize)]
pub(crate) struct ShardBody {
    #[serde(flatten)]
    pub(crate) shard: Shard,
    #[serde(default)]
    pub(crate) version: u64,
    pub(crate) slices: u64,
}

/// Where a tenant is and where it belongs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlacementBody {
    #[serde(rename = "tenantID")]
    pub(crate) tenant_id: String,
    #[serde(rename = "shardID")]
    pub(crate) shard_id: String,
    #[serde(rename = "preferredShardID")]
    pub(crate) preferred_shard_id: Option<String>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) pin: Option<Pin>,
}

/// Which slices would move.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreviewBody {
    pub(crate) items: Vec<PreviewedMove>,
    pub(crate) slices_total: u64,
    pub(crate) moves_total: u64,
    pub(crate) shards: Vec<ShardTraffic>,
}

/// One slice that would move.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreviewedMove {
    #[serde(rename = "tenantID")]
    pub(crate) tenant_id: String,
    pub(crate) slice: u32,
    #[serde(rename = "fromShardID")]
    pub(crate) from_shard_id: String,
    #[serde(rename = "toShardID")]
    pub(crate) to_shard_id: Option<String>,
    #[serde(default)]
    pub(crate) already_due: bool,
}

/// The number of slices that a shard would gain and lose.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShardTraffic {
    #[serde(rename = "shardID")]
    pub(crate) shard_id: String,
    pub(crate) gains: u64,
    pub(crate) losses: u64,
    pub(crate) slices_after: u64,
    pub(crate) max_slices: u64,
}

/// One change of one record.
#[derive(Debug, Deserialize)]
pub(crate) struct EventBody {
    #[serde(rename = "eventID")]
    pub(crate) event_id: u64,
    pub(crate) at: Timestamp,
    pub(crate) actor: Actor,
    pub(crate) action: String,
    pub(crate) reason: Option<String>,
    pub(crate) kind: String,
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) before: Value,
    #[serde(default)]
    pub(crate) after: Value,
}
