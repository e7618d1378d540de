//! The busiest of very many, in bounded memory: Space-Saving, cleared out in
//! batches, so that a request never has to look for the least of all.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use quick_cache::DefaultHashBuilder;

/// Names that are kept, twice: when there are more, half of them go.
const KEPT: usize = 1_024;

/// What is counted of a name.
pub trait Weight: Copy + Default {
    /// How much it is.
    fn weight(&self) -> u64;
    /// Adds to it.
    fn add(&mut self, more: &Self);
    /// What a name begins with that may have had so much before it was kept.
    fn floor(weight: u64) -> Self;
}

impl Weight for u64 {
    fn weight(&self) -> u64 {
        *self
    }
    fn add(&mut self, more: &Self) {
        *self += more;
    }
    fn floor(weight: u64) -> Self {
        weight
    }
}

/// How often names were seen. A name that is kept has its true weight or up to
/// [`Busiest::floor`] more; one that is not kept has no more than that.
#[derive(Debug, Clone)]
pub struct Busiest<K, W = u64> {
    kept: HashMap<K, W, DefaultHashBuilder>,
    floor: u64,
}

impl<K, W> Default for Busiest<K, W> {
    fn default() -> Self {
        Self {
            kept: HashMap::default(),
            floor: 0,
        }
    }
}

impl<K: Eq + Hash + Ord + Clone, W: Weight> Busiest<K, W> {
    /// Counts a name.
    pub fn add(&mut self, name: &K, more: &W) {
        self.add_known(name, more, || name.clone());
    }

    /// Counts a name by a part of it that says which it is; the whole is needed
    /// only when it is new.
    pub fn add_known<Q>(&mut self, part: &Q, more: &W, whole: impl FnOnce() -> K)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(weight) = self.kept.get_mut(part) {
            weight.add(more);
            return;
        }
        let mut weight = W::floor(self.floor);
        weight.add(more);
        self.kept.insert(whole(), weight);
        if self.kept.len() > 2 * KEPT {
            self.clear_out();
        }
    }

    /// Takes in what another has counted.
    pub fn merge(&mut self, other: Self) {
        let floor = self.floor.saturating_add(other.floor);
        for (name, weight) in &other.kept {
            self.add(name, weight);
        }
        self.floor = self.floor.max(floor);
    }

    /// What a name that is not kept weighs at the most.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The busiest names, the busiest first; equal ones by name.
    pub fn top(&self, most: usize) -> Vec<(K, W)> {
        let mut all: Vec<_> = self
            .kept
            .iter()
            .map(|(name, w)| (name.clone(), *w))
            .collect();
        all.sort_by(|(a, one), (b, two)| two.weight().cmp(&one.weight()).then_with(|| a.cmp(b)));
        all.truncate(most);
        all
    }

    fn clear_out(&mut self) {
        let mut weights: Vec<u64> = self.kept.values().map(Weight::weight).collect();
        let at = weights.len() - KEPT;
        let (_, least, _) = weights.select_nth_unstable(at);
        let least = *least;
        // Those that weigh as much as the least may be very many: all go.
        self.kept.retain(|_, weight| weight.weight() > least);
        self.floor = self.floor.max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic, and unlike any order of names.
    fn names(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40)
    }

    #[test]
    fn the_busy_are_found_among_very_many_and_counted_within_the_floor() {
        let mut busiest: Busiest<u64> = Busiest::default();
        for (turn, name) in names(200_000).enumerate() {
            busiest.add(&(name + 10), &1);
            if turn % 50 == 0 {
                busiest.add(&1, &1);
            }
            if turn % 100 == 0 {
                busiest.add(&2, &1);
            }
        }
        let top = busiest.top(2);
        assert_eq!(
            top.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            [1, 2]
        );
        for ((_, counted), truly) in top.iter().zip([4_000, 2_000]) {
            assert!(*counted >= truly && *counted <= truly + busiest.floor());
        }
        assert!(busiest.top(usize::MAX).len() <= 2 * KEPT);
        assert!(busiest.floor() < 1_000, "{}", busiest.floor());
    }

    #[test]
    fn merged_they_are_counted_as_one() {
        let (mut one, mut two) = (Busiest::default(), Busiest::default());
        one.add(&"a", &3_u64);
        two.add(&"a", &4);
        two.add(&"b", &5);
        one.merge(two);
        assert_eq!(one.top(9), [("a", 7), ("b", 5)]);
    }
}
