//! Time in journeys: real processes need real time. Only this module reads the clock, and no
//! test waits for time to pass, only for conditions.

use std::time::{Duration, Instant, SystemTime};

use ballast_domain::Timestamp;

/// How long a condition may take to hold on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A stopwatch.
#[allow(clippy::disallowed_methods, reason = "journeys measure real processes")]
pub fn stopwatch() -> Instant {
    Instant::now()
}

/// The moment this many milliseconds from now.
#[allow(
    clippy::disallowed_methods,
    reason = "journeys share the clock of the processes they drive"
)]
pub fn in_ms(ms: i64) -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    Timestamp::from_unix_ms(i64::try_from(since.as_millis()).unwrap() + ms)
}

/// Calls `probe` until it returns something; panics on a timeout.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe).await
}

/// Calls `probe` until it returns something, for at most `patience`.
pub async fn within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let polling = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    match tokio::time::timeout(patience, polling).await {
        Ok(found) => found,
        Err(_) => panic!("timed out after {patience:?}: {what}"),
    }
}
