//! Tokio's clock. Paused, it goes on by itself when nothing else can happen.

use async_trait::async_trait;
use ballast_state_machines::engine::Clock;

pub(crate) const START_MS: i64 = 1_700_000_000_000;

pub(crate) struct Paused(tokio::time::Instant);

impl Paused {
    #[allow(clippy::disallowed_methods, reason = "this is the tests' clock")]
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

#[async_trait]
impl Clock for Paused {
    fn now_ms(&self) -> i64 {
        let since = i64::try_from(self.0.elapsed().as_millis());
        START_MS.saturating_add(since.unwrap_or(i64::MAX))
    }

    async fn sleep_until(&self, at_ms: i64) {
        let wait = at_ms.saturating_sub(self.now_ms()).clamp(0, 1 << 40);
        tokio::time::sleep(std::time::Duration::from_millis(wait.unsigned_abs())).await;
    }
}

/// Runs on a clock that goes on by itself.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(work)
}
