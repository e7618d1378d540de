//! Makes a step durable, with retries.

use super::ExecutionDriver;
use crate::store::{AppendError, AppendOutcome, ExecutionStep};

/// How often an append is tried before the driver gives the execution up.
const APPEND_ATTEMPTS: u32 = 8;

impl ExecutionDriver {
    /// Makes a step durable. Returns `None` if the lease is lost or the execution
    /// must be loaded again.
    pub(super) async fn append_step(&self, step: ExecutionStep) -> Option<AppendOutcome> {
        let after = step.seq + step.entries.len() as u64;
        let mut attempt = 0;
        loop {
            match self.shared.store.append(step.clone()).await {
                Ok(appended) => return Some(appended),
                Err(AppendError::Store(error)) if attempt < APPEND_ATTEMPTS => {
                    self.shared.back_off(attempt, &error).await;
                    attempt += 1;
                }
                // The failed attempt did commit: no one else can append under our
                // lease.
                Err(AppendError::Stale { found, .. })
                    if attempt > 0 && found == after && !step.entries.is_empty() =>
                {
                    return Some(AppendOutcome { waiting: 1 });
                }
                Err(AppendError::Fenced { .. }) => {
                    tracing::info!(
                        execution = self.held.lease.id,
                        "lost the lease to another worker"
                    );
                    return None;
                }
                Err(AppendError::InvalidRecord(invalid)) => {
                    self.reject_step(invalid.to_string()).await;
                    return None;
                }
                Err(error) => {
                    tracing::error!(
                        execution = self.held.lease.id,
                        error = &error as &(dyn std::error::Error + 'static),
                        "append failed; the execution is loaded again after its lease expires"
                    );
                    return None;
                }
            }
        }
    }

    /// Gives up after the store refused a step for good. The state in memory is
    /// ahead of the store, so the execution is loaded again, and then fails.
    async fn reject_step(&self, why: String) {
        let lease = &self.held.lease;
        tracing::error!(
            execution = lease.id,
            cause = why,
            "the store refused a step; the execution fails"
        );
        self.shared.record_rejected_step(&lease.id, why);
        let now = self.shared.clock.now_ms();
        let released = self
            .shared
            .store
            .renew_leases(std::slice::from_ref(lease), now);
        // If this fails, the lease expires later by itself.
        let _ = released.await;
    }
}
