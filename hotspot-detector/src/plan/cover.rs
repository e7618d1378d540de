//! Which slices leave a shard: the cheapest set of them that takes away all
//! that is too much, in every dimension at once.
//!
//! ```text
//!   greedy by relief per byte ─► leave out what is not needed ─► search around it
//! ```
//! The problem is a covering knapsack in several dimensions, so the last word
//! costs more than it is worth: the search looks at a bounded number of sets
//! around the greedy one, and at all of them when there are few slices. How far
//! from the best that is shows in [`at_least`], which no set can beat.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::amount::{Amount, LANES};

/// How many slices are looked at one by one.
const CORE: usize = 28;
/// Of the greedy set, how many are up for exchange.
const LOOSE: usize = 10;
/// How many sets are looked at.
const NODES_MAX: u32 = 1_500;

/// A slice that may leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) slice: u32,
    pub(super) amount: Amount,
    pub(super) cost: u64,
    /// Breaks ties by the slice's name, not by the order of listing.
    pub(super) tie: u64,
}

/// The cheapest set found that takes away `excess`; `None` when all of them
/// together do not.
pub(super) fn cover(items: &[Item], excess: &Amount) -> Option<Vec<Item>> {
    let chosen = cover_roughly(items, excess)?;
    Some(search(items, chosen, excess))
}

/// A cheap set that takes away `excess`, without searching for a cheaper one.
pub(super) fn cover_roughly(items: &[Item], excess: &Amount) -> Option<Vec<Item>> {
    Some(without_needless(greedy(items, excess)?, excess))
}

/// Whether all of them together take `excess` away.
pub(super) fn can_cover(items: &[Item], excess: &Amount) -> bool {
    excess.within(&sum(items))
}

/// How much of what is too much a slice takes away, each lane counting as one.
fn relief(amount: &Amount, left: &Amount, whole: &Amount) -> f64 {
    let mut sum = 0.0;
    for lane in 0..LANES {
        if left.0[lane] > 0 {
            sum += amount.0[lane].min(left.0[lane]) as f64 / whole.0[lane] as f64;
        }
    }
    sum
}

struct Rated {
    ratio: f64,
    tie: u64,
    at: usize,
}

impl PartialEq for Rated {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Rated {}
impl PartialOrd for Rated {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Rated {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.ratio
            .total_cmp(&other.ratio)
            .then(other.tie.cmp(&self.tie))
            .then(other.at.cmp(&self.at))
    }
}

/// The most relief per byte first. What a slice relieves only falls as others
/// are taken, so a rating that is still the highest when made anew is right.
fn greedy(items: &[Item], excess: &Amount) -> Option<Vec<Item>> {
    let rate = |at: usize, left: &Amount| {
        let item = &items[at];
        let ratio = relief(&item.amount, left, excess) / item.cost.max(1) as f64;
        Rated {
            ratio,
            tie: item.tie,
            at,
        }
    };
    let mut left = *excess;
    let mut heap: BinaryHeap<Rated> = (0..items.len())
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

/// Leaves out, the costliest first, what the rest does not need.
fn without_needless(mut chosen: Vec<Item>, excess: &Amount) -> Vec<Item> {
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

/// Exchanges the least useful of the chosen for others, as far as that is
/// cheaper: branch and bound over a few slices.
fn search(items: &[Item], mut chosen: Vec<Item>, excess: &Amount) -> Vec<Item> {
    let rating = |item: &Item| relief(&item.amount, excess, excess) / item.cost.max(1) as f64;
    let by_rating = |one: &Item, two: &Item| {
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
    let mut others: Vec<Item> = items
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
    // The bound is right only in the order of what is gained of the rest.
    let rating = |item: &Item| relief(&item.amount, &left, &left) / item.cost.max(1) as f64;
    core.sort_by(|one, two| {
        let order = rating(two).total_cmp(&rating(one));
        order.then(one.tie.cmp(&two.tie))
    });
    chosen.extend(Search::run(&core, loose, &left));
    chosen
}

struct Search<'a> {
    core: &'a [Item],
    whole: Amount,
    /// What all from here on take away together.
    rest: Vec<Amount>,
    taken: Vec<usize>,
    best: Vec<usize>,
    best_cost: u64,
    nodes: u32,
}

impl<'a> Search<'a> {
    fn run(core: &'a [Item], start: Vec<Item>, left: &Amount) -> Vec<Item> {
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

    /// What any set from here on costs at least: as if the last of them could
    /// be taken in part, all lanes added up.
    fn bound(&self, at: usize, left: &Amount, cost: u64) -> f64 {
        let mut need = relief(left, left, &self.whole);
        let mut sum = cost as f64;
        for item in &self.core[at..] {
            // Rated against the whole, as the order is.
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

fn sum(items: &[Item]) -> Amount {
    items
        .iter()
        .fold(Amount::default(), |sum, item| sum.plus(&item.amount))
}

/// What any set costs at least: in each lane, and in all lanes added up, as if
/// the last slice could be taken in part. The dearest of these counts.
pub(super) fn at_least(items: &[Item], excess: &Amount) -> f64 {
    let lanes = (0..LANES).filter(|lane| excess.0[*lane] > 0);
    let alone = lanes.clone().map(|lane| {
        let gives = |item: &Item| item.amount.0[lane] as f64 / excess.0[lane] as f64;
        in_part(items, gives, 1.0)
    });
    let together = |item: &Item| relief(&item.amount, excess, excess);
    let all = in_part(items, together, lanes.clone().count() as f64);
    alone.fold(all, f64::max)
}

/// The cost of the cheapest slices that give as much as is needed, the last one
/// in part.
fn in_part(items: &[Item], gives: impl Fn(&Item) -> f64, mut needed: f64) -> f64 {
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

    fn items(list: &[(i64, i64, u64)]) -> Vec<Item> {
        list.iter()
            .zip(0..)
            .map(|((votes, storage, cost), slice)| Item {
                slice,
                amount: Amount([*votes, 0, 0, *storage, 0, 1]),
                cost: *cost,
                tie: u64::from(slice),
            })
            .collect()
    }

    fn cost(set: &[Item]) -> u64 {
        set.iter().map(|item| item.cost).sum()
    }

    /// Every set there is.
    fn cheapest(items: &[Item], excess: &Amount) -> Option<u64> {
        (0u32..1 << items.len())
            .filter_map(|mask| {
                let set: Vec<Item> = (0..items.len())
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
