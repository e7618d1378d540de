//! Which slices leave an overloaded shard: the cheapest set that removes the excess in every
//! dimension.
//!
//! ```text
//!   greedy by relief per byte ─► drop redundant slices ─► search around it
//! ```
//! The problem is a multidimensional covering knapsack, too expensive to solve exactly: the
//! search visits a bounded number of sets around the greedy one, and all sets if there are
//! few slices. [`at_least`] is a lower bound that shows how far a set is from the optimum.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::amount::{Amount, LANES};

/// Slices in the branch-and-bound search.
const CORE: usize = 28;
/// Slices of the greedy set that may be exchanged.
const LOOSE: usize = 10;
/// Search nodes visited at most.
const NODES_MAX: u32 = 1_500;

/// A slice that may leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoverItem {
    pub(super) slice: u32,
    pub(super) amount: Amount,
    pub(super) cost: u64,
    /// Breaks ties by the slice's name, not by input order.
    pub(super) tie: u64,
}

/// The cheapest set found that removes `excess`; `None` if all slices together do not.
pub(super) fn cover(items: &[CoverItem], excess: &Amount) -> Option<Vec<CoverItem>> {
    let chosen = cover_roughly(items, excess)?;
    Some(search(items, chosen, excess))
}

/// The greedy set that removes `excess`, without the search.
pub(super) fn cover_roughly(items: &[CoverItem], excess: &Amount) -> Option<Vec<CoverItem>> {
    Some(without_redundant(greedy(items, excess)?, excess))
}

/// Whether all slices together remove `excess`.
pub(super) fn can_cover(items: &[CoverItem], excess: &Amount) -> bool {
    excess.within(&sum(items))
}

/// The share of the excess that a slice removes, summed over lanes.
fn relief(amount: &Amount, left: &Amount, whole: &Amount) -> f64 {
    let mut sum = 0.0;
    for lane in 0..LANES {
        if left.0[lane] > 0 {
            sum += amount.0[lane].min(left.0[lane]) as f64 / whole.0[lane] as f64;
        }
    }
    sum
}

struct RatedItem {
    ratio: f64,
    tie: u64,
    at: usize,
}

impl PartialEq for RatedItem {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for RatedItem {}
impl PartialOrd for RatedItem {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for RatedItem {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.ratio
            .total_cmp(&other.ratio)
            .then(other.tie.cmp(&self.tie))
            .then(other.at.cmp(&self.at))
    }
}

/// The greedy set by relief per byte. A slice's relief only decreases as others are chosen,
/// so a stale rating that is still the highest after an update is the maximum (lazy greedy).
fn greedy(items: &[CoverItem], excess: &Amount) -> Option<Vec<CoverItem>> {
    let rate = |at: usize, left: &Amount| {
        let item = &items[at];
        let ratio = relief(&item.amount, left, excess) / item.cost.max(1) as f64;
        RatedItem {
            ratio,
            tie: item.tie,
            at,
        }
    };
    let mut left = *excess;
    let mut heap: BinaryHeap<RatedItem> = (0..items.len())
        .map(|at| rate(at, &left))
        .filter(|rated| rated.ratio > 0.0)
        .collect();
    let mut chosen = Vec::new();
    while !left.is_zero() {
        let top = heap.pop()?;
        let anew = rate(top.at, &left);
        if heap.peek().is_some_and(|next| *next > anew) {
            if anew.ratio > 0.0 {
                heap.push(anew);
            }
            continue;
        }
        if anew.ratio <= 0.0 {
            continue;
        }
        let item = items[top.at];
        left = left.minus(&item.amount).above(&Amount::default());
        chosen.push(item);
    }
    Some(chosen)
}

/// Drops redundant slices, most expensive first.
fn without_redundant(mut chosen: Vec<CoverItem>, excess: &Amount) -> Vec<CoverItem> {
    let mut spare = sum(&chosen).minus(excess);
    chosen.sort_by_key(|item| (Reverse(item.cost), item.tie));
    chosen.retain(|item| {
        let needed =
            (0..LANES).any(|lane| excess.0[lane] > 0 && spare.0[lane] < item.amount.0[lane]);
        if !needed {
            spare = spare.minus(&item.amount);
        }
        needed
    });
    chosen
}

/// Exchanges the least useful chosen slices for cheaper ones: branch and bound over a few
/// slices.
fn search(items: &[CoverItem], mut chosen: Vec<CoverItem>, excess: &Amount) -> Vec<CoverItem> {
    let rating = |item: &CoverItem| relief(&item.amount, excess, excess) / item.cost.max(1) as f64;
    let by_rating = |one: &CoverItem, two: &CoverItem| {
        let order = rating(two).total_cmp(&rating(one));
        order.then(one.tie.cmp(&two.tie))
    };
    chosen.sort_by(by_rating);
    let few = items.len() <= CORE;
    let kept = if few {
        0
    } else {
        chosen.len().saturating_sub(LOOSE)
    };
    let loose = chosen.split_off(kept);
    let left = excess.minus(&sum(&chosen)).above(&Amount::default());
    if left.is_zero() {
        chosen.extend(loose);
        return chosen;
    }
    let taken: std::collections::HashSet<u32> =
        chosen.iter().chain(&loose).map(|item| item.slice).collect();
    let mut others: Vec<CoverItem> = items
        .iter()
        .filter(|item| !taken.contains(&item.slice) && rating(item) > 0.0)
        .copied()
        .collect();
    let room = CORE.saturating_sub(loose.len());
    if others.len() > room && room > 0 {
        others.select_nth_unstable_by(room - 1, by_rating);
        others.truncate(room);
    }
    let mut core = loose.clone();
    core.extend(others);
    // The bound is valid only if the core is sorted by relief of the remaining excess.
    let rating = |item: &CoverItem| relief(&item.amount, &left, &left) / item.cost.max(1) as f64;
    core.sort_by(|one, two| {
        let order = rating(two).total_cmp(&rating(one));
        order.then(one.tie.cmp(&two.tie))
    });
    chosen.extend(Search::run(&core, loose, &left));
    chosen
}

struct Search<'a> {
    core: &'a [CoverItem],
    whole: Amount,
    /// The total relief of all items from an index on.
    rest: Vec<Amount>,
    taken: Vec<usize>,
    best: Vec<usize>,
    best_cost: u64,
    nodes: u32,
}

