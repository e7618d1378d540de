//! A poll's counters, spread over lanes.
//!
//! A single writer does not need lanes: it never contends with itself. They
//! exist because other engines benefit from them, because a migration between
//! engines must keep every lane's count, and because the report on how evenly
//! votes spread over lanes is the same for all engines.

use crate::shard::VoterPrint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::embedded) struct Lanes {
    lanes: usize,
    /// Per item and lane.
    counts: Vec<u64>,
    totals: Vec<u64>,
}

impl Lanes {
    pub(in crate::embedded) fn new(items: usize, lanes: u16) -> Self {
        let lanes = usize::from(lanes.max(1));
        Self {
            lanes,
            // Allocated with the first vote: most polls never get one.
            counts: Vec::new(),
            totals: vec![0; items],
        }
    }

    /// Restores saved counters. Counts of lanes that no longer exist are spread
    /// evenly over the others, so the totals stay the same.
    pub(in crate::embedded) fn from_saved(lanes: u16, saved: &[Vec<u64>]) -> Self {
        let mut all = Self::new(saved.len(), lanes);
        if saved.iter().flatten().any(|count| *count > 0) {
            all.begin();
        }
        for (item, counts) in saved.iter().enumerate() {
            let (kept, gone) = counts.split_at(counts.len().min(all.lanes));
            for (lane, count) in kept.iter().enumerate().filter(|(_, count)| **count > 0) {
                all.counts[item * all.lanes + lane] = *count;
                all.totals[item] += *count;
            }
            all.add_sum(item, gone.iter().sum());
        }
        all
    }

    pub(in crate::embedded) fn totals(&self) -> &[u64] {
        &self.totals
    }

    /// Votes per item and lane.
    pub(in crate::embedded) fn by_item(&self) -> Vec<Vec<u64>> {
        if self.counts.is_empty() {
            return vec![vec![0; self.lanes]; self.totals.len()];
        }
        let by_item = self.counts.chunks(self.lanes);
        by_item.map(<[u64]>::to_vec).collect()
    }

    /// Allocates the counters on first use.
    fn begin(&mut self) {
        if self.counts.is_empty() {
            self.counts = vec![0; self.totals.len() * self.lanes];
        }
    }

    /// Counts one vote in the voter's lane.
    pub(in crate::embedded) fn add(&mut self, item: u16, voter: VoterPrint) {
        let (item, lane) = (usize::from(item), self.voter_lane(voter));
        self.begin();
        if let Some(total) = self.totals.get_mut(item) {
            *total += 1;
            self.counts[item * self.lanes + lane] += 1;
        }
    }

    /// Removes one vote: from the voter's lane, or, if the number of lanes has
    /// changed since, from the next lane that has any.
    pub(in crate::embedded) fn subtract(&mut self, item: u16, voter: VoterPrint) {
        let (item, lane) = (usize::from(item), self.voter_lane(voter));
        self.begin();
        let Some(total) = self.totals.get_mut(item) else {
            return;
        };
        let own = &mut self.counts[item * self.lanes..(item + 1) * self.lanes];
        let next = (lane..lane + own.len()).map(|lane| lane % own.len());
        if let Some(lane) = next.into_iter().find(|lane| own[*lane] > 0) {
            own[lane] -= 1;
            *total -= 1;
        }
    }

    /// Adds imported votes evenly; the remainder goes to the first lanes.
    pub(in crate::embedded) fn add_sum(&mut self, item: usize, votes: u64) {
        if votes == 0 {
            return;
        }
        let lanes = self.lanes as u64;
        self.begin();
        if let Some(total) = self.totals.get_mut(item) {
            *total += votes;
            let own = &mut self.counts[item * self.lanes..(item + 1) * self.lanes];
            for (lane, count) in own.iter_mut().enumerate() {
                *count += votes / lanes + u64::from((lane as u64) < votes % lanes);
            }
        }
    }

    /// Changes the number of lanes.
    pub(in crate::embedded) fn spread_over(&mut self, lanes: u16) {
        if usize::from(lanes.max(1)) != self.lanes {
            *self = Self::from_saved(lanes, &self.by_item());
        }
    }

    fn voter_lane(&self, voter: VoterPrint) -> usize {
        (voter.0[0] % self.lanes as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_kept_exactly_when_it_is_spread() {
        let mut lanes = Lanes::new(1, 10);
        lanes.add_sum(0, 1_503);
        assert_eq!(lanes.totals(), [1_503]);
        let spread = &lanes.by_item()[0];
        assert_eq!(spread.iter().sum::<u64>(), 1_503);
        assert_eq!((spread[0], spread[2], spread[3]), (151, 151, 150));
    }

    #[test]
    fn votes_come_and_go_while_lanes_are_added() {
        let mut lanes = Lanes::new(2, 2);
        for n in 0..100 {
            lanes.add(1, VoterPrint([n, 0]));
        }
        lanes.spread_over(7);
        for n in 100..150 {
            lanes.add(1, VoterPrint([n, 0]));
        }
        for n in 0..150 {
            assert_eq!(lanes.by_item()[1].iter().sum::<u64>(), lanes.totals()[1]);
            lanes.subtract(1, VoterPrint([n, 0]));
        }
        assert_eq!(lanes.totals(), [0, 0]);
        lanes.subtract(1, VoterPrint([1, 0]));
        assert_eq!(lanes.totals(), [0, 0]);
    }

    #[test]
    fn fewer_lanes_lie_as_evenly_and_nothing_is_lost() {
        let mut lanes = Lanes::new(2, 25);
        for n in 0..2_500 {
            lanes.add(1, VoterPrint([n, 0]));
        }
        lanes.spread_over(10);
        assert_eq!(lanes.by_item(), [vec![0; 10], vec![250; 10]]);
        assert_eq!(lanes.totals(), [0, 2_500]);
        lanes.add(1, VoterPrint([13, 0]));
        assert_eq!(lanes.by_item()[1][3], 251);
        lanes.spread_over(1);
        assert_eq!(lanes.by_item(), [[0], [2_501]]);
        for n in 0..2_501 {
            lanes.subtract(1, VoterPrint([n, 0]));
        }
        assert_eq!(lanes.totals(), [0, 0]);
    }
}
