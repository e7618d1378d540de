//! All fixed limits on sizes, counts and waits.
//!
//! Limits that an operator may change are in the configuration. These ones bound the cost of
//! a single request.

/// Longest identifier (tenant, shard, region, zone).
pub const ID_CHARS_MAX: usize = 63;
/// Longest display name.
pub const NAME_CHARS_MAX: usize = 200;
/// Longest reason given with a change.
pub const REASON_CHARS_MAX: usize = 500;
/// Largest body of an admin request.
pub const ADMIN_BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 200;
/// How long the answer to an idempotent create is remembered.
pub const IDEMPOTENCY_HOURS: i64 = 24;

/// Shards in one fleet.
pub const SHARDS_MAX: usize = 10_000;
/// Smallest capacity weight.
pub const WEIGHT_MIN: f64 = 0.001;
/// Largest capacity weight.
pub const WEIGHT_MAX: f64 = 1_000_000.0;
/// Default density limit of a shard.
pub const SLICES_PER_SHARD_DEFAULT: u64 = 1_000_000;
/// Largest density limit that can be set on a shard.
pub const SLICES_PER_SHARD_MAX: u64 = 100_000_000;
/// Most slices of a tenant: a power of two. The router derives poll ids of idempotent requests
/// from it, so it must never be reduced.
pub const SLICES_PER_TENANT_MAX: u32 = 64;
/// Zones on one shard or one tenant.
pub const ZONES_MAX: usize = 32;
/// Approved secondary regions of one tenant.
pub const SECONDARY_REGIONS_MAX: usize = 16;
/// Browser origins one tenant may allow.
pub const ORIGINS_MAX: usize = 32;
/// Longest browser origin.
pub const ORIGIN_CHARS_MAX: usize = 200;
/// Live and retired API keys of one tenant.
pub const KEYS_PER_TENANT_MAX: u64 = 1_000;
/// Admin tokens, live and retired.
pub const TOKENS_MAX: u64 = 10_000;
/// Longest overlap of a rotated key with its successor, in seconds (90 days).
pub const ROTATE_OVERLAP_SECONDS_MAX: i64 = 90 * 86_400;

/// Longest life that can be given to a key or token, in seconds (100 years).
pub const EXPIRES_IN_SECONDS_MAX: i64 = 100 * 365 * 86_400;

/// Highest votes per second that can be set for a tenant.
pub const VOTES_PER_SECOND_MAX: u64 = 100_000_000;
/// Highest number of concurrent queries that can be set for a tenant.
pub const CONCURRENT_QUERIES_MAX: u64 = 1_000_000;
/// Longest retention that can be set for a tenant (100 years).
pub const RETENTION_DAYS_MAX: u64 = 36_500;

/// Default number of items on a page.
pub const PAGE_ITEMS_DEFAULT: u32 = 100;
/// Most items on a page.
pub const PAGE_ITEMS_MAX: u32 = 1_000;
/// Default number of migrations in a preview.
pub const PREVIEW_ITEMS_DEFAULT: u32 = 10_000;
/// Most migrations in a preview.
pub const PREVIEW_ITEMS_MAX: u32 = 100_000;
/// Records changed by one commit.
pub const COMMIT_WRITES_MAX: usize = 10_000;

/// Longest voter id.
pub const VOTER_ID_BYTES_MAX: usize = 128;
/// Items of one poll.
pub const POLL_ITEMS_MAX: usize = 1_000;
/// Longest title of a poll or name of an item.
pub const POLL_TEXT_CHARS_MAX: usize = 200;
/// Default number of lanes of a poll's counters.
pub const LANES_DEFAULT: u16 = 10;
/// Most lanes.
pub const LANES_MAX: u16 = 256;
/// Most expected voters of a poll.
pub const EXPECTED_VOTERS_MAX: u64 = 100_000_000_000;
/// Counters of one poll: its items times its lanes.
pub const POLL_COUNTERS_MAX: usize = 20_000;
/// Polls of one slice, open and closed.
pub const POLLS_PER_SLICE_MAX: usize = 100_000;
/// Largest body of a request that creates a poll.
pub const POLL_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Largest body of a single vote.
pub const VOTE_BODY_BYTES_MAX: usize = 4 * 1024;
/// Longest line of a stream of votes.
pub const VOTE_LINE_BYTES_MAX: usize = 4 * 1024;
/// Most votes in one call of a shard.
pub const BALLOTS_MAX: usize = 8_192;
/// Request ids that a voter's row remembers.
pub const REQUESTS_REMEMBERED: usize = 4;
/// How long after its arrival at the router a vote may reach its shard and still count as cast
/// at its arrival.
pub const ARRIVAL_ALLOWANCE_MS: i64 = 10_000;
/// Most imports of totals into one poll.
pub const IMPORTS_PER_POLL_MAX: usize = 64;
/// Most votes of one item in an import.
pub const IMPORTED_VOTES_MAX: u64 = 1_000_000_000_000;