impl<'a> Search<'a> {
    fn run(core: &'a [CoverItem], start: Vec<CoverItem>, left: &Amount) -> Vec<CoverItem> {
        let mut rest = vec![Amount::default(); core.len() + 1];
        for at in (0..core.len()).rev() {
            rest[at] = rest[at + 1].plus(&core[at].amount);
        }
        let start_cost = start.iter().map(|item| item.cost).sum();
        let mut search = Search {
            core,
            whole: *left,
            rest,
            taken: Vec::new(),
            best: Vec::new(),
            best_cost: start_cost,
            nodes: 0,
        };
        search.visit(0, *left, 0);
        if search.best_cost < start_cost {
            search.best.iter().map(|at| core[*at]).collect()
        } else {
            start
        }
    }

    fn visit(&mut self, at: usize, left: Amount, cost: u64) {
        if left.is_zero() {
            if cost < self.best_cost {
                self.best_cost = cost;
                self.best = self.taken.clone();
            }
            return;
        }
        self.nodes += 1;
        let hopeless = !left.within(&self.rest[at]);
        if self.nodes > NODES_MAX
            || hopeless
            || self.bound(at, &left, cost) >= self.best_cost as f64
        {
            return;
        }
        let item = &self.core[at];
        self.taken.push(at);
        let after = left.minus(&item.amount).above(&Amount::default());
        self.visit(at + 1, after, cost + item.cost);
        self.taken.pop();
        self.visit(at + 1, left, cost);
    }

    /// A lower bound of the cost of any set from here on: the fractional relaxation with all
    /// lanes summed.
    fn bound(&self, at: usize, left: &Amount, cost: u64) -> f64 {
        let mut need = relief(left, left, &self.whole);
        let mut sum = cost as f64;
        for item in &self.core[at..] {
            // Rated against the whole, as in the order of the items.
            let gives = relief(&item.amount, &self.whole, &self.whole);
            if gives >= need {
                return sum + item.cost as f64 * need / gives;
            }
            need -= gives;
            sum += item.cost as f64;
        }
        sum
    }
}

fn sum(items: &[CoverItem]) -> Amount {
    items
        .iter()
        .fold(Amount::default(), |sum, item| sum.plus(&item.amount))
}

