//! The loop that reconcilers run in.
//!
//! A reconciler takes no commands. It compares what the registry says with what
//! is so, acts on the difference, and does so again and again. A failed round is
//! logged and retried, so a reconciler needs no error handling of its own.
//!
//! ```text
//!   loop { reconcile ──► ok: sleep INTERVAL
//!                   └──► error: report, sleep RETRY_AFTER }
//! ```
//! Users: `fleet_reconciler` and `migrations::reconciler`. The hotspot reconciler
//! is driven by load samples instead.

use std::time::Duration;

use ballast_domain::{Error, Result};

/// Something that is reconciled in rounds.
pub trait Reconciler: Send {
    /// Its name in log lines.
    const NAME: &'static str;
    /// Pause after a successful round.
    const INTERVAL: Duration;
    /// Pause after a failed round.
    const RETRY_AFTER: Duration;

    /// Runs one round. It may wait for a change first.
    fn reconcile(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Logs a failed round.
    fn report_failure(&self, error: &Error) {
        tracing::warn!(reconciler = Self::NAME, %error, "reconciliation failed; will retry");
    }
}

/// Runs a reconciler until the task is dropped.
pub async fn run<R: Reconciler>(mut reconciler: R) {
    loop {
        let pause = match reconciler.reconcile().await {
            Ok(()) => R::INTERVAL,
            Err(error) => {
                reconciler.report_failure(&error);
                R::RETRY_AFTER
            }
        };
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use ballast_domain::ErrorCode;

    use super::*;

    struct FailsFirst {
        rounds: tokio::sync::mpsc::UnboundedSender<bool>,
        has_failed: bool,
    }

    impl Reconciler for FailsFirst {
        const NAME: &'static str = "test";
        const INTERVAL: Duration = Duration::from_millis(1);
        const RETRY_AFTER: Duration = Duration::from_millis(1);

        async fn reconcile(&mut self) -> Result<()> {
            let _ = self.rounds.send(self.has_failed);
            if std::mem::replace(&mut self.has_failed, true) {
                return Ok(());
            }
            Err(Error::new(ErrorCode::Unavailable, "not yet"))
        }
    }

    #[tokio::test]
    async fn a_failed_round_is_followed_by_the_next() {
        let (rounds, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let reconciler = FailsFirst {
            rounds,
            has_failed: false,
        };
        let running = tokio::spawn(run(reconciler));
        for expected in [false, true, true] {
            assert_eq!(seen.recv().await, Some(expected));
        }
        running.abort();
    }
}
