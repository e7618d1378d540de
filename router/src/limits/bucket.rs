//! The rule for votes per second: a token bucket that holds one second's
//! worth, as a pure function of its state, the rate, the votes and the time.
//!
//! It is kept the GCRA way, as one number: the moment at which the bucket
//! would be full again. A vote moves that moment by its share of a second.
//!
//! ```text
//!            now        full_at             now + 1 s
//!   ──────────┼────────────┼────────────────────┼─────► time
//!             │◄── spent ─►│◄─── left to take ──►│
//! ```
//! Because the bucket always holds one second, whatever the rate, a change of
//! the rate needs no conversion: it holds from the next vote on, and the share
//! of the bucket that is spent stays.
//!
//! Why not the crate `governor`, which has the same rule: its limiters have
//! one rate for life and read a clock of their own. Here the rate comes with
//! each request, from the tenant's route, and the time is data.

use std::num::NonZeroU64;
use std::time::Duration;

use ballast_domain::Timestamp;

/// Time is counted in picoseconds: at the highest rate there is, 10⁸ votes a
/// second, a vote costs 10⁴ of them, so rounding a cost up loses nothing that
/// matters.
const SECOND: i128 = 1_000_000_000_000;
const MILLISECOND: i128 = SECOND / 1_000;
const NANOSECOND: i128 = SECOND / 1_000_000_000;

/// How far ahead votes may be booked. It is also how long a clock that was
/// set back can hold up a tenant at the most.
const AHEAD_MAX: i128 = 10 * SECOND;

/// What is left of a tenant's second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// When it would be full again, in picoseconds since 1970.
    full_at: i128,
}

impl Default for Bucket {
    /// A full one.
    fn default() -> Self {
        Self { full_at: i128::MIN }
    }
}

/// How a bucket stands at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// The votes that could be taken now.
    pub(super) left: u64,
    /// How long until it is full.
    pub(super) full_in: Duration,
}

/// Why votes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// They can be taken after this long, if nobody else takes some.
    Wait(Duration),
    /// The bucket never holds so many.
    Never,
}

/// Votes that were taken ahead of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booking {
    /// How many: at most a second's worth, and none when too many are booked
    /// already. Book the rest after the wait.
    pub votes: u32,
    /// How long to wait before they are passed on.
    pub wait: Duration,
}

impl Bucket {
    /// Takes these votes now, all of them or none.
    pub(super) fn take(
        self,
        rate: NonZeroU64,
        votes: u32,
        now: Timestamp,
    ) -> Result<Self, Refused> {
        if u64::from(votes) > rate.get() {
            return Err(Refused::Never);
        }
        let now = picoseconds(now);
        let full_at = self.from(now) + cost(votes, rate);
        match full_at - now - SECOND {
            ..=0 => Ok(Self { full_at }),
            early => Err(Refused::Wait(duration(early))),
        }
    }

    /// Takes as many of these votes as a second holds, out of the future if
    /// need be. Whoever books first is served first.
    pub(super) fn book(self, rate: NonZeroU64, votes: u32, now: Timestamp) -> (Self, Booking) {
        let votes = votes.min(u32::try_from(rate.get()).unwrap_or(u32::MAX));
        let now = picoseconds(now);
        let full_at = self.from(now) + cost(votes, rate);
        let ahead = full_at - now - SECOND;
        if ahead > AHEAD_MAX {
            let wait = duration(ahead - AHEAD_MAX);
            return (self, Booking { votes: 0, wait });
        }
        let wait = duration(ahead);
        (Self { full_at }, Booking { votes, wait })
    }

    /// How it stands.
    pub(super) fn standing(self, rate: NonZeroU64, now: Timestamp) -> Standing {
        let now = picoseconds(now);
        let spent = self.from(now) - now;
        let left = (SECOND - spent).max(0) * i128::from(rate.get()) / SECOND;
        Standing {
            left: u64::try_from(left).unwrap_or(u64::MAX),
            full_in: duration(spent),
        }
    }

    /// From where on the next votes count. No bucket is spent further ahead
    /// than can be booked, unless the clock was set back: then that much is
    /// forgiven, or the tenant would be locked out for as long.
    fn from(self, now: i128) -> i128 {
        self.full_at.clamp(now, now + SECOND + AHEAD_MAX)
    }
}

/// What so many votes cost, rounded up: never more votes than the rate.
fn cost(votes: u32, rate: NonZeroU64) -> i128 {
    let (spread, rate) = (i128::from(votes) * SECOND, i128::from(rate.get()));
    (spread + rate - 1) / rate
}

fn picoseconds(moment: Timestamp) -> i128 {
    i128::from(moment.unix_ms()) * MILLISECOND
}

