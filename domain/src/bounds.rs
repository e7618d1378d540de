//! Every limit on a size, a count or a wait, in one place.
//!
//! A limit that an operator may change is in the configuration instead; these
//! are the ceilings that keep one request from costing more than it should.

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
/// Slices one shard may hold when it was added without a limit of its own.
pub const SLICES_PER_SHARD_DEFAULT: u64 = 1_000_000;
/// Largest density limit that can be set on a shard.
pub const SLICES_PER_SHARD_MAX: u64 = 100_000_000;
/// Slices that a tenant can be cut into: a power of two. Polls that are made
/// with a name are given ids by it (`router`), so it never grows smaller.
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

/// Items on a page when the caller does not say.
pub const PAGE_ITEMS_DEFAULT: u32 = 100;
/// Items on a page at the most.
pub const PAGE_ITEMS_MAX: u32 = 1_000;
/// Moves listed by one preview when the caller does not say.
pub const PREVIEW_ITEMS_DEFAULT: u32 = 10_000;
/// Moves listed by one preview at the most.
pub const PREVIEW_ITEMS_MAX: u32 = 100_000;
/// Records changed by one commit.
pub const COMMIT_WRITES_MAX: usize = 10_000;

/// Longest name of a voter.
pub const VOTER_ID_BYTES_MAX: usize = 128;
/// Items of one poll.
pub const POLL_ITEMS_MAX: usize = 1_000;
/// Longest title of a poll or name of an item.
pub const POLL_TEXT_CHARS_MAX: usize = 200;
/// Lanes a poll's counters are spread over when the poll does not say.
pub const LANES_DEFAULT: u16 = 10;
/// Lanes at the most.
pub const LANES_MAX: u16 = 256;
/// People that can be expected to vote in a poll.
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
/// Votes handed to a shard in one call.
pub const BALLOTS_MAX: usize = 8_192;
/// Request ids that a voter's row remembers.
pub const REQUESTS_REMEMBERED: usize = 4;
/// How long after its arrival a vote may reach its shard and still be judged
/// by the time it arrived at.
pub const ARRIVAL_ALLOWANCE_MS: i64 = 10_000;
/// Times that votes can be brought into one poll as sums.
pub const IMPORTS_PER_POLL_MAX: usize = 64;
/// Votes that one item can be given as a sum.
pub const IMPORTED_VOTES_MAX: u64 = 1_000_000_000_000;
