//! Applies a recut: polls change their slice, and nothing else changes.

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;

use super::EngineState;
use super::sums::{self, SumShare};
use crate::embedded::record::{PollNo, RecutRecord};

impl EngineState {
    /// Lists the polls of these slices.
    pub(in crate::embedded) fn polls_in(&self, slices: &[SliceId]) -> Vec<PollNo> {
        let slices = slices.iter().filter_map(|slice| self.slices.get(slice));
        slices
            .flat_map(|slice| slice.polls.values().copied())
            .collect()
    }

    pub(super) fn apply_recut(&mut self, sequence: u64, record: &RecutRecord) {
        let parents: Vec<SliceId> = record.parents.iter().map(|it| it.slice.clone()).collect();
        let polls = self.polls_in(&parents);
        for slice in record.parents.iter().chain(&record.children) {
            self.apply_slice(sequence, slice);
        }
        for parent in &parents {
            if let Some(parent) = self.slices.get_mut(parent) {
                parent.polls.clear();
                parent.numbers.clear();
                parent.requests.clear();
                parent.reset_indexes();
            }
        }
        for number in polls {
            self.assign_to_child(sequence, number, record);
        }
    }

    /// Assigns a poll to the child whose range contains it.
    fn assign_to_child(&mut self, sequence: u64, number: PollNo, record: &RecutRecord) {
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
        poll.share = SumShare::default();
        if let Some(slice) = self.slices.get_mut(&child.slice) {
            slice.index_poll(number, id);
            slice.polls.insert(id, number);
            slice.numbers.insert(id, number);
            slice.requests.insert(poll.poll.request, id);
        }
        sums::mark_changed(&mut self.slices, poll);
    }
}
