//! Timestamps, and the trait through which the time is read.
//!
//! The root `clippy.toml` bans direct calls (`SystemTime::now`, `Instant::now`) outside of
//! the composition root, so that tests and the simulator control the time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Reads the time. Implemented by the machine's clock and by test clocks.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time.
    fn now(&self) -> Timestamp;

    /// A monotonic time in microseconds since an arbitrary moment, to measure durations. The
    /// default is the wall clock.
    fn micros(&self) -> u64 {
        self.now().unix_ms().max(0).unsigned_abs() * 1_000
    }
}

/// A moment, to the millisecond, written as RFC 3339 in UTC.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, format = DateTime, example = "2026-11-16T09:30:00.000Z")]
pub struct Timestamp(i64);

/// The error for a text that is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTimestamp {
    /// It is not an RFC 3339 time.
    #[error("{0:?} is not an RFC 3339 time such as 2026-11-16T09:30:00Z")]
    NoTime(String),
    /// In UTC it is outside of the years that RFC 3339 can write.
    #[error("{0:?} is not between the years 0000 and 9999 in UTC")]
    OutOfRange(String),
}

impl Timestamp {
    /// The moment this many milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// This many seconds later, at most the last representable moment.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        let ms = seconds.saturating_mul(1_000);
        Self(self.0.saturating_add(ms).min(LAST_MS))
    }
}

/// 9999-12-31T23:59:59.999Z, the last moment RFC 3339 can write.
const LAST_MS: i64 = 253_402_300_799_999;
/// 0000-01-01T00:00:00Z, the first one.
const FIRST_MS: i64 = -62_167_219_200_000;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i128::from(self.0.clamp(FIRST_MS, LAST_MS)) * 1_000_000;
        let moment =
            OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (date, time) = (moment.date(), moment.time());
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.millisecond()
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = BadTimestamp;
    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        let shown = || text.chars().take(64).collect();
        let moment =
            OffsetDateTime::parse(text, &Rfc3339).map_err(|_| BadTimestamp::NoTime(shown()))?;
        let ms = moment.unix_timestamp_nanos().div_euclid(1_000_000);
        match i64::try_from(ms) {
            Ok(ms) if (FIRST_MS..=LAST_MS).contains(&ms) => Ok(Self(ms)),
            _ => Err(BadTimestamp::OutOfRange(shown())),
        }
    }
}

impl TryFrom<String> for Timestamp {
    type Error = BadTimestamp;
    fn try_from(text: String) -> Result<Self, BadTimestamp> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(moment: Timestamp) -> String {
        moment.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_survives_its_text() {
        for ms in [0, 1_794_821_400_123, LAST_MS, FIRST_MS] {
            let moment = Timestamp::from_unix_ms(ms);
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
        assert_eq!(
            Timestamp::from_unix_ms(1_000).to_string(),
            "1970-01-01T00:00:01.000Z"
        );
    }

    #[test]
    fn a_moment_that_utc_cannot_write_is_refused_and_says_so() {
        let refused = |text: &str| text.parse::<Timestamp>().unwrap_err().to_string();
        let said = refused("9999-12-31T23:30:00-01:00");
        assert_eq!(
            said,
            "\"9999-12-31T23:30:00-01:00\" is not between the years 0000 and 9999 in UTC"
        );
        assert!(refused("0000-01-01T00:30:00+01:00").contains("in UTC"));
        assert!(refused("yesterday").contains("is not an RFC 3339 time"));
        // Just within, by its offset.
        let last: Timestamp = "9999-12-31T23:59:59.999999+00:01".parse().unwrap();
        assert_eq!(last.to_string(), "9999-12-31T23:58:59.999Z");
        let last: Timestamp = "9999-12-31T22:59:59.999-01:00".parse().unwrap();
        assert_eq!(last, Timestamp::from_unix_ms(LAST_MS));
    }

    #[test]
    fn an_offset_is_understood_and_nonsense_is_not() {
        let moment: Timestamp = "2026-11-16T10:30:00+01:00".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-11-16T09:30:00.000Z");
        assert!("yesterday".parse::<Timestamp>().is_err());
        assert!("2026-13-01T00:00:00Z".parse::<Timestamp>().is_err());
    }
}
