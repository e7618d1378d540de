//! The system clock: the only place in this crate that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

use ballast_domain::Timestamp;

/// The time.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place where commands read the clock"
)]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
