//! The work that every contender does: which voters vote for which items, the votes per
//! call, and the concurrent calls.

use std::time::Duration;

/// The shape of a workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Votes per call.
    pub(super) batch: usize,
    /// Concurrent calls.
    pub(super) calls: usize,
    /// Items that the votes are spread over.
    pub(super) items: u64,
}

/// Votes of voters that have not voted yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) shape: Shape,
    /// The number of the first voter.
    pub(super) first: u64,
    pub(super) votes: usize,
}

impl Work {
    /// The numbers of the voters, call by call.
    pub(super) fn batches(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        let (batch, end) = (self.shape.batch as u64, self.first + self.votes as u64);
        let starts = (self.first..end).step_by(self.shape.batch);
        starts.map(move |start| start..(start + batch).min(end))
    }

    /// The batches distributed over the callers, one list for each.
    pub(super) fn dealt<T>(&self, one: impl Fn(std::ops::Range<u64>) -> T) -> Vec<Vec<T>> {
        let mut hands: Vec<Vec<T>> = Vec::new();
        hands.resize_with(self.shape.calls, Vec::new);
        for (number, batch) in self.batches().enumerate() {
            hands[number % self.shape.calls].push(one(batch));
        }
        hands
    }

    /// The item that a voter votes for.
    pub(super) fn item(&self, voter: u64) -> u16 {
        (voter.wrapping_mul(0x9e37_79b9) % self.shape.items) as u16
    }
}

/// A voter's name.
pub(super) fn voter(n: u64) -> String {
    format!("voter-{n:08}")
}

/// How long a round took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Took {
    pub(super) wall: Duration,
    /// Processor time of the counting side: the engine with its callers, or the server
    /// without them.
    pub(super) cpu: Duration,
}
