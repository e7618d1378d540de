//! How long a request is held when its shard cannot take it: the decision,
//! pure.
//!
//! While a slice moves or a shard recovers, requests wait instead of failing.
//! The first waits are short, for a cutover is short; later ones are longer,
//! so that a shard that is away for long is not asked all the time. Nobody
//! waits past the deadline.

/// The first wait. A cutover takes a few milliseconds.
const FIRST_WAIT_MS: i64 = 5;
/// The longest wait between two attempts.
const LONGEST_WAIT_MS: i64 = 200;

/// Why an attempt came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// The shard does not own the slice at that epoch: the route is stale, or
    /// the shard has not been told yet.
    Fenced,
    /// The shard starts, recovers or cannot be reached.
    Away,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait so long, read the route anew, and try again.
    Retry {
        /// How long.
        after_ms: i64,
    },
    /// Tell the caller to come back later.
    GiveUp,
}

/// Decides after the attempt `attempt` (counted from 1) of a request that
/// arrived `held_ms` ago and may be held `hold_max_ms` in all.
pub fn after(setback: Setback, attempt: u32, held_ms: i64, hold_max_ms: i64) -> Next {
    let left = hold_max_ms.saturating_sub(held_ms);
    if left <= 0 {
        return Next::GiveUp;
    }
    let doublings = attempt.saturating_sub(1).min(16);
    let wait = match setback {
        // A fresh route may be there already.
        Setback::Fenced if attempt <= 1 => 0,
        Setback::Fenced | Setback::Away => (FIRST_WAIT_MS << doublings).min(LONGEST_WAIT_MS),
    };
    Next::Retry {
        after_ms: wait.min(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETBACKS: [Setback; 2] = [Setback::Fenced, Setback::Away];

    #[test]
    fn waits_begin_short_and_stay_bounded() {
        let waits: Vec<_> = (1..=8)
            .map(|attempt| after(Setback::Away, attempt, 0, 5_000))
            .collect();
        let expected = [5, 10, 20, 40, 80, 160, 200, 200];
        assert_eq!(waits, expected.map(|after_ms| Next::Retry { after_ms }));
    }

    #[test]
    fn a_stale_route_is_read_anew_at_once() {
        let next = after(Setback::Fenced, 1, 0, 5_000);
        assert_eq!(next, Next::Retry { after_ms: 0 });
        let later = after(Setback::Fenced, 2, 1, 5_000);
        assert_eq!(later, Next::Retry { after_ms: 10 });
    }

    #[test]
    fn nobody_who_may_not_be_held_waits() {
        for setback in SETBACKS {
            assert_eq!(after(setback, 1, 0, 0), Next::GiveUp);
        }
    }

    proptest! {
        #[test]
        fn nobody_waits_past_the_deadline(attempt: u32, held in 0..20_000_i64, most in 0..10_000_i64) {
            for setback in SETBACKS {
                match after(setback, attempt, held, most) {
                    Next::Retry { after_ms } => prop_assert!(held + after_ms <= most),
                    Next::GiveUp => prop_assert!(held >= most),
                }
            }
        }

        #[test]
        fn it_ends(most in 1..10_000_i64) {
            let (mut held, mut attempt) = (0, 0);
            loop {
                attempt += 1;
                match after(Setback::Fenced, attempt, held, most) {
                    Next::Retry { after_ms } => held += after_ms,
                    Next::GiveUp => break,
                }
                prop_assert!(attempt < 200);
            }
        }
    }
}
