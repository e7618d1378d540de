//! When each migration begins and ends: with limited concurrency, in maintenance windows,
//! outside of freezes, after its dependencies. Durations are estimates; the executor keeps
//! the order, not the exact times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ballast_domain::clock::Timestamp;

use super::draft::{DraftMove, PlanDraft};
use super::order::Order;
use super::terms::{PlanTerms, TimeSpan};

/// The times of one migration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) begins_at: Timestamp,
    pub(super) cutover_at: Timestamp,
    pub(super) ends_at: Timestamp,
}

/// How often a start is postponed for a window or a freeze before the search gives up.
const TRIES: usize = 1_000;

/// Concurrency slots; each has the time when it is free again.
struct Slots(BinaryHeap<Reverse<Timestamp>>);

impl Slots {
    fn new(count: u32, from: Timestamp) -> Self {
        Self((0..count.max(1)).map(|_| Reverse(from)).collect())
    }

    fn free_at(&self) -> Option<Timestamp> {
        self.0.peek().map(|free| free.0)
    }

    fn take(&mut self, until: Timestamp) {
        self.0.pop();
        self.0.push(Reverse(until));
    }
}

pub(super) fn schedule(draft: &PlanDraft<'_>, steps: &[DraftMove], order: &Order) -> Vec<Times> {
    let (terms, now) = (draft.terms, draft.fleet.at);
    let mut all = Slots::new(terms.pace.at_a_time, now);
    let mut leaving: HashMap<u32, Slots> = HashMap::new();
    let mut coming: HashMap<u32, Slots> = HashMap::new();
    let mut times: Vec<Times> = Vec::with_capacity(steps.len());
    for (step, waits_for) in steps.iter().zip(&order.waits_for) {
        let limits = |at: u32| &draft.fleet.shards[draft.places[at as usize].input];
        let out_max = limits(step.from).moves_out_max;
        let in_max = limits(step.to).moves_in_max;
        let leaving = leaving
            .entry(step.from)
            .or_insert_with(|| Slots::new(out_max.unwrap_or(terms.pace.out_at_a_time), now));
        let coming = coming
            .entry(step.to)
            .or_insert_with(|| Slots::new(in_max.unwrap_or(terms.pace.in_at_a_time), now));
        let free = [all.free_at(), leaving.free_at(), coming.free_at()];
        let room = waits_for.iter().map(|at| times[*at as usize].ends_at);
        let earliest = free.into_iter().flatten().chain(room).max().unwrap_or(now);
        let slice = &draft.fleet.slices[step.slice as usize];
        let seconds = copy_seconds(terms, slice.bytes);
        let freezes = terms.freezes.get(&slice.id.tenant_id);
        let freezes = freezes.map_or(&[][..], Vec::as_slice);
        let begins_at = allowed_at(terms, freezes, earliest, seconds);
        let cutover_at = begins_at.plus_seconds(seconds);
        for slots in [&mut all, leaving, coming] {
            slots.take(cutover_at);
        }
        times.push(Times {
            begins_at,
            cutover_at,
            ends_at: cutover_at.plus_seconds(to_i64(terms.pace.window_seconds)),
        });
    }
    times
}

fn copy_seconds(terms: &PlanTerms, bytes: u64) -> i64 {
    let copy = bytes.div_ceil(terms.pace.bytes_per_second.max(1));
    to_i64(copy.saturating_add(terms.pace.seconds_per_move))
}

fn to_i64(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// The first moment from `earliest` on at which a window is open and no freeze begins before
/// the cutover.
fn allowed_at(
    terms: &PlanTerms,
    freezes: &[TimeSpan],
    earliest: Timestamp,
    seconds: i64,
) -> Timestamp {
    let mut at = earliest;
    for _ in 0..TRIES {
        let waits = terms
            .windows
            .iter()
            .map(|window| window.opens_in_seconds(at));
        let opens = at.plus_seconds(to_i64(waits.min().unwrap_or(0)));
        let copying = TimeSpan {
            from: opens,
            until: opens.plus_seconds(seconds.max(1)),
        };
        let thawed = freezes
            .iter()
            .filter(|freeze| freeze.overlaps(&copying))
            .map(|freeze| freeze.until)
            .max();
        match thawed {
            None if opens == at => return at,
            None => at = opens,
            Some(thawed) => at = thawed.max(opens),
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_migration_begins_in_a_window_and_ends_before_a_freeze() {
        let terms = PlanTerms {
            windows: vec!["daily 01:00-05:00".parse().unwrap()],
            ..PlanTerms::default()
        };
        let begins = |freezes: &[TimeSpan], from: &str| {
            allowed_at(&terms, freezes, at(from), 3_600).to_string()
        };
        let monday = "2026-11-16T02:00:00Z";
        assert_eq!(begins(&[], monday), "2026-11-16T02:00:00.000Z");
        assert_eq!(
            begins(&[], "2026-11-16T06:00:00Z"),
            "2026-11-17T01:00:00.000Z"
        );
        let freeze = TimeSpan {
            from: at("2026-11-16T02:59:00Z"),
            until: at("2026-11-16T23:00:00Z"),
        };
        assert_eq!(begins(&[freeze], monday), "2026-11-17T01:00:00.000Z");
        let later = TimeSpan {
            from: at("2026-11-16T03:00:00Z"),
            ..freeze
        };
        assert_eq!(begins(&[later], monday), "2026-11-16T02:00:00.000Z");
    }
}
