//! Decides how long a request is held when its shard cannot serve it. Pure.
//!
//! While a slice moves or a shard recovers, requests wait instead of failing. One of the
//! requests that wait for the same slice, the scout, retries with an exponential backoff.
//! It notifies the others, which retry by themselves only rarely, in case the
//! notification is missed. No request waits past its deadline.

/// A scout's first backoff during a cutover, which takes a few milliseconds.
const FENCED_FIRST_MS: i64 = 1;
/// Its longest backoff during a cutover: all requests wait for it, and one scout is cheap.
const FENCED_LONGEST_MS: i64 = 20;
/// A scout's first backoff for an unavailable shard.
const UNAVAILABLE_FIRST_MS: i64 = 5;
/// Its longest backoff for an unavailable shard.
const UNAVAILABLE_LONGEST_MS: i64 = 200;
/// The backoff of the others, for the case that the scout is stuck in a call. There may be
/// thousands, so it is long.
const OTHERS_MS: i64 = 1_000;

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFailure {
    /// The shard does not own the slice at that epoch: the route is stale, or the shard
    /// does not know the new epoch yet.
    Fenced,
    /// The shard is starting, recovering or unreachable.
    Unavailable,
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldDecision {
    /// Wait, read the route again, and retry.
    Retry {
        /// The backoff.
        after_ms: i64,
    },
    /// Fail the request with a `Retry-After`.
    GiveUp,
}

/// The role of a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaiterRole {
    /// The request that retries for all that wait for the same slice.
    Scout,
    /// A request that is notified.
    Other,
}

/// Decides after attempt number `attempt` (from 1, and again from 1 when the route changes)
/// of a request that arrived `held_ms` ago and may be held for `hold_max_ms` in total.
pub fn decide(
    role: WaiterRole,
    failure: AttemptFailure,
    attempt: u32,
    held_ms: i64,
    hold_max_ms: i64,
) -> HoldDecision {
    let left = hold_max_ms.saturating_sub(held_ms);
    if left <= 0 {
        return HoldDecision::GiveUp;
    }
    let doublings = attempt.saturating_sub(1).min(16);
    let wait = match (role, failure) {
        (WaiterRole::Other, _) => OTHERS_MS,
        (WaiterRole::Scout, AttemptFailure::Fenced) => {
            (FENCED_FIRST_MS << doublings).min(FENCED_LONGEST_MS)
        }
        (WaiterRole::Scout, AttemptFailure::Unavailable) => {
            (UNAVAILABLE_FIRST_MS << doublings).min(UNAVAILABLE_LONGEST_MS)
        }
    };
    HoldDecision::Retry {
        after_ms: wait.min(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAILURES: [AttemptFailure; 2] = [AttemptFailure::Fenced, AttemptFailure::Unavailable];
    const ROLES: [WaiterRole; 2] = [WaiterRole::Scout, WaiterRole::Other];

    fn waits(role: WaiterRole, failure: AttemptFailure) -> Vec<i64> {
        let wait = |attempt| match decide(role, failure, attempt, 0, 5_000) {
            HoldDecision::Retry { after_ms } => after_ms,
            HoldDecision::GiveUp => panic!("there is time left"),
        };
        (1..=8).map(wait).collect()
    }

    #[test]
    fn a_scouts_waits_begin_short_and_stay_bounded() {
        let away = waits(WaiterRole::Scout, AttemptFailure::Unavailable);
        assert_eq!(away, [5, 10, 20, 40, 80, 160, 200, 200]);
        let fenced = waits(WaiterRole::Scout, AttemptFailure::Fenced);
        assert_eq!(fenced, [1, 2, 4, 8, 16, 20, 20, 20]);
    }

    #[test]
    fn the_others_rarely_retry_by_themselves() {
        for failure in FAILURES {
            assert_eq!(waits(WaiterRole::Other, failure), [1_000; 8]);
        }
    }

    #[test]
    fn a_request_that_must_not_be_held_gives_up() {
        for (failure, role) in FAILURES.into_iter().zip(ROLES) {
            assert_eq!(decide(role, failure, 1, 0, 0), HoldDecision::GiveUp);
        }
    }

    proptest! {
        #[test]
        fn no_wait_passes_the_deadline(attempt: u32, held in 0..20_000_i64, most in 0..10_000_i64) {
            for (failure, role) in FAILURES.into_iter().flat_map(|it| ROLES.map(|role| (it, role))) {
                match decide(role, failure, attempt, held, most) {
                    HoldDecision::Retry { after_ms } => prop_assert!(held + after_ms <= most),
                    HoldDecision::GiveUp => prop_assert!(held >= most),
                }
            }
        }

        #[test]
        fn retries_end(most in 1..10_000_i64) {
            let (mut held, mut attempt) = (0, 0);
            loop {
                attempt += 1;
                match decide(WaiterRole::Scout, AttemptFailure::Fenced, attempt, held, most) {
                    HoldDecision::Retry { after_ms } => held += after_ms,
                    HoldDecision::GiveUp => break,
                }
                prop_assert!(attempt < 600);
            }
        }
    }
}
