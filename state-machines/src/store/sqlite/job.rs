//! What the writer is asked to do, and who waits for it.

use tokio::sync::oneshot;

use crate::store::{
    AppendError, Appended, ClaimError, Claimant, CreateError, Lease, New, Post, PostError, Posted,
    Step, StoreError,
};

/// A job that shares its transaction with others.
#[derive(Debug)]
pub(super) enum Job {
    /// `None`: it was there before.
    Create(Box<New>, Pending<Option<Option<Lease>>, CreateError>),
    Append(Box<Step>, Pending<Appended, AppendError>),
    Post(String, Post, Pending<Posted, PostError>),
    ClaimOne(String, Claimant, Pending<Lease, ClaimError>),
    Claim(Claimant, usize, Pending<Vec<Lease>, StoreError>),
    Renew(Vec<Lease>, i64, Pending<Vec<Lease>, StoreError>),
    TakeBack(String, i64, Pending<u64, StoreError>),
}

impl Job {
    /// About how many bytes it writes.
    pub(super) fn bytes(&self) -> usize {
        let entries = |entries: &[crate::store::Entry]| -> usize {
            let history = entries.iter().flat_map(|entry| &entry.history);
            let events = entries.iter().map(|entry| &entry.event);
            history.chain(events).map(String::len).sum()
        };
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Create(new, _) => new.input.len() + entries(&new.entries) + text(&new.snapshot),
            Self::Append(step, _) => {
                let outcome = text(&step.standing.outcome);
                entries(&step.entries) + text(&step.snapshot) + outcome
            }
            Self::Post(_, post, _) => post.body.len(),
            Self::Renew(leases, ..) => leases.len() * 64,
            Self::ClaimOne(..) | Self::Claim(..) | Self::TakeBack(..) => 0,
        }
    }

    /// Answers: as decided, or that the transaction failed.
    pub(super) fn answer(self, failed: Option<&str>) {
        match self {
            Self::Create(_, pending) => pending.answer(failed),
            Self::Append(_, pending) => pending.answer(failed),
            Self::Post(_, _, pending) => pending.answer(failed),
            Self::ClaimOne(_, _, pending) => pending.answer(failed),
            Self::Claim(_, _, pending) | Self::Renew(_, _, pending) => pending.answer(failed),
            Self::TakeBack(_, _, pending) => pending.answer(failed),
        }
    }
}

/// An answer that is told once it is durable.
#[derive(Debug)]
pub(super) struct Pending<T, E> {
    outcome: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

impl<T, E: From<StoreError>> Pending<T, E> {
    pub(super) fn new(answer: oneshot::Sender<Result<T, E>>) -> Self {
        Self {
            outcome: None,
            answer,
        }
    }

    pub(super) fn decided(&mut self, outcome: Result<T, E>) {
        self.outcome = Some(outcome);
    }

    pub(super) fn answer(self, failed: Option<&str>) {
        let failed = failed.map(str::to_owned);
        let outcome = match (failed, self.outcome) {
            (None, Some(outcome)) => outcome,
            (failed, _) => {
                let message = failed.unwrap_or_else(|| "it was not decided".to_owned());
                Err(StoreError::new("write to the store", message).into())
            }
        };
        // Who no longer waits has given up; it is durable all the same.
        let _ = self.answer.send(outcome);
    }
}
