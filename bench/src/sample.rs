//! Realistic shards and tenants to measure with.

use std::str::FromStr;

use ballast_domain::Timestamp;
use ballast_domain::limits::TenantLimits;
use ballast_domain::residency::Residency;
use ballast_domain::shard::{Pressure, Shard, ShardState};
use ballast_domain::tenant::{Slice, Tenant, TenantStatus};

const TRAITS: [&str; 16] = [
    "amber", "bold", "calm", "daring", "eager", "fair", "gentle", "happy", "idle", "jolly", "keen",
    "lucky", "mellow", "noble", "quiet", "swift",
];
const NOUNS: [&str; 16] = [
    "anchor",
    "bakery",
    "council",
    "district",
    "election",
    "forum",
    "guild",
    "harbour",
    "institute",
    "league",
    "museum",
    "network",
    "orchard",
    "parish",
    "school",
    "union",
];

/// The creation time of all records.
pub(crate) const AT: Timestamp = Timestamp::from_unix_ms(1_794_821_400_000);

/// A shard.
pub(crate) fn shard(n: usize, region: &str, weight: f64) -> anyhow::Result<Shard> {
    Ok(Shard {
        shard_id: id(&format!("shard-{n}"))?,
        url: format!("file:shards/shard-{n}"),
        region: id(region)?,
        zones: Vec::new(),
        weight,
        state: ShardState::Active,
        max_slices: 1_000_000,
        pressure: Pressure::Calm,
        created_at: AT,
    })
}

/// The id of the n-th tenant. Ids are spread over the alphabet, like names that people
/// choose: tenants created one after the other are not adjacent.
pub(crate) fn tenant_id(n: usize) -> String {
    let mixed = mixed(n);
    let (kind, noun) = (TRAITS[mixed % 16], NOUNS[mixed / 16 % 16]);
    format!("{kind}-{noun}-{n}")
}

/// The n-th tenant, on one of these shards.
pub(crate) fn tenant(n: usize, shards: &[Shard]) -> anyhow::Result<Tenant> {
    let shard = &shards[mixed(n) / 256 % shards.len()];
    let noun = NOUNS[mixed(n) / 16 % 16];
    Ok(Tenant {
        tenant_id: id(&tenant_id(n))?,
        name: format!("The {noun} of ward {n}"),
        organisation: Some(format!("City {}", mixed(n) / 256 % 4_000)),
        status: TenantStatus::Active,
        home_region: shard.region.clone(),
        residency: Residency::Strict,
        zones: Vec::new(),
        limits: TenantLimits {
            votes_per_second: Some(500),
            concurrent_queries: Some(20),
            retention_days: Some(365),
        },
        cors_origins: Vec::new(),
        slices: vec![Slice::placed(0, shard.shard_id.clone(), AT)],
        pin: None,
        dial: ballast_domain::tenant::Dial::Active,
        next_slice: None,
        slicing: None,
        last_slicing: None,
        created_at: AT,
    })
}

/// Scatters numbers, identically in every run.
pub(crate) fn mixed(n: usize) -> usize {
    let mut x = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x >> 33) as usize
}

fn id<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(text: &str) -> anyhow::Result<T> {
    Ok(text.parse()?)
}
