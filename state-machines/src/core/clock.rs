//! Converts milliseconds since 1970. Nothing here reads a clock.

use time::OffsetDateTime;

/// The latest supported time: the end of the year 9999.
const LATEST_MS: i64 = 253_402_300_799_999;

/// The time as a date and time. Times after the year 9999 become its end.
pub(super) fn to_datetime(at_ms: i64) -> OffsetDateTime {
    let nanoseconds = i128::from(at_ms.clamp(-LATEST_MS, LATEST_MS)) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The time as ISO 8601 with milliseconds: `2023-11-14T22:13:20.123Z`.
pub(super) fn to_iso8601(at_ms: i64) -> String {
    let time = to_datetime(at_ms);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}

/// A date and time as milliseconds, rounded up so that no timer fires early.
pub(super) fn to_milliseconds(time: OffsetDateTime) -> i64 {
    let nanoseconds = time.unix_timestamp_nanos();
    i64::try_from(nanoseconds.div_euclid(1_000_000) + i128::from(nanoseconds % 1_000_000 != 0))
        .unwrap_or(i64::MAX)
}

/// The time so many seconds later; saturates.
pub(super) fn add_seconds(at_ms: i64, seconds: u64) -> i64 {
    let milliseconds = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
    at_ms.saturating_add(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_milliseconds_and_come_back() {
        assert_eq!(to_iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(to_iso8601(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(
            to_milliseconds(to_datetime(1_700_000_000_123)),
            1_700_000_000_123
        );
        assert_eq!(to_milliseconds(to_datetime(-1)), -1);
        assert!(to_iso8601(i64::MAX).starts_with("9999-"));
        assert_eq!(add_seconds(i64::MAX, 1), i64::MAX);
    }
}
