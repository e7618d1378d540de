//! Enforces a tenant's limits: votes per second and concurrent queries.
//!
//! ```text
//!   votes ──► taken now, or refused with a `Retry-After`
//!        └──► booked ahead of time, with a wait (a stream is slowed down, not
//!             refused)
//!   query ──► a permit, released when it is dropped
//! ```
//! The limit is part of the tenant's route, so a change applies from the next
//! request on. The limiter remembers only recent usage, for a bounded number of
//! tenants; a tenant that was evicted starts with a full bucket. Each router counts
//! for itself.
//!
//! This is not where requests are refused because the router is overloaded.

mod bucket;
mod quota_status;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ballast_domain::routes::{KeyGrant, TenantRoute};
use ballast_domain::{KeyId, TenantId, Timestamp};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};

pub use bucket::Booking;
use bucket::{Bucket, BucketRefusal};
use quota_status::Quota;
pub use quota_status::{LimitExceeded, QuotaStatus};

/// The most throttled keys that are remembered. A key that was evicted starts with a
/// full bucket.
const THROTTLED_MAX: usize = 10_000;

/// Enforces the limits of tenants and the throttles of keys.
pub struct Limiter {
    tenants: Cache<TenantId, Arc<TenantUsage>, UnitWeighter, DefaultHashBuilder, PinActiveTenants>,
    /// The buckets of throttled keys. There are few, and each only for a while.
    keys: Cache<KeyId, Arc<Mutex<Bucket>>>,
}

/// The current usage of a tenant.
#[derive(Default)]
struct TenantUsage {
    bucket: Mutex<Bucket>,
    queries: AtomicU64,
}

/// Keeps tenants with running queries in the cache, because these must go on being
/// counted. So the cache may exceed its capacity, by at most the number of running
/// requests.
#[derive(Clone)]
struct PinActiveTenants;

impl Lifecycle<TenantId, Arc<TenantUsage>> for PinActiveTenants {
    type RequestState = ();

    fn is_pinned(&self, _: &TenantId, usage: &Arc<TenantUsage>) -> bool {
        Arc::strong_count(usage) > 1
    }
}

/// The right to run one query, until it is dropped.
#[derive(Debug)]
#[must_use = "a query may run only while its permit is held"]
pub struct QueryPermit {
    usage: Arc<TenantUsage>,
    quota: QuotaStatus,
}

impl Limiter {
    /// A limiter that remembers this many tenants.
    pub fn new(tenants: usize) -> Self {
        let weight = u64::try_from(tenants).unwrap_or(u64::MAX);
        let hasher = DefaultHashBuilder::default();
        Self {
            tenants: Cache::with(tenants, weight, UnitWeighter, hasher, PinActiveTenants),
            keys: Cache::new(THROTTLED_MAX),
        }
    }

