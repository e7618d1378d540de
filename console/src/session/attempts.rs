//! Failed logins, counted by address: after a few, an address has to wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use ballast_domain::Timestamp;

/// Failures that an address has within the span.
const FAILURES_MAX: u32 = 10;
/// How long they count, in milliseconds.
const SPAN_MS: i64 = 5 * 60 * 1_000;
/// Addresses that are remembered; beyond it those whose span is over are
/// forgotten, then everyone is.
const ADDRESSES_MAX: usize = 10_000;

/// Who failed, how often, since when.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<HashMap<Option<IpAddr>, Failures>>);

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

impl Attempts {
    /// For how many seconds an address has to wait; none when it may try.
    pub(crate) fn wait(&self, address: Option<IpAddr>, now: Timestamp) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = known.get(&address).filter(|found| !found.is_over(now))?;
        if failures.count < FAILURES_MAX {
            return None;
        }
        let left = SPAN_MS - (now.unix_ms() - failures.since.unix_ms());
        Some(u64::try_from(left).unwrap_or(0).div_ceil(1_000).max(1))
    }

    /// Notes that an address failed.
    pub(crate) fn failed(&self, address: Option<IpAddr>, now: Timestamp) {
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

    /// Forgets the failures of an address that got in.
    pub(crate) fn succeeded(&self, address: Option<IpAddr>) {
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
    fn after_some_failures_an_address_waits_and_others_do_not() {
        let attempts = Attempts::default();
        let one = Some("10.0.0.1".parse().unwrap());
        let other = Some("10.0.0.2".parse().unwrap());
        for _ in 0..FAILURES_MAX {
            assert_eq!(attempts.wait(one, at(0)), None);
            attempts.failed(one, at(0));
        }
        assert_eq!(attempts.wait(one, at(0)), Some(300));
        assert_eq!(attempts.wait(one, at(299_500)), Some(1));
        assert_eq!(attempts.wait(one, at(SPAN_MS)), None);
        assert_eq!(attempts.wait(other, at(0)), None);
    }

    #[test]
    fn whoever_gets_in_begins_anew() {
        let attempts = Attempts::default();
        for _ in 0..FAILURES_MAX {
            attempts.failed(None, at(0));
        }
        attempts.succeeded(None);
        assert_eq!(attempts.wait(None, at(0)), None);
    }

    #[test]
    fn there_is_no_end_of_addresses_but_of_memory() {
        let attempts = Attempts::default();
        for number in 0..25_000_u32 {
            attempts.failed(Some(IpAddr::V4(number.into())), at(0));
        }
        assert!(attempts.0.lock().unwrap().len() <= ADDRESSES_MAX);
    }
}
