//! Heavy hitters in bounded memory: the Space-Saving sketch (Metwally, Agrawal and El
//! Abbadi, 2005) with exponential decay.
//!
//! For every name `count - error <= true weight <= count`, and a name that weighs more than
//! `total / capacity` is always in the sketch. Merging (Agarwal and others, 2012) and decay
//! preserve both properties.

use std::collections::BTreeMap;

/// The weights of the heaviest names.
#[derive(Debug, Clone, PartialEq)]
pub struct HeavyHitters<K: Ord> {
    capacity: usize,
    total: f64,
    names: BTreeMap<K, HitCount>,
}

/// The estimated weight of one name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HitCount {
    /// Its estimated weight, too high by at most `error`.
    pub count: f64,
    /// The maximum overestimate.
    pub error: f64,
}

impl HitCount {
    /// The lower bound of its weight.
    #[must_use]
    pub fn certain(&self) -> f64 {
        (self.count - self.error).max(0.0)
    }
}

impl<K: Ord + Clone> HeavyHitters<K> {
    /// A sketch of at most `capacity` names, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            total: 0.0,
            names: BTreeMap::new(),
        }
    }

    /// Adds weight to a name. NaN and weights of 0 or less are ignored.
    pub fn add(&mut self, name: K, weight: f64) {
        if weight.is_nan() || weight <= 0.0 {
            return;
        }
        self.total += weight;
        if let Some(hit) = self.names.get_mut(&name) {
            hit.count += weight;
            return;
        }
        let error = if self.names.len() < self.capacity {
            0.0
        } else {
            self.evict_least()
        };
        let count = error + weight;
        self.names.insert(name, HitCount { count, error });
    }

    /// Multiplies all weights by a factor: `0.5` after each half-life.
    pub fn decay(&mut self, factor: f64) {
        let factor = factor.clamp(0.0, 1.0);
        self.total *= factor;
        for hit in self.names.values_mut() {
            hit.count *= factor;
            hit.error *= factor;
        }
        // Negligible weights are dropped.
        let total = self.total;
        self.names
            .retain(|_, hit| hit.count > total * 1e-12 && hit.count > 1e-9);
    }

    /// Merges another sketch.
    pub fn merge(&mut self, other: &Self) {
        let (ours, theirs) = (self.floor(), other.floor());
        for (name, hit) in &mut self.names {
            match other.names.get(name) {
                Some(more) => {
                    hit.count += more.count;
                    hit.error += more.error;
                }
                None => {
                    hit.count += theirs;
                    hit.error += theirs;
                }
            }
        }
        for (name, hit) in &other.names {
            self.names.entry(name.clone()).or_insert(HitCount {
                count: hit.count + ours,
                error: hit.error + ours,
            });
        }
        self.total += other.total;
        while self.names.len() > self.capacity {
            self.evict_least();
        }
    }

    /// The maximum weight of a name that is not in the sketch.
    #[must_use]
    pub fn floor(&self) -> f64 {
        if self.names.len() < self.capacity {
            return 0.0;
        }
        let counts = self.names.values().map(|hit| hit.count);
        counts.fold(f64::INFINITY, f64::min)
    }

    fn evict_least(&mut self) -> f64 {
        let least = self
            .names
            .iter()
            .min_by(|a, b| a.1.count.total_cmp(&b.1.count));
        let Some((name, count)) = least.map(|(name, hit)| (name.clone(), hit.count)) else {
            return 0.0;
        };
        self.names.remove(&name);
        count
    }

    /// The total weight, after decay.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The heaviest names, heaviest first; ties by name.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<(&K, HitCount)> {
        let mut all: Vec<_> = self.names.iter().map(|(name, hit)| (name, *hit)).collect();
        all.sort_by(|a, b| b.1.count.total_cmp(&a.1.count).then_with(|| a.0.cmp(b.0)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 8;

    /// An operation on a sketch.
    #[derive(Debug, Clone)]
    enum Step {
        Add(u16, u32),
        Decay(f64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let add = (any::<u8>(), 1..100_u32).prop_map(|(name, weight)| {
            // Few names are frequent, many are rare.
            Step::Add(
                (name.leading_zeros() * 32) as u16 + u16::from(name % 32),
                weight,
            )
        });
        let decay = (0.1..1.0).prop_map(Step::Decay);
        proptest::collection::vec(prop_oneof![20 => add, 1 => decay], 0..400)
    }

    fn run(steps: &[Step]) -> (HeavyHitters<u16>, BTreeMap<u16, f64>) {
        let mut hitters = HeavyHitters::new(CAPACITY);
        let mut exact: BTreeMap<u16, f64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add(name, weight) => {
                    hitters.add(*name, f64::from(*weight));
                    *exact.entry(*name).or_default() += f64::from(*weight);
                }
                Step::Decay(factor) => {
                    hitters.decay(*factor);
                    exact.values_mut().for_each(|weight| *weight *= factor);
                }
            }
        }
        (hitters, exact)
    }

    fn assert_bounds(hitters: &HeavyHitters<u16>, exact: &BTreeMap<u16, f64>) {
        let total: f64 = exact.values().sum();
        let slack = 1e-6 * total.max(1.0);
        assert!((hitters.total() - total).abs() <= slack);
        let top = hitters.top(usize::MAX);
        assert!(top.len() <= CAPACITY);
        for (name, hit) in &top {
            let weight = exact.get(name).copied().unwrap_or_default();
            assert!(weight <= hit.count + slack, "{name}: {weight}, {hit:?}");
            assert!(hit.certain() <= weight + slack, "{name}: {weight}, {hit:?}");
            assert!(
                hit.error <= total / CAPACITY as f64 + slack,
                "{hit:?} of {total}"
            );
        }
        for (name, weight) in exact {
            let is_heavy = *weight > total / CAPACITY as f64 + slack;
            let is_kept = top.iter().any(|(kept, _)| *kept == name);
            assert!(
                !is_heavy || is_kept,
                "{name} weighs {weight} of {total} and is gone"
            );
        }
    }

    proptest! {
        #[test]
        fn a_count_is_wrong_by_no_more_than_its_error(steps in steps()) {
            let (hitters, exact) = run(&steps);
            assert_bounds(&hitters, &exact);
        }

        #[test]
        fn merging_keeps_the_bounds(a in steps(), b in steps()) {
            let (mut hitters, mut exact) = run(&a);
            let (other, more) = run(&b);
            hitters.merge(&other);
            for (name, weight) in more {
                *exact.entry(name).or_default() += weight;
            }
            assert_bounds(&hitters, &exact);
        }
    }

    #[test]
    fn old_weights_decay_and_are_dropped() {
        let mut hitters = HeavyHitters::new(4);
        hitters.add("yesterday", 1_000.0);
        for _ in 0..60 {
            hitters.decay(0.5);
            hitters.add("today", 10.0);
        }
        let top = hitters.top(4);
        assert_eq!(top.len(), 1);
        assert_eq!(*top[0].0, "today");
    }

    #[test]
    fn weights_of_zero_or_less_are_ignored() {
        let mut hitters = HeavyHitters::new(4);
        for weight in [0.0, -1.0, f64::NAN] {
            hitters.add("a", weight);
        }
        assert_eq!((hitters.total(), hitters.top(4).len()), (0.0, 0));
    }
}
