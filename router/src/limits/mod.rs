//! A tenant's limits: votes per second and queries at the same time.
//!
//! ```text
//!   votes ──► taken now, or refused with when to come back
//!        └──► booked: taken ahead of time, with how long to wait (a stream
//!             is slowed down, not refused)
//!   query ──► a permit, given back when it is dropped
//! ```
//! The limit comes with each request in the tenant's route, so a change holds
//! from the next request on. What is kept per tenant is only what it has used
//! lately; it is bounded, and a tenant that was forgotten begins with a full
//! second. Each router counts for itself.
//!
//! It is not the place where requests are refused because *we* are busy.

mod answer;
mod bucket;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ballast_domain::routes::{Grant, TenantRoute};
use ballast_domain::{KeyId, TenantId, Timestamp};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};

use answer::Quota;
pub use answer::{Allowance, Limited};
pub use bucket::Booking;
use bucket::{Bucket, Refused};

/// Keys that are let through only so often, at the most: those that were
/// forgotten begin with a full second.
const THROTTLED_MAX: usize = 10_000;

/// Holds tenants to their limits.
pub struct Limiter {
    tenants: Cache<TenantId, Arc<Usage>, UnitWeighter, DefaultHashBuilder, KeepThoseInUse>,
    /// Keys that are let through only so often: few, and for a while.
    keys: Cache<KeyId, Arc<Mutex<Bucket>>>,
}

/// What a tenant uses.
#[derive(Default)]
struct Usage {
    bucket: Mutex<Bucket>,
    queries: AtomicU64,
}

/// A tenant with queries under way is not forgotten: they would no longer
/// count. So there may be a few more tenants than there is room for, but never
/// more than there are requests under way.
#[derive(Clone)]
struct KeepThoseInUse;

impl Lifecycle<TenantId, Arc<Usage>> for KeepThoseInUse {
    type RequestState = ();

    fn is_pinned(&self, _: &TenantId, usage: &Arc<Usage>) -> bool {
        Arc::strong_count(usage) > 1
    }
}

/// The right to run one query, until it is dropped.
#[derive(Debug)]
#[must_use = "a query may run only while its permit is held"]
pub struct QueryPermit {
    usage: Arc<Usage>,
    allowance: Allowance,
}

impl Limiter {
    /// A limiter that remembers this many tenants.
    pub fn new(tenants: usize) -> Self {
        let weight = u64::try_from(tenants).unwrap_or(u64::MAX);
        let hasher = DefaultHashBuilder::default();
        Self {
            tenants: Cache::with(tenants, weight, UnitWeighter, hasher, KeepThoseInUse),
            keys: Cache::new(THROTTLED_MAX),
        }
    }

    /// Lets a call of a key through that may call only so often, if it may now.
    pub fn key(&self, grant: &Grant, now: Timestamp) -> Result<(), Limited> {
        let Some(rate) = grant.throttle.and_then(|throttle| throttle.at(now)) else {
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

    /// Takes these votes now, all of them or none.
    pub fn votes(
        &self,
        tenant: &TenantRoute,
        votes: u32,
        now: Timestamp,
    ) -> Result<Allowance, Limited> {
        let Some(rate) = limit(tenant.limits.votes_per_second) else {
            return Ok(Allowance::default());
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
        let standing = bucket.standing(rate, now);
        drop(bucket);
        let allowance = Allowance(Some(Quota::Votes {
            limit: rate.get(),
            left: standing.left,
            full_in: standing.full_in,
        }));
        match refused {
            None => Ok(allowance),
            Some(refused) => Err(too_many_votes(rate, votes, refused, allowance)),
        }
    }

    /// Takes votes ahead of time and says how long to wait before they are
    /// passed on: for streams, which are slowed down rather than refused.
    /// [`Booking::votes`] may be fewer than asked for; book the rest after the
    /// wait.
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

    /// A permit for one query.
    pub fn query(&self, tenant: &TenantRoute) -> Result<QueryPermit, Limited> {
        let limit = limit(tenant.limits.concurrent_queries);
        let usage = self.usage(&tenant.tenant_id);
        // Counted without a limit too: one that is set now must know of them.
        let most = limit.map_or(u64::MAX, NonZeroU64::get);
        let taken = usage
            .queries
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
                (running < most).then(|| running + 1)
            });
        let allowance = |running: u64| {
            Allowance(limit.map(|limit| Quota::Queries {
                limit: limit.get(),
                left: limit.get().saturating_sub(running),
            }))
        };
        match taken {
            Ok(before) => Ok(QueryPermit {
                allowance: allowance(before.saturating_add(1)),
                usage,
            }),
            Err(running) => Err(Limited {
                allowance: allowance(running),
                wait: Duration::from_secs(1),
                detail: format!(
                    "the tenant has {running} queries under way and may have {most} at a time"
                ),
                next: None,
            }),
        }
    }

    fn usage(&self, tenant: &TenantId) -> Arc<Usage> {
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

impl Usage {
    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        // A bucket is one number: it is never half written.
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Usage").finish_non_exhaustive()
    }
}

impl QueryPermit {
    /// How the tenant stands, for the answer's headers.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        self.usage.queries.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A limit as it can be used. None is stored that is 0; were there one, it
/// would allow the least there is rather than everything.
fn limit(limit: Option<u64>) -> Option<NonZeroU64> {
    limit.map(|limit| NonZeroU64::new(limit).unwrap_or(NonZeroU64::MIN))
}

fn throttled(grant: &Grant, rate: NonZeroU64, refused: Refused) -> Limited {
    let wait = match refused {
        Refused::Wait(wait) => wait,
        Refused::Never => Duration::from_secs(1),
    };
    let until = grant
        .throttle
        .map_or_else(String::new, |it| format!(" until {}", it.until));
    Limited {
        allowance: Allowance::default(),
        wait,
        detail: format!(
            "key {} is let through {rate} times a second{until}",
            grant.key_id
        ),
        next: Some("It flooded its shard. Send fewer calls, or ask the operator.".to_owned()),
    }
}

fn too_many_votes(rate: NonZeroU64, votes: u32, refused: Refused, at: Allowance) -> Limited {
    let may = format!("the tenant may send {rate} votes per second");
    let (wait, detail, next) = match refused {
        Refused::Wait(wait) => (wait, format!("{may}, and has sent them"), None),
        // Coming back would not help: the second never holds that many.
        Refused::Never => (
            Duration::from_secs(1),
            format!("{may}; these are {votes} at once"),
            Some(format!("Send at most {rate} votes at once.")),
        ),
    };
    Limited {
        allowance: at,
        wait,
        detail,
        next,
    }
}
