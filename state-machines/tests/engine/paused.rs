//! Simulated time: tokio's paused clock, which advances by itself whenever nothing else
//! can happen.

use std::time::Duration;

use async_trait::async_trait;
use ballast_state_machines::engine::{Engine, EngineClock, ExecutionDetails};

pub(crate) const START_MS: i64 = 1_700_000_000_000;

pub(crate) struct PausedClock(tokio::time::Instant);

impl PausedClock {
    #[allow(clippy::disallowed_methods, reason = "this is the tests' clock")]
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

#[async_trait]
impl EngineClock for PausedClock {
    fn now_ms(&self) -> i64 {
        let since = i64::try_from(self.0.elapsed().as_millis());
        START_MS.saturating_add(since.unwrap_or(i64::MAX))
    }

    async fn sleep_until(&self, at_ms: i64) {
        let wait = at_ms.saturating_sub(self.now_ms()).clamp(0, 1 << 40);
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
    }
}

/// How long a whole test in simulated time may take, in real time.
const TEST_DEADLINE: Duration = Duration::from_secs(300);

/// How long a test in simulated time waits for anything, in real time.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often to check that, in simulated time.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Runs in simulated time, with a deadline in real time: an engine that waits for
/// something that never comes lets simulated time pass without an end.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(within(TEST_DEADLINE, "the whole test", work))
}

/// Waits for an execution's end.
pub(crate) async fn wait_for_end(engine: &Engine, id: &str) -> ExecutionDetails {
    let ended = wait_for(&format!("the end of {id}"), engine.wait_for_end(id)).await;
    ended.unwrap().unwrap()
}

/// Waits for something in simulated time, with a deadline in real time.
pub(crate) async fn wait_for<T>(what: &str, work: impl Future<Output = T>) -> T {
    within(DEADLINE, what, work).await
}

async fn within<T>(deadline: Duration, what: &str, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        () = pass_deadline(deadline) => panic!("waited {deadline:?} for {what}"),
    }
}

/// Returns when the deadline has passed in real time.
#[allow(clippy::disallowed_methods, reason = "the deadline is in real time")]
async fn pass_deadline(deadline: Duration) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < deadline {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
