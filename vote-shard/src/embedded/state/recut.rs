//! Slices become others: their polls change hands, and nothing else changes.

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;

use super::State;
use super::sums::{self, Share};
use crate::embedded::record::{PollNo, RecutRecord};

impl State {
    /// The polls of these slices.
    pub(in crate::embedded) fn polls_of(&self, slices: &[SliceId]) -> Vec<PollNo> {
        let slices = slices.iter().filter_map(|slice| self.slices.get(slice));
        slices
            .flat_map(|slice| slice.polls.values().copied())
            .collect()
    }

    pub(super) fn apply_recut(&mut self, sequence: u64, record: &RecutRecord) {
        let parents: Vec<SliceId> = record.parents.iter().map(|it| it.slice.clone()).collect();
        let polls = self.polls_of(&parents);
        for slice in record.parents.iter().chain(&record.children) {
            self.apply_slice(sequence, slice);
        }
        for parent in &parents {
            if let Some(parent) = self.slices.get_mut(parent) {
                parent.polls.clear();
                parent.numbers.clear();
                parent.requests.clear();
                parent.forget_sum();
            }
        }
        for number in polls {
            self.hand_over(sequence, number, record);
        }
    }

    /// Gives a poll to the child that it belongs to.
    fn hand_over(&mut self, sequence: u64, number: PollNo, record: &RecutRecord) {
        let Some(poll) = self.polls.get_mut(&number) else {
            return;
        };
        let id = poll.poll.poll_id;
        let own = |range: HashRange| range.contains(id);
        let Some(child) = record.children.iter().find(|child| own(child.range)) else {
            return;
        };
        poll.slice = child.slice.clone();
        poll.changed_in = sequence;
        poll.share = Share::default();
        if let Some(slice) = self.slices.get_mut(&child.slice) {
            slice.came(number, id);
            slice.polls.insert(id, number);
            slice.numbers.insert(id, number);
            slice.requests.insert(poll.poll.request, id);
        }
        sums::note(&mut self.slices, poll);
    }
}