    /// Takes a call of a throttled key. A key without a throttle is not limited.
    pub fn key(&self, grant: &KeyGrant, now: Timestamp) -> Result<(), LimitExceeded> {
        let Some(rate) = grant.throttle.and_then(|throttle| throttle.limit_at(now)) else {
            return Ok(());
        };
        let rate = NonZeroU64::new(rate).unwrap_or(NonZeroU64::MIN);
        let fresh = || Ok::<_, std::convert::Infallible>(Arc::default());
        let bucket = match self.keys.get_or_insert_with(&grant.key_id, fresh) {
            Ok(bucket) => bucket,
            Err(never) => match never {},
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        match bucket.take(rate, 1, now) {
            Ok(after) => {
                *bucket = after;
                Ok(())
            }
            Err(refused) => Err(throttled(grant, rate, refused)),
        }
    }

    /// Takes these votes now: all of them or none.
    pub fn votes(
        &self,
        tenant: &TenantRoute,
        votes: u32,
        now: Timestamp,
    ) -> Result<QuotaStatus, LimitExceeded> {
        let Some(rate) = limit(tenant.limits.votes_per_second) else {
            return Ok(QuotaStatus::default());
        };
        let usage = self.usage(&tenant.tenant_id);
        let mut bucket = usage.bucket();
        let refused = match bucket.take(rate, votes, now) {
            Ok(after) => {
                *bucket = after;
                None
            }
            Err(refused) => Some(refused),
        };
        let level = bucket.level(rate, now);
        drop(bucket);
        let quota = QuotaStatus(Some(Quota::Votes {
            limit: rate.get(),
            left: level.left,
            full_in: level.full_in,
        }));
        match refused {
            None => Ok(quota),
            Some(refused) => Err(too_many_votes(rate, votes, refused, quota)),
        }
    }

    /// Books votes ahead of time, with the time to wait before they are cast. This is
    /// for streams, which are slowed down rather than refused. [`Booking::votes`] may
    /// be fewer than requested: book the rest after the wait.
    pub fn book_votes(&self, tenant: &TenantRoute, votes: u32, now: Timestamp) -> Booking {
        let Some(rate) = limit(tenant.limits.votes_per_second) else {
            let wait = Duration::ZERO;
            return Booking { votes, wait };
        };
        let usage = self.usage(&tenant.tenant_id);
        let mut bucket = usage.bucket();
        let (after, booking) = bucket.book(rate, votes, now);
        *bucket = after;
        booking
    }

    /// Takes a permit for one query.
    pub fn query(&self, tenant: &TenantRoute) -> Result<QueryPermit, LimitExceeded> {
        let limit = limit(tenant.limits.concurrent_queries);
        let usage = self.usage(&tenant.tenant_id);
        // Also count without a limit: one that is set later must know running queries.
        let most = limit.map_or(u64::MAX, NonZeroU64::get);
        let taken = usage
            .queries
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
                (running < most).then(|| running + 1)
            });
        let quota = |running: u64| {
            QuotaStatus(limit.map(|limit| Quota::Queries {
                limit: limit.get(),
                left: limit.get().saturating_sub(running),
            }))
        };
        match taken {
            Ok(before) => Ok(QueryPermit {
                quota: quota(before.saturating_add(1)),
                usage,
            }),
            Err(running) => Err(LimitExceeded {
                quota: quota(running),
                wait: Duration::from_secs(1),
                detail: format!(
                    "the tenant is running {running} queries; its limit is {most} at a time"
                ),
                next: None,
            }),
        }
    }

    fn usage(&self, tenant: &TenantId) -> Arc<TenantUsage> {
        if let Some(usage) = self.tenants.get(tenant) {
            return usage;
        }
        let fresh = || Ok::<_, std::convert::Infallible>(Arc::default());
        match self.tenants.get_or_insert_with(tenant, fresh) {
            Ok(usage) => usage,
            Err(never) => match never {},
        }
    }
}

impl TenantUsage {
    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        // A bucket is one number, so a panic cannot leave it inconsistent.
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for TenantUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantUsage").finish_non_exhaustive()
    }
}

impl QueryPermit {
    /// The tenant's quota, for the response headers.
    pub fn quota_status(&self) -> QuotaStatus {
        self.quota
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        self.usage.queries.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The limit as a number above 0. Stored limits are never 0; if one were, it would
/// mean the lowest limit and not "unlimited".
fn limit(limit: Option<u64>) -> Option<NonZeroU64> {
    limit.map(|limit| NonZeroU64::new(limit).unwrap_or(NonZeroU64::MIN))
}

fn throttled(grant: &KeyGrant, rate: NonZeroU64, refused: BucketRefusal) -> LimitExceeded {
    let wait = match refused {
        BucketRefusal::Wait(wait) => wait,
        BucketRefusal::ExceedsBurst => Duration::from_secs(1),
    };
    let until = grant
        .throttle
        .map_or_else(String::new, |it| format!(" until {}", it.until));
    LimitExceeded {
        quota: QuotaStatus::default(),
        wait,
        detail: format!(
            "key {} is throttled to {rate} calls per second{until}",
            grant.key_id
        ),
        next: Some("It overloaded its shard. Send fewer calls, or ask the operator.".to_owned()),
    }
}

fn too_many_votes(
    rate: NonZeroU64,
    votes: u32,
    refused: BucketRefusal,
    at: QuotaStatus,
) -> LimitExceeded {
    let may = format!("the tenant may send {rate} votes per second");
    let (wait, detail, next) = match refused {
        BucketRefusal::Wait(wait) => (wait, format!("{may}, and has sent them"), None),
        // A retry would not help: the bucket never holds that many.
        BucketRefusal::ExceedsBurst => (
            Duration::from_secs(1),
            format!("{may}; these are {votes} at once"),
            Some(format!("Send at most {rate} votes at once.")),
        ),
    };
    LimitExceeded {
        quota: at,
        wait,
        detail,
        next,
    }
}
