//! How long a request is held when its shard cannot take it: the decision,
//! pure.
//!
//! While a slice moves or a shard recovers, requests wait instead of failing.
//! Of those who wait for the same slice one, the scout, tries again after waits
//! that are short at first; the others are told by it, and try by themselves
//! only now and then, in case nobody tells them. Nobody waits past the
//! deadline.

/// A scout's first wait for a cutover, which takes a few milliseconds.
const FENCED_FIRST_MS: i64 = 1;
/// Its longest one: a cutover keeps everybody waiting, and one scout costs
/// little.
const FENCED_LONGEST_MS: i64 = 20;
/// A scout's first wait for a shard that is away.
const AWAY_FIRST_MS: i64 = 5;
/// Its longest one.
const AWAY_LONGEST_MS: i64 = 200;
/// The wait of all but the scout. They are told; this is for the case that the
/// scout is stuck in a call. Thousands may wait, so it is long.
const OTHERS_MS: i64 = 1_000;

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

/// Who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The one who tries for all that wait for the same slice.
    Scout,
    /// One who is told.
    Other,
}

/// Decides after the attempt `attempt` (counted from 1, and anew when the
/// route changes) of a request that arrived `held_ms` ago and may be held
/// `hold_max_ms` in all.
pub fn after(role: Role, setback: Setback, attempt: u32, held_ms: i64, hold_max_ms: i64) -> Next {
    let left = hold_max_ms.saturating_sub(held_ms);
    if left <= 0 {
        return Next::GiveUp;
    }
    let doublings = attempt.saturating_sub(1).min(16);
    let wait = match (role, setback) {
        (Role::Other, _) => OTHERS_MS,
        (Role::Scout, Setback::Fenced) => (FENCED_FIRST_MS << doublings).min(FENCED_LONGEST_MS),
        (Role::Scout, Setback::Away) => (AWAY_FIRST_MS << doublings).min(AWAY_LONGEST_MS),
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
    const ROLES: [Role; 2] = [Role::Scout, Role::Other];

    fn waits(role: Role, setback: Setback) -> Vec<i64> {
        let wait = |attempt| match after(role, setback, attempt, 0, 5_000) {
            Next::Retry { after_ms } => after_ms,
            Next::GiveUp => panic!("there is time left"),
        };
        (1..=8).map(wait).collect()
    }

    #[test]
    fn a_scouts_waits_begin_short_and_stay_bounded() {
        let away = waits(Role::Scout, Setback::Away);
        assert_eq!(away, [5, 10, 20, 40, 80, 160, 200, 200]);
        let fenced = waits(Role::Scout, Setback::Fenced);
        assert_eq!(fenced, [1, 2, 4, 8, 16, 20, 20, 20]);
    }

    #[test]
    fn the_others_seldom_try_by_themselves() {
        for setback in SETBACKS {
            assert_eq!(waits(Role::Other, setback), [1_000; 8]);
        }
    }

    #[test]
    fn nobody_who_may_not_be_held_waits() {
        for (setback, role) in SETBACKS.into_iter().zip(ROLES) {
            assert_eq!(after(role, setback, 1, 0, 0), Next::GiveUp);
        }
    }

    proptest! {
        #[test]
        fn nobody_waits_past_the_deadline(attempt: u32, held in 0..20_000_i64, most in 0..10_000_i64) {
            for (setback, role) in SETBACKS.into_iter().flat_map(|it| ROLES.map(|role| (it, role))) {
                match after(role, setback, attempt, held, most) {
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
                match after(Role::Scout, Setback::Fenced, attempt, held, most) {
                    Next::Retry { after_ms } => held += after_ms,
                    Next::GiveUp => break,
                }
                prop_assert!(attempt < 600);
            }
        }
    }
}
