//! The rule for votes per second: a token bucket that holds one second's worth of
//! votes, as a pure function of its state, the rate, the votes and the time.
//!
//! As in GCRA, its state is one number: the moment at which the bucket would be full
//! again. A vote moves that moment by its share of a second.
//!
//! ```text
//!            now        full_at             now + 1 s
//!   ──────────┼────────────┼────────────────────┼─────► time
//!             │◄── spent ─►│◄─── left to take ──►│
//! ```
//! The bucket always holds one second, whatever the rate. So a change of the rate
//! needs no conversion: it applies from the next vote on, and the spent share of the
//! bucket stays the same.
//!
//! The crate `governor` has the same rule, but its limiters have a fixed rate and
//! read their own clock. Here the rate comes with each request, from the tenant's
//! route, and the time is a parameter.

use std::num::NonZeroU64;
use std::time::Duration;

use ballast_domain::Timestamp;

/// Time is counted in picoseconds. At the highest rate, 10⁸ votes per second, a vote
/// costs 10⁴ picoseconds, so rounding up is negligible.
const SECOND: i128 = 1_000_000_000_000;
const MILLISECOND: i128 = SECOND / 1_000;
const NANOSECOND: i128 = SECOND / 1_000_000_000;

/// How far ahead votes may be booked. It also bounds how long a tenant can be blocked
/// when the clock is set back.
const AHEAD_MAX: i128 = 10 * SECOND;

/// The bucket of a tenant or a throttled key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// When it is full again, in picoseconds since 1970.
    full_at: i128,
}

impl Default for Bucket {
    /// A full bucket.
    fn default() -> Self {
        Self { full_at: i128::MIN }
    }
}

/// The level of a bucket at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketLevel {
    /// The votes that can be taken now.
    pub(super) left: u64,
    /// The time until it is full.
    pub(super) full_in: Duration,
}

/// Why votes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BucketRefusal {
    /// Not now: they can be taken after this wait, if no other votes are.
    Wait(Duration),
    /// Never: the bucket does not hold that many.
    ExceedsBurst,
}

/// Votes that were booked ahead of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booking {
    /// How many: at most a second's worth, and 0 when too many are booked. Book the
    /// rest after the wait.
    pub votes: u32,
    /// How long to wait before they are cast.
    pub wait: Duration,
}

impl Bucket {
    /// Takes these votes now: all of them or none.
    pub(super) fn take(
        self,
        rate: NonZeroU64,
        votes: u32,
        now: Timestamp,
    ) -> Result<Self, BucketRefusal> {
        if u64::from(votes) > rate.get() {
            return Err(BucketRefusal::ExceedsBurst);
        }
        let now = picoseconds(now);
        let full_at = self.charge_from(now) + cost(votes, rate);
        match full_at - now - SECOND {
            ..=0 => Ok(Self { full_at }),
            early => Err(BucketRefusal::Wait(duration(early))),
        }
    }

    /// Books up to a second's worth of these votes, ahead of time if necessary, in the
    /// order of the calls.
    pub(super) fn book(self, rate: NonZeroU64, votes: u32, now: Timestamp) -> (Self, Booking) {
        let votes = votes.min(u32::try_from(rate.get()).unwrap_or(u32::MAX));
        let now = picoseconds(now);
        let full_at = self.charge_from(now) + cost(votes, rate);
        let ahead = full_at - now - SECOND;
        if ahead > AHEAD_MAX {
            let wait = duration(ahead - AHEAD_MAX);
            return (self, Booking { votes: 0, wait });
        }
        let wait = duration(ahead);
        (Self { full_at }, Booking { votes, wait })
    }

    /// Its level at a moment.
    pub(super) fn level(self, rate: NonZeroU64, now: Timestamp) -> BucketLevel {
        let now = picoseconds(now);
        let spent = self.charge_from(now) - now;
        let left = (SECOND - spent).max(0) * i128::from(rate.get()) / SECOND;
        BucketLevel {
            left: u64::try_from(left).unwrap_or(u64::MAX),
            full_in: duration(spent),
        }
    }

