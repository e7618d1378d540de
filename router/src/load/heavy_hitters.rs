//! Heavy hitters in bounded memory: the Space-Saving algorithm. Light names are
//! evicted in batches, so that no request has to search for the lightest one.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use quick_cache::DefaultHashBuilder;

/// Names that remain after an eviction. The next eviction starts at twice as many,
/// which bounds the Space-Saving error.
const RETAINED: usize = 1_024;

/// The counts of a name.
pub trait HitWeight: Copy + Default {
    /// The count by which names are ranked.
    fn weight(&self) -> u64;
    /// Adds more counts.
    fn add(&mut self, more: &Self);
    /// The initial counts of a name that may have had this weight before it was
    /// tracked.
    fn floor(weight: u64) -> Self;
}

impl HitWeight for u64 {
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

/// Counts by name. The weight of a tracked name is its true weight, or up to
/// [`SpaceSavingCounts::floor`] more. A name that is not tracked has at most that weight.
#[derive(Debug, Clone)]
pub struct SpaceSavingCounts<K, W = u64> {
    counts: HashMap<K, W, DefaultHashBuilder>,
    floor: u64,
}

impl<K, W> Default for SpaceSavingCounts<K, W> {
    fn default() -> Self {
        Self {
            counts: HashMap::default(),
            floor: 0,
        }
    }
}

impl<K: Eq + Hash + Ord + Clone, W: HitWeight> SpaceSavingCounts<K, W> {
    /// Counts a name.
    pub fn add(&mut self, name: &K, more: &W) {
        self.add_or_insert(name, more, || name.clone());
    }

    /// Counts a name that is identified by a part of it. The whole name is needed
    /// only when it is new.
    pub fn add_or_insert<Q>(&mut self, part: &Q, more: &W, whole: impl FnOnce() -> K)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(weight) = self.counts.get_mut(part) {
            weight.add(more);
            return;
        }
        let mut weight = W::floor(self.floor);
        weight.add(more);
        self.counts.insert(whole(), weight);
        if self.counts.len() > 2 * RETAINED {
            self.evict_lightest();
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: Self) {
        let floor = self.floor.saturating_add(other.floor);
        for (name, weight) in &other.counts {
            self.add(name, weight);
        }
        self.floor = self.floor.max(floor);
    }

    /// The highest weight that an untracked name can have.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The heaviest names in descending order; equal ones by name.
    pub fn top(&self, most: usize) -> Vec<(K, W)> {
        let mut all: Vec<_> = self
            .counts
            .iter()
            .map(|(name, w)| (name.clone(), *w))
            .collect();
        all.sort_by(|(a, one), (b, two)| two.weight().cmp(&one.weight()).then_with(|| a.cmp(b)));
        all.truncate(most);
        all
    }

    fn evict_lightest(&mut self) {
        let mut weights: Vec<u64> = self.counts.values().map(HitWeight::weight).collect();
        let at = weights.len() - RETAINED;
        let (_, least, _) = weights.select_nth_unstable(at);
        let least = *least;
        // Many names may have the lowest weight: all of them are evicted.
        self.counts.retain(|_, weight| weight.weight() > least);
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
        let mut busiest: SpaceSavingCounts<u64> = SpaceSavingCounts::default();
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
        assert!(busiest.top(usize::MAX).len() <= 2 * RETAINED);
        assert!(busiest.floor() < 1_000, "{}", busiest.floor());
    }

    #[test]
    fn merged_they_are_counted_as_one() {
        let (mut one, mut two) = (SpaceSavingCounts::default(), SpaceSavingCounts::default());
        one.add(&"a", &3_u64);
        two.add(&"a", &4);
        two.add(&"b", &5);
        one.merge(two);
        assert_eq!(one.top(9), [("a", 7), ("b", 5)]);
    }
}