/// A lower bound of the cost of any set: the maximum of the fractional relaxations per lane
/// and of all lanes summed.
pub(super) fn at_least(items: &[CoverItem], excess: &Amount) -> f64 {
    let lanes = (0..LANES).filter(|lane| excess.0[*lane] > 0);
    let alone = lanes.clone().map(|lane| {
        let gives = |item: &CoverItem| item.amount.0[lane] as f64 / excess.0[lane] as f64;
        in_part(items, gives, 1.0)
    });
    let together = |item: &CoverItem| relief(&item.amount, excess, excess);
    let all = in_part(items, together, lanes.clone().count() as f64);
    alone.fold(all, f64::max)
}

/// The cost of the cheapest slices that give what is needed, the last one fractionally.
fn in_part(items: &[CoverItem], gives: impl Fn(&CoverItem) -> f64, mut needed: f64) -> f64 {
    let mut priced: Vec<(f64, f64, u64)> = items
        .iter()
        .map(|item| (gives(item), item.cost))
        .filter(|(gives, _)| *gives > 0.0)
        .map(|(gives, cost)| (cost as f64 / gives, gives, cost))
        .collect();
    priced.sort_by(|one, two| one.0.total_cmp(&two.0));
    let mut sum = 0.0;
    for (price, gives, cost) in priced {
        if gives >= needed {
            return sum + price * needed;
        }
        needed -= gives;
        sum += cost as f64;
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items(list: &[(i64, i64, u64)]) -> Vec<CoverItem> {
        list.iter()
            .zip(0..)
            .map(|((votes, storage, cost), slice)| CoverItem {
                slice,
                amount: Amount([*votes, 0, 0, *storage, 0, 1]),
                cost: *cost,
                tie: u64::from(slice),
            })
            .collect()
    }

    fn cost(set: &[CoverItem]) -> u64 {
        set.iter().map(|item| item.cost).sum()
    }

    /// Every set there is.
    fn cheapest(items: &[CoverItem], excess: &Amount) -> Option<u64> {
        (0u32..1 << items.len())
            .filter_map(|mask| {
                let set: Vec<CoverItem> = (0..items.len())
                    .filter(|at| mask >> at & 1 == 1)
                    .map(|at| items[at])
                    .collect();
                excess.within(&sum(&set)).then(|| cost(&set))
            })
            .min()
    }

    #[test]
    fn one_big_slice_beats_many_small_ones_when_it_is_cheaper() {
        let all = items(&[(10, 0, 1), (10, 0, 1), (10, 0, 1), (100, 0, 2)]);
        let excess = Amount([25, 0, 0, 0, 0, 0]);
        assert_eq!(cost(&cover(&all, &excess).unwrap()), 2);
        let too_much = Amount([131, 0, 0, 0, 0, 0]);
        assert!(cover(&all, &too_much).is_none());
    }

    proptest! {
        /// With few slices the set is the cheapest there is; it always covers,
        /// and never costs less than the bound.
        #[test]
        fn few_slices_are_covered_at_the_lowest_cost(
            list in prop::collection::vec((0i64..50, 0i64..50, 1u64..100), 1..11),
            votes in 0i64..120,
            storage in 0i64..120,
        ) {
            let all = items(&list);
            let excess = Amount([votes, 0, 0, storage, 0, 0]);
            let found = cover(&all, &excess);
            prop_assert_eq!(found.as_ref().map(|set| cost(set)), cheapest(&all, &excess));
            if let Some(set) = found {
                prop_assert!(excess.within(&sum(&set)));
                prop_assert!(at_least(&all, &excess) <= cost(&set) as f64 + 1e-6);
            }
        }

        /// With many it covers, and is near the bound: within the dearest
        /// slice of it, in one dimension.
        #[test]
        fn many_slices_are_covered_near_the_bound(
            list in prop::collection::vec((1i64..1_000, 1u64..1_000), 100..400),
        ) {
            let list: Vec<_> = list.into_iter().map(|(votes, cost)| (votes, 0, cost)).collect();
            let all = items(&list);
            let excess = Amount([sum(&all).0[0] / 5, 0, 0, 0, 0, 0]);
            let set = cover(&all, &excess).unwrap();
            let dearest = list.iter().map(|item| item.2).max().unwrap();
            prop_assert!(excess.within(&sum(&set)));
            prop_assert!(cost(&set) as f64 <= at_least(&all, &excess) + dearest as f64);
        }
    }
}
