//! Failed logins by address: after too many, further logins are rate limited.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use ballast_domain::Timestamp;

/// Failures allowed per address within the span.
const FAILURES_MAX: u32 = 10;
/// The span, in milliseconds.
const SPAN_MS: i64 = 5 * 60 * 1_000;
/// Addresses tracked. Beyond this, expired entries are dropped, then all.
const ADDRESSES_MAX: usize = 10_000;

/// Login failures by address.
#[derive(Default)]
pub(crate) struct LoginFailures(Mutex<HashMap<Option<IpAddr>, Failures>>);

#[derive(Clone, Copy)]
struct Failures {
    since: Timestamp,
    count: u32,
}

impl Failures {
    fn is_over(self, now: Timestamp) -> bool {
        now.unix_ms() - self.since.unix_ms() >= SPAN_MS
    }
}

impl LoginFailures {
    /// Seconds that an address must wait; `None` if it may log in now.
    pub(crate) fn wait(&self, address: Option<IpAddr>, now: Timestamp) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = known.get(&address).filter(|found| !found.is_over(now))?;
        if failures.count < FAILURES_MAX {
            return None;
        }
        let left = SPAN_MS - (now.unix_ms() - failures.since.unix_ms());
        Some(u64::try_from(left).unwrap_or(0).div_ceil(1_000).max(1))
    }

    /// Records a failed login.
    pub(crate) fn record_failure(&self, address: Option<IpAddr>, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES_MAX {
            known.retain(|_, failures| !failures.is_over(now));
        }
        if known.len() >= ADDRESSES_MAX {
            known.clear();
        }
        let fresh = Failures {
            since: now,
            count: 0,
        };
        let failures = known.entry(address).or_insert(fresh);
        if failures.is_over(now) {
            *failures = fresh;
        }
        failures.count += 1;
    }

    /// Clears an address's failures after a successful login.
    pub(crate) fn clear(&self, address: Option<IpAddr>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    #[test]
    fn an_address_is_limited_after_too_many_failures() {
        let attempts = LoginFailures::default();
        let one = Some("10.0.0.1".parse().unwrap());
        let other = Some("10.0.0.2".parse().unwrap());
        for _ in 0..FAILURES_MAX {
            assert_eq!(attempts.wait(one, at(0)), None);
            attempts.record_failure(one, at(0));
        }
        assert_eq!(attempts.wait(one, at(0)), Some(300));
        assert_eq!(attempts.wait(one, at(299_500)), Some(1));
        assert_eq!(attempts.wait(one, at(SPAN_MS)), None);
        assert_eq!(attempts.wait(other, at(0)), None);
    }

    #[test]
    fn a_successful_login_clears_the_failures() {
        let attempts = LoginFailures::default();
        for _ in 0..FAILURES_MAX {
            attempts.record_failure(None, at(0));
        }
        attempts.clear(None);
        assert_eq!(attempts.wait(None, at(0)), None);
    }

    #[test]
    fn the_number_of_tracked_addresses_is_bounded() {
        let attempts = LoginFailures::default();
        for number in 0..25_000_u32 {
            attempts.record_failure(Some(IpAddr::V4(number.into())), at(0));
        }
        assert!(attempts.0.lock().unwrap().len() <= ADDRESSES_MAX);
    }
}
