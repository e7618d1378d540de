//! Time in journeys: real processes need real time. It is read here only, and
//! nothing waits for a time to pass, only for a condition to hold.

use std::time::{Duration, Instant, SystemTime};

use ballast_domain::Timestamp;

/// How long a condition may take to hold on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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

/// Looks until `probe` finds something; panics when it takes too long.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe).await
}

/// Looks until `probe` finds something, for as long as `patience`.
pub async fn within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let looking = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    match tokio::time::timeout(patience, looking).await {
        Ok(found) => found,
        Err(_) => panic!("waited {patience:?} in vain: {what}"),
    }
}