/// At least this long; nothing, if it is negative.
fn duration(picoseconds: i128) -> Duration {
    let nanos = (picoseconds.max(0) + NANOSECOND - 1) / NANOSECOND;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_794_821_400_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(START + ms)
    }

    fn rate(votes: u64) -> NonZeroU64 {
        NonZeroU64::new(votes).unwrap()
    }

    #[test]
    fn a_full_bucket_gives_a_second_at_once_and_then_the_rate() {
        let bucket = Bucket::default().take(rate(100), 100, at(0)).unwrap();
        assert_eq!(bucket.standing(rate(100), at(0)).left, 0);
        let wait = Duration::from_millis(10);
        assert_eq!(bucket.take(rate(100), 1, at(0)), Err(Refused::Wait(wait)));
        assert_eq!(bucket.take(rate(100), 1, at(9)).map(|_| ()).ok(), None);
        assert!(bucket.take(rate(100), 1, at(10)).is_ok());
        let standing = bucket.standing(rate(100), at(500));
        let half = Duration::from_millis(500);
        assert_eq!((standing.left, standing.full_in), (50, half));
        assert_eq!(bucket.standing(rate(100), at(5_000)).left, 100);
    }

    #[test]
    fn more_than_a_second_holds_is_never_taken() {
        let bucket = Bucket::default();
        assert_eq!(bucket.take(rate(5), 6, at(0)), Err(Refused::Never));
        let (_, booking) = bucket.book(rate(5), 6, at(0));
        assert_eq!((booking.votes, booking.wait), (5, Duration::ZERO));
    }

    #[test]
    fn a_cost_is_never_less_than_its_share_of_a_second() {
        for votes_per_second in [3, 7, 99_999_999] {
            let exact = 2 * SECOND;
            let charged = cost(2, rate(votes_per_second)) * i128::from(votes_per_second);
            assert!(charged >= exact, "{votes_per_second}");
        }
    }

    #[test]
    fn bookings_are_served_in_order_and_end_somewhere() {
        let mut bucket = Bucket::default();
        for seconds in 0..=10 {
            let (after, booking) = bucket.book(rate(7), 7, at(0));
            assert_eq!(booking.wait, Duration::from_secs(seconds));
            assert_eq!(booking.votes, 7);
            bucket = after;
        }
        let (after, booking) = bucket.book(rate(7), 7, at(0));
        let full = (
            Booking {
                votes: 0,
                wait: Duration::from_secs(1),
            },
            bucket,
        );
        assert_eq!((booking, after), full);
        assert_eq!(bucket.book(rate(7), 7, at(1_000)).1.votes, 7);
    }

    #[test]
    fn a_changed_rate_holds_from_the_next_vote_on() {
        let spent = Bucket::default().take(rate(100), 100, at(0)).unwrap();
        assert!(spent.take(rate(100), 50, at(100)).is_err());
        assert!(spent.take(rate(1_000), 100, at(100)).is_ok());
        assert_eq!(spent.take(rate(10), 2, at(100)).ok(), None);
        assert!(spent.take(rate(10), 1, at(100)).is_ok());
    }

    #[test]
    fn a_clock_that_was_set_back_locks_nobody_out() {
        let spent = Bucket::default().take(rate(10), 10, at(3_600_000)).unwrap();
        assert!(spent.take(rate(10), 1, at(0)).is_err());
        let standing = spent.standing(rate(10), at(0));
        assert!(standing.full_in <= Duration::from_secs(11), "{standing:?}");
    }

    /// Asked for so many votes, so long after the last time, booked or not.
    fn requests() -> impl Strategy<Value = Vec<(u32, i64, bool)>> {
        let votes = prop_oneof![1..4u32, 1..200u32, Just(100_000)];
        let pause = prop_oneof![Just(0), 0..5i64, 0..3_000i64];
        proptest::collection::vec((votes, pause, any::<bool>()), 1..60)
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_a_second_and_the_rate(
            votes_per_second in prop_oneof![1..20u64, 1..100_000u64, 99_999_000..=100_000_000u64],
            requests in requests(),
        ) {
            let rate = rate(votes_per_second);
            let (mut bucket, mut ms) = (Bucket::default(), 0);
            // When votes were passed on, in nanoseconds, and how many.
            let mut passed: Vec<(i128, u64)> = Vec::new();
            for (votes, pause, booked) in requests {
                ms += pause;
                let ns = i128::from(ms) * 1_000_000;
                if booked {
                    let (after, booking) = bucket.book(rate, votes, at(ms));
                    passed.push((ns + booking.wait.as_nanos() as i128, booking.votes.into()));
                    bucket = after;
                } else if let Ok(after) = bucket.take(rate, votes, at(ms)) {
                    passed.push((ns, votes.into()));
                    bucket = after;
                }
            }
            passed.sort_unstable();
            for first in 0..passed.len() {
                let mut sum = 0;
                for (when, votes) in &passed[first..] {
                    sum += i128::from(*votes);
                    // Waits are rounded up to a nanosecond, the first one too.
                    let window = when - passed[first].0 + 1;
                    let allowed = i128::from(votes_per_second) * (window + 1_000_000_000);
                    prop_assert!(sum * 1_000_000_000 <= allowed, "{sum} in {window} ns");
                }
            }
        }

        #[test]
        fn what_is_said_of_a_bucket_is_true(
            votes_per_second in 1..1_000u64, requests in requests(),
        ) {
            let rate = rate(votes_per_second);
            let (mut bucket, mut ms) = (Bucket::default(), 0);
            for (votes, pause, booked) in requests {
                ms += pause;
                let left = u32::try_from(bucket.standing(rate, at(ms)).left).unwrap();
                prop_assert!(left == 0 || bucket.take(rate, left, at(ms)).is_ok());
                prop_assert!(bucket.take(rate, left + 1, at(ms)).is_err());
                match bucket.take(rate, votes, at(ms)) {
                    Err(Refused::Wait(wait)) => {
                        let later = ms + i64::try_from(wait.as_millis()).unwrap() + 1;
                        prop_assert!(bucket.take(rate, votes, at(later)).is_ok());
                    }
                    Err(Refused::Never) => prop_assert!(u64::from(votes) > votes_per_second),
                    Ok(after) => bucket = after,
                }
                if booked {
                    bucket = bucket.book(rate, votes, at(ms)).0;
                }
            }
        }
    }
}