    /// The moment from which the next votes are charged. It is later than can be
    /// booked only if the clock was set back: it is then clamped, so that the tenant
    /// is not blocked for that long.
    fn charge_from(self, now: i128) -> i128 {
        self.full_at.clamp(now, now + SECOND + AHEAD_MAX)
    }
}

/// The cost of votes, rounded up so that the rate is never exceeded.
fn cost(votes: u32, rate: NonZeroU64) -> i128 {
    let (spread, rate) = (i128::from(votes) * SECOND, i128::from(rate.get()));
    (spread + rate - 1) / rate
}

fn picoseconds(moment: Timestamp) -> i128 {
    i128::from(moment.unix_ms()) * MILLISECOND
}

/// As a duration, rounded up; zero if negative.
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
        assert_eq!(bucket.level(rate(100), at(0)).left, 0);
        let wait = Duration::from_millis(10);
        assert_eq!(
            bucket.take(rate(100), 1, at(0)),
            Err(BucketRefusal::Wait(wait))
        );
        assert_eq!(bucket.take(rate(100), 1, at(9)).map(|_| ()).ok(), None);
        assert!(bucket.take(rate(100), 1, at(10)).is_ok());
        let level = bucket.level(rate(100), at(500));
        let half = Duration::from_millis(500);
        assert_eq!((level.left, level.full_in), (50, half));
        assert_eq!(bucket.level(rate(100), at(5_000)).left, 100);
    }

    #[test]
    fn more_than_a_second_holds_is_never_taken() {
        let bucket = Bucket::default();
        assert_eq!(
            bucket.take(rate(5), 6, at(0)),
            Err(BucketRefusal::ExceedsBurst)
        );
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
    fn a_clock_that_was_set_back_blocks_no_tenant_for_long() {
        let spent = Bucket::default().take(rate(10), 10, at(3_600_000)).unwrap();
        assert!(spent.take(rate(10), 1, at(0)).is_err());
        let level = spent.level(rate(10), at(0));
        assert!(level.full_in <= Duration::from_secs(11), "{level:?}");
    }

    /// Requests for votes: how many, how long after the last one, booked or taken.
    fn requests() -> impl Strategy<Value = Vec<(u32, i64, bool)>> {
        let votes = prop_oneof![1..4u32, 1..200u32, Just(100_000)];
        let pause = prop_oneof![Just(0), 0..5i64, 0..3_000i64];
        proptest::collection::vec((votes, pause, any::<bool>()), 1..60)
    }

    proptest! {
        #[test]
        fn no_window_exceeds_the_burst_and_the_rate(
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
        fn levels_and_waits_are_exact(
            votes_per_second in 1..1_000u64, requests in requests(),
        ) {
            let rate = rate(votes_per_second);
            let (mut bucket, mut ms) = (Bucket::default(), 0);
            for (votes, pause, booked) in requests {
                ms += pause;
                let left = u32::try_from(bucket.level(rate, at(ms)).left).unwrap();
                prop_assert!(left == 0 || bucket.take(rate, left, at(ms)).is_ok());
                prop_assert!(bucket.take(rate, left + 1, at(ms)).is_err());
                match bucket.take(rate, votes, at(ms)) {
                    Err(BucketRefusal::Wait(wait)) => {
                        let later = ms + i64::try_from(wait.as_millis()).unwrap() + 1;
                        prop_assert!(bucket.take(rate, votes, at(later)).is_ok());
                    }
                    Err(BucketRefusal::ExceedsBurst) => prop_assert!(u64::from(votes) > votes_per_second),
                    Ok(after) => bucket = after,
                }
                if booked {
                    bucket = bucket.book(rate, votes, at(ms)).0;
                }
            }
        }
    }
}
