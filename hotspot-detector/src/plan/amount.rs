//! Amounts in integer units. Integer sums do not depend on the order of addition, so a plan
//! does not depend on the order of the fleet's lists, and planning again sees exactly the
//! loads that the first plan computed.

use crate::resources::{Dimension, Resources};

/// The dimensions, and the number of slices.
pub(super) const LANES: usize = Dimension::ALL.len() + 1;
/// The lane that counts slices.
pub(super) const COUNT: usize = LANES - 1;

/// An amount in every lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amount(pub(super) [i64; LANES]);

/// Rates and calls are counted in millionths, bytes individually.
fn unit(dimension: Dimension) -> f64 {
    match dimension {
        Dimension::Votes | Dimension::Queries | Dimension::Concurrency => 1e6,
        Dimension::Bytes | Dimension::Storage => 1.0,
    }
}

impl Amount {
    /// The amount of one slice. NaN and negative values count as 0.
    pub(super) fn from_slice(demand: &Resources) -> Self {
        let mut amount = Self::from_resources(demand);
        amount.0[COUNT] = 1;
        amount
    }

    pub(super) fn from_resources(resources: &Resources) -> Self {
        let mut lanes = [0; LANES];
        for (lane, dimension) in lanes.iter_mut().zip(Dimension::ALL) {
            // The cast saturates and turns NaN into 0.
            *lane = ((resources[dimension] * unit(dimension)).round() as i64).max(0);
        }
        Self(lanes)
    }

    /// The allowed share of a capacity; a dimension without capacity has no limit.
    pub(super) fn ceiling(capacity: &Resources, share: f64, slices_max: u64) -> Self {
        let mut lanes = [i64::MAX; LANES];
        for (lane, dimension) in lanes.iter_mut().zip(Dimension::ALL) {
            if capacity[dimension] > 0.0 {
                *lane = ((capacity[dimension] * share.max(0.0) * unit(dimension)).floor()) as i64;
            }
        }
        lanes[COUNT] = i64::try_from(slices_max).unwrap_or(i64::MAX);
        Self(lanes)
    }

    pub(super) fn resources(&self) -> Resources {
        let mut resources = Resources::default();
        for (lane, dimension) in self.0.iter().zip(Dimension::ALL) {
            resources[dimension] = *lane as f64 / unit(dimension);
        }
        resources
    }

    pub(super) fn plus(mut self, other: &Self) -> Self {
        for (lane, more) in self.0.iter_mut().zip(other.0) {
            *lane = lane.saturating_add(more);
        }
        self
    }

    pub(super) fn minus(mut self, other: &Self) -> Self {
        for (lane, less) in self.0.iter_mut().zip(other.0) {
            *lane = lane.saturating_sub(less);
        }
        self
    }

    /// Whether this plus `more` stays within a ceiling in every lane.
    #[inline]
    pub(super) fn fits(&self, more: &Self, ceiling: &Self) -> bool {
        (0..LANES).all(|lane| self.0[lane].saturating_add(more.0[lane]) <= ceiling.0[lane])
    }

    pub(super) fn within(&self, ceiling: &Self) -> bool {
        self.fits(&Self::default(), ceiling)
    }

    /// The excess above a ceiling, per lane.
    pub(super) fn above(&self, ceiling: &Self) -> Self {
        let mut lanes = [0; LANES];
        for (lane, over) in lanes.iter_mut().enumerate() {
            *over = self.0[lane].saturating_sub(ceiling.0[lane]).max(0);
        }
        Self(lanes)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0 == [0; LANES]
    }

    /// The largest share of a ceiling, over all lanes that have one.
    pub(super) fn share_of(&self, ceiling: &Self) -> f64 {
        let mut most: f64 = 0.0;
        for lane in 0..LANES {
            if ceiling.0[lane] > 0 && ceiling.0[lane] < i64::MAX {
                most = most.max(self.0[lane] as f64 / ceiling.0[lane] as f64);
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_count_as_zero_and_no_capacity_means_no_limit() {
        let odd = Resources {
            votes: f64::NAN,
            queries: -3.0,
            storage: 10.0,
            ..Resources::default()
        };
        let amount = Amount::from_slice(&odd);
        assert_eq!(amount.0, [0, 0, 0, 10, 0, 1]);
        let none = Amount::ceiling(&Resources::default(), 0.8, 2);
        assert!(amount.within(&none));
        assert!(amount.fits(&amount, &none));
        assert!(!amount.plus(&amount).fits(&amount, &none), "a third slice");
        assert!((amount.share_of(&none) - 0.5).abs() < 1e-9);
    }
}
