//! A step made durable, however often that has to be tried.

use super::Holder;
use crate::store::{AppendError, Appended, Step};

/// How often an append is tried before the execution is let go of.
const APPEND_ATTEMPTS: u32 = 8;

impl Holder {
    /// Makes a step durable; `None` if the execution is not ours any more, or
    /// had better be read anew.
    pub(super) async fn append(&self, step: Step) -> Option<Appended> {
        let after = step.seq + step.entries.len() as u64;
        let mut attempt = 0;
        loop {
            match self.shared.store.append(step.clone()).await {
                Ok(appended) => return Some(appended),
                Err(AppendError::Store(error)) if attempt < APPEND_ATTEMPTS => {
                    self.shared.back_off(attempt, &error).await;
                    attempt += 1;
                }
                // It had happened when the store failed: nobody else can have
                // gone on with our lease.
                Err(AppendError::Stale { found, .. })
                    if attempt > 0 && found == after && !step.entries.is_empty() =>
                {
                    return Some(Appended { waiting: 1 });
                }
                Err(AppendError::Fenced { .. }) => {
                    tracing::info!(
                        execution = self.held.lease.id,
                        "another worker has the execution"
                    );
                    return None;
                }
                Err(AppendError::Unfit(unfit)) => {
                    self.give_up(unfit.to_string()).await;
                    return None;
                }
                Err(error) => {
                    tracing::error!(
                        execution = self.held.lease.id,
                        error = &error as &(dyn std::error::Error + 'static),
                        "a step was not kept; the execution is read anew when its lease has run out"
                    );
                    return None;
                }
            }
        }
    }

    /// A step cannot be kept, and would not be the next time either. What is in
    /// memory is ahead of what is kept: it is read anew, to fail.
    async fn give_up(&self, why: String) {
        let lease = &self.held.lease;
        tracing::error!(
            execution = lease.id,
            cause = why,
            "a step cannot be kept; the execution fails"
        );
        self.shared.is_unfit(&lease.id, why);
        let now = self.shared.clock.now_ms();
        let over = self.shared.store.renew(std::slice::from_ref(lease), now);
        // If this fails, the lease runs out later by itself.
        let _ = over.await;
    }
}
