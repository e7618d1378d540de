//! Loads and capacities in every dimension that can run out.

use std::ops::{Add, AddAssign, Index, IndexMut, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A dimension of load and capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Dimension {
    /// Votes per second.
    Votes,
    /// Queries per second.
    Queries,
    /// Bytes per second, in and out.
    Bytes,
    /// Bytes stored.
    Storage,
    /// Concurrent calls.
    Concurrency,
}

impl Dimension {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [
        Self::Votes,
        Self::Queries,
        Self::Bytes,
        Self::Storage,
        Self::Concurrency,
    ];

    /// Its name, as in its JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Votes => "votes",
            Self::Queries => "queries",
            Self::Bytes => "bytes",
            Self::Storage => "storage",
            Self::Concurrency => "concurrency",
        }
    }
}

/// An amount in every dimension: a load or a capacity.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resources {
    /// Votes per second.
    pub votes: f64,
    /// Queries per second.
    pub queries: f64,
    /// Bytes per second.
    pub bytes: f64,
    /// Bytes stored.
    pub storage: f64,
    /// Concurrent calls.
    pub concurrency: f64,
}

impl Resources {
    /// The share of a capacity that this load uses, in its fullest dimension. Dimensions with
    /// a capacity of 0 have no limit and are ignored.
    #[must_use]
    pub fn fill(&self, capacity: &Self) -> (Dimension, f64) {
        let shares = Dimension::ALL.map(|dimension| {
            let most = capacity[dimension];
            let share = if most > 0.0 {
                self[dimension] / most
            } else {
                0.0
            };
            (dimension, share)
        });
        let mut fullest = shares[0];
        for share in shares {
            if share.1 > fullest.1 {
                fullest = share;
            }
        }
        fullest
    }

    /// This amount multiplied by a factor.
    #[must_use]
    pub fn times(mut self, factor: f64) -> Self {
        for dimension in Dimension::ALL {
            self[dimension] *= factor;
        }
        self
    }
}

impl Index<Dimension> for Resources {
    type Output = f64;
    fn index(&self, dimension: Dimension) -> &f64 {
        match dimension {
            Dimension::Votes => &self.votes,
            Dimension::Queries => &self.queries,
            Dimension::Bytes => &self.bytes,
            Dimension::Storage => &self.storage,
            Dimension::Concurrency => &self.concurrency,
        }
    }
}

impl IndexMut<Dimension> for Resources {
    fn index_mut(&mut self, dimension: Dimension) -> &mut f64 {
        match dimension {
            Dimension::Votes => &mut self.votes,
            Dimension::Queries => &mut self.queries,
            Dimension::Bytes => &mut self.bytes,
            Dimension::Storage => &mut self.storage,
            Dimension::Concurrency => &mut self.concurrency,
        }
    }
}

impl AddAssign for Resources {
    fn add_assign(&mut self, other: Self) {
        for dimension in Dimension::ALL {
            self[dimension] += other[dimension];
        }
    }
}

impl SubAssign for Resources {
    fn sub_assign(&mut self, other: Self) {
        for dimension in Dimension::ALL {
            self[dimension] -= other[dimension];
        }
    }
}

impl Add for Resources {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Resources {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self -= other;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_reports_the_fullest_dimension_and_ignores_unlimited_ones() {
        let capacity = Resources {
            votes: 100.0,
            storage: 1_000.0,
            ..Resources::default()
        };
        let used = Resources {
            votes: 50.0,
            storage: 900.0,
            queries: 1e9,
            ..Resources::default()
        };
        let (dimension, share) = used.fill(&capacity);
        assert_eq!(dimension, Dimension::Storage);
        assert!((share - 0.9).abs() < 1e-9);
        let half = used.times(0.5);
        let (_, share) = (used - half + Resources::default()).fill(&capacity);
        assert!((share - 0.45).abs() < 1e-9);
    }
}
