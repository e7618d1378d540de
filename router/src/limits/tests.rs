//! Tests of the limiter: what it remembers and evicts, and that it counts correctly with
//! several threads.

use std::sync::Barrier;

use ballast_domain::Error;
use ballast_domain::ErrorCode;
use ballast_domain::limits::TenantLimits;
use ballast_domain::tenant::TenantStatus;

use super::*;

const NOW: Timestamp = Timestamp::from_unix_ms(1_794_821_400_000);

fn tenant(id: &str, votes: Option<u64>, queries: Option<u64>) -> TenantRoute {
    TenantRoute {
        tenant_id: id.parse().unwrap(),
        status: TenantStatus::Active,
        home_region: "local".parse().unwrap(),
        limits: TenantLimits {
            votes_per_second: votes,
            concurrent_queries: queries,
            ..TenantLimits::default()
        },
        cors_origins: Vec::new(),
        slices: Vec::new(),
    }
}

fn left(quota: QuotaStatus) -> Option<u64> {
    quota.0.map(|quota| match quota {
        Quota::Votes { left, .. } | Quota::Queries { left, .. } => left,
    })
}

#[test]
fn tenants_have_buckets_of_their_own() {
    let limiter = Limiter::new(100);
    let (acme, other) = (
        tenant("acme", Some(10), None),
        tenant("other", Some(10), None),
    );
    assert_eq!(left(limiter.votes(&acme, 7, NOW).unwrap()), Some(3));
    let limited = limiter.votes(&acme, 4, NOW).unwrap_err();
    assert_eq!(left(limited.quota_status()), Some(3));
    assert_eq!(limited.wait(), Duration::from_millis(100));
    assert_eq!(left(limiter.votes(&other, 10, NOW).unwrap()), Some(0));
    assert_eq!(left(limiter.votes(&acme, 3, NOW).unwrap()), Some(0));
    let later = NOW.plus_seconds(1);
    assert_eq!(left(limiter.votes(&acme, 1, later).unwrap()), Some(9));
}

