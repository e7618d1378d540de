//! Writes for the writer, and their replies.

use tokio::sync::oneshot;

use crate::store::{
    AppendError, AppendOutcome, Claimant, CreateError, ExecutionClaimError, ExecutionCreation,
    ExecutionStep, ExecutionStoreError, Lease, NewMessage, PostError, PostOutcome,
};

/// A write that shares its transaction with others.
#[derive(Debug)]
pub(super) enum WriteJob {
    /// Replies `None` if the execution existed before.
    Create(
        Box<ExecutionCreation>,
        PendingReply<Option<Option<Lease>>, CreateError>,
    ),
    Append(Box<ExecutionStep>, PendingReply<AppendOutcome, AppendError>),
    Post(String, NewMessage, PendingReply<PostOutcome, PostError>),
    ClaimOne(String, Claimant, PendingReply<Lease, ExecutionClaimError>),
    Claim(
        Claimant,
        usize,
        PendingReply<Vec<Lease>, ExecutionStoreError>,
    ),
    Renew(
        Vec<Lease>,
        i64,
        PendingReply<Vec<Lease>, ExecutionStoreError>,
    ),
    ReleaseWorker(String, i64, PendingReply<u64, ExecutionStoreError>),
}

impl WriteJob {
    /// Roughly how many bytes it writes.
    pub(super) fn bytes(&self) -> usize {
        let entries = |entries: &[crate::store::JournalEntry]| -> usize {
            let history = entries.iter().flat_map(|entry| &entry.history);
            let events = entries.iter().map(|entry| &entry.event);
            history.chain(events).map(String::len).sum()
        };
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Create(new, _) => new.input.len() + entries(&new.entries) + text(&new.snapshot),
            Self::Append(step, _) => {
                let outcome = text(&step.state.outcome);
                entries(&step.entries) + text(&step.snapshot) + outcome
            }
            Self::Post(_, post, _) => post.body.len(),
            Self::Renew(leases, ..) => leases.len() * 64,
            Self::ClaimOne(..) | Self::Claim(..) | Self::ReleaseWorker(..) => 0,
        }
    }

    /// Replies with the outcome, or that the transaction failed.
    pub(super) fn send_reply(self, failed: Option<&str>) {
        match self {
            Self::Create(_, pending) => pending.send_reply(failed),
            Self::Append(_, pending) => pending.send_reply(failed),
            Self::Post(_, _, pending) => pending.send_reply(failed),
            Self::ClaimOne(_, _, pending) => pending.send_reply(failed),
            Self::Claim(_, _, pending) | Self::Renew(_, _, pending) => pending.send_reply(failed),
            Self::ReleaseWorker(_, _, pending) => pending.send_reply(failed),
        }
    }
}

/// A reply that is sent once its transaction is durable.
#[derive(Debug)]
pub(super) struct PendingReply<T, E> {
    outcome: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<T, E: From<ExecutionStoreError>> PendingReply<T, E> {
    pub(super) fn new(answer: oneshot::Sender<Result<T, E>>) -> Self {
        Self {
            outcome: None,
            answer,
        }
    }

    pub(super) fn set_outcome(&mut self, outcome: Result<T, E>) {
        self.outcome = Some(outcome);
    }

    pub(super) fn send_reply(self, failed: Option<&str>) {
        let failed = failed.map(str::to_owned);
        let outcome = match (failed, self.outcome) {
            (None, Some(outcome)) => outcome,
            (failed, _) => {
                let message = failed.unwrap_or_else(|| "the write was not decided".to_owned());
                Err(ExecutionStoreError::new("write to the store", message).into())
            }
        };
        // The caller may have gone; the write is durable all the same.
        let _ = self.answer.send(outcome);
    }
}