#[tokio::test]
async fn a_throttled_key_is_limited_until_its_throttle_ends() {
    use ballast_domain::key::KeyThrottle;

    let server = crate::testing::TestRouter::new(|_| {});
    let (_, vote) = server.poll().await;
    let now = server.state.parts.clock.now();
    let throttle = |until| KeyThrottle {
        calls_per_second: 2,
        until,
    };
    let set = |until| {
        let throttled = |grant: &mut KeyGrant| grant.throttle = Some(throttle(until));
        for id in server.source.change_keys(throttled) {
            server.state.parts.keyring.forget(&id);
        }
    };
    set(now.plus_seconds(60));
    let mut statuses = Vec::new();
    for voter in 0..4 {
        let body = format!(r#"{{"voterID":"v-{voter}"}}"#);
        statuses.push(server.ask("PATCH", &vote, &body).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
    let refused = server.ask("GET", "/polls", "").await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (429, &"rate-limited".into())
    );
    assert!(
        refused.body["next"]
            .as_str()
            .unwrap()
            .contains("overloaded")
    );
    set(now);
    assert_eq!(server.ask("GET", "/polls", "").await.status, 200);
}

#[test]
fn a_refusal_is_a_problem_that_helps() {
    let limiter = Limiter::new(100);
    let acme = tenant("acme", Some(10), None);
    let never = Error::from(limiter.votes(&acme, 11, NOW).unwrap_err());
    assert_eq!(never.code(), ErrorCode::RateLimited);
    let next = never.problem().next;
    assert!(next.contains("at most 10 votes"), "{next}");
    let _ = limiter.votes(&acme, 10, NOW);
    let limited = Error::from(limiter.votes(&acme, 10, NOW).unwrap_err());
    assert_eq!(limited.code(), ErrorCode::RateLimited);
    assert_eq!(limited.retry_after_seconds(), Some(1));
}

#[test]
fn without_limits_nothing_is_refused_or_reported() {
    let limiter = Limiter::new(100);
    let free = tenant("free", None, None);
    for _ in 0..100 {
        let quota = limiter.votes(&free, u32::MAX, NOW).unwrap();
        assert_eq!(quota, QuotaStatus::default());
    }
    let booking = limiter.book_votes(&free, u32::MAX, NOW);
    assert_eq!((booking.votes, booking.wait), (u32::MAX, Duration::ZERO));
    let permits: Vec<_> = (0..1_000).map(|_| limiter.query(&free).unwrap()).collect();
    assert_eq!(permits[0].quota_status(), QuotaStatus::default());
}

#[test]
fn a_changed_limit_holds_at_once() {
    let limiter = Limiter::new(100);
    let few = tenant("acme", Some(10), Some(1));
    let many = tenant("acme", Some(1_000), Some(3));
    let free = tenant("acme", None, None);
    let _ = limiter.votes(&few, 10, NOW).unwrap();
    assert!(limiter.votes(&few, 1, NOW).is_err());
    assert!(limiter.votes(&free, 1, NOW).is_ok());
    let soon = Timestamp::from_unix_ms(NOW.unix_ms() + 50);
    assert!(limiter.votes(&few, 1, soon).is_err());
    assert!(limiter.votes(&many, 50, soon).is_ok());

    let first = limiter.query(&few).unwrap();
    assert!(limiter.query(&few).is_err());
    let second = limiter.query(&many).unwrap();
    assert_eq!(left(second.quota_status()), Some(1));
    drop(first);
    assert!(limiter.query(&few).is_err(), "one is still under way");
    drop(second);
    // Queries that began without a limit count when a limit is set.
    let unlimited = limiter.query(&free).unwrap();
    assert!(limiter.query(&few).is_err());
    drop(unlimited);
    assert!(limiter.query(&few).is_ok());
}

#[test]
fn a_stream_is_slowed_down_to_the_rate() {
    let limiter = Limiter::new(100);
    let acme = tenant("acme", Some(10), None);
    let (mut waited, mut to_send) = (Duration::ZERO, 35);
    while to_send > 0 {
        let ms = i64::try_from(waited.as_millis()).unwrap();
        let now = Timestamp::from_unix_ms(NOW.unix_ms() + ms);
        let booking = limiter.book_votes(&acme, to_send, now);
        waited += booking.wait;
        to_send -= booking.votes;
    }
    // Ten at once, then ten per second.
    assert_eq!(waited, Duration::from_millis(2_500));
}

#[test]
fn usage_is_bounded_and_running_queries_are_kept() {
    let limiter = Limiter::new(100);
    let busy = tenant("busy", Some(1), Some(1));
    let permit = limiter.query(&busy).unwrap();
    for number in 0..10_000 {
        let other = tenant(&format!("tenant-{number}"), Some(1), Some(1));
        assert!(limiter.votes(&other, 1, NOW).is_ok());
        drop(limiter.query(&other).unwrap());
    }
    let remembered = limiter.tenants.len();
    assert!(remembered <= 101, "{remembered} tenants are remembered");
    assert!(limiter.query(&busy).is_err(), "its query is under way");
    drop(permit);
    assert!(limiter.query(&busy).is_ok());
    // Evicted, so it starts with a full bucket again.
    assert!(
        limiter
            .votes(&tenant("tenant-1", Some(1), None), 1, NOW)
            .is_ok()
    );
}

/// How many threads compete.
const THREADS: usize = 8;

#[test]
fn permits_never_exceed_the_limit_under_threads() {
    const MOST: u64 = 3;
    let limiter = Limiter::new(100);
    let acme = tenant("acme", None, Some(MOST));
    let (running, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                together.wait();
                for _ in 0..5_000 {
                    let Ok(permit) = limiter.query(&acme) else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        continue;
                    };
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= MOST, "{now} at a time");
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert!(refused.into_inner() > 0, "they never met");
    let permits: Vec<_> = (0..MOST).map(|_| limiter.query(&acme).unwrap()).collect();
    assert!(limiter.query(&acme).is_err(), "every permit came back once");
    drop(permits);
}

#[test]
fn votes_never_exceed_the_limit_under_threads() {
    let limiter = Limiter::new(100);
    let acme = tenant("acme", Some(1_000), None);
    let taken = AtomicU64::new(0);
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                together.wait();
                for _ in 0..1_000 {
                    if limiter.votes(&acme, 1, NOW).is_ok() {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), 1_000);
}
