//! The load of a generated tenant at a moment.

use std::f64::consts::TAU;

use ballast_domain::clock::Timestamp;

use super::chance;
use super::{FleetShape, Generator};
use crate::resources::Resources;

const HOUR_MS: i64 = 3_600_000;
const DAY_HOURS: f64 = 24.0;
const YEAR_HOURS: f64 = 24.0 * 365.0;
/// Load is lower at weekends.
const WEEKEND: f64 = 0.6;

/// The load of the average tenant on an average day.
const MEAN: Resources = Resources {
    votes: 20.0,
    queries: 40.0,
    bytes: 20_000.0,
    storage: 200_000_000.0,
    concurrency: 2.0,
};

/// The mean load per tenant. The shares by rank are normalised, so the mean does not depend on
/// the skew.
pub(super) fn mean(shape: &FleetShape) -> Resources {
    let days = (0..7).map(|day| if day % 7 < 5 { 1.0 } else { WEEKEND });
    let week = days.sum::<f64>() / 7.0;
    let crowds = 1.0 + shape.crowds * (shape.crowd_factor - 1.0);
    let busy = week * crowds;
    Resources {
        storage: MEAN.storage,
        ..MEAN.times(busy)
    }
}

/// The share of the first tenant by rank, such that all shares add up to the number of tenants.
pub(super) fn top(shape: &FleetShape) -> f64 {
    let tenants = shape.tenants.max(1);
    // The exact sum for the first terms, then the integral.
    let exact = tenants.min(10_000);
    let mut sum: f64 = (1..=exact)
        .map(|rank| (rank as f64).powf(-shape.skew))
        .sum();
    if tenants > exact {
        let (from, until) = (exact as f64 + 0.5, tenants as f64 + 0.5);
        sum += if (shape.skew - 1.0).abs() < 1e-9 {
            (until / from).ln()
        } else {
            let power = 1.0 - shape.skew;
            (until.powf(power) - from.powf(power)) / power
        };
    }
    tenants as f64 / sum
}

impl Generator {
    /// The load of the n-th tenant at a moment.
    #[must_use]
    pub fn load(&self, n: u64, at: Timestamp) -> Resources {
        let shape = &self.shape;
        let hours = (at.unix_ms() - shape.start.unix_ms()) as f64 / HOUR_MS as f64;
        let share = self.share(n);
        // Tenants differ in their mix of votes, queries and storage.
        let taste = |what: u64| 0.5 + self.chance.share(chance::MIX, n * 8 + what);
        let busy = share * self.day(n, hours) * self.crowd(n, hours);
        let noise = 0.95 + 0.1 * self.chance.share(chance::NOISE, n ^ (hours as u64) << 32);
        let grown = (1.0 + shape.growth).powf(hours / YEAR_HOURS);
        Resources {
            votes: MEAN.votes * busy * noise * taste(0),
            queries: MEAN.queries * busy * noise * taste(1),
            bytes: MEAN.bytes * busy * noise * taste(2),
            storage: MEAN.storage * share * grown * taste(3),
            concurrency: MEAN.concurrency * busy * noise * taste(4),
        }
    }

    /// The load share by rank, with a mean of 1. Each tenant draws its rank independently, which
    /// approximates a permutation without a list.
    fn share(&self, n: u64) -> f64 {
        let tenants = self.shape.tenants.max(1);
        let rank = (self.chance.share(chance::RANK, n) * tenants as f64).floor() + 1.0;
        self.top * rank.powf(-self.shape.skew)
    }

    /// The daily and weekly season. Tenants have different phases, like different time zones.
    fn day(&self, n: u64, hours: f64) -> f64 {
        let phase = 4.0 * self.chance.share(chance::PHASE, n);
        let wave = 1.0 - self.shape.swing * (TAU * (hours - phase) / DAY_HOURS).cos();
        // The start is a Sunday.
        let day = (hours / DAY_HOURS).floor().rem_euclid(7.0);
        let weekend = !(1.0..6.0).contains(&day);
        wave * if weekend { WEEKEND } else { 1.0 }
    }

    fn crowd(&self, n: u64, hours: f64) -> f64 {
        let hour = hours.floor().max(0.0) as u64;
        let drawn = self
            .chance
            .share(chance::HOUR, n.wrapping_mul(1_000_003) ^ hour << 40);
        if drawn < self.shape.crowds {
            self.shape.crowd_factor
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(shape: FleetShape) -> Generator {
        Generator::new(shape).unwrap()
    }

    fn at(shape: &FleetShape, hours: i64) -> Timestamp {
        shape.start.plus_seconds(hours * 3_600)
    }

    #[test]
    fn a_seed_determines_the_fleet() {
        let shape = FleetShape {
            regions: 3,
            zones: 2,
            zoned: 0.3,
            permitted: 0.3,
            ..FleetShape::default()
        };
        let moment = at(&shape, 50);
        let fleet = generator(shape.clone()).fleet(moment);
        assert_eq!(fleet, generator(shape.clone()).fleet(moment));
        let other = FleetShape { seed: 2, ..shape };
        assert_ne!(fleet.slices, generator(other).fleet(moment).slices);
        assert_eq!(fleet.slices.len(), 1_000);
    }

    #[test]
    fn the_mean_load_over_a_week_matches_the_shape() {
        let shape = FleetShape {
            tenants: 20_000,
            ..FleetShape::default()
        };
        let made = generator(shape.clone());
        let mut votes = 0.0;
        for hour in 0..7 * 24 {
            votes += (0..2_000)
                .map(|n| made.load(n, at(&shape, hour)).votes)
                .sum::<f64>();
        }
        let mean = votes / 2_000.0 / (7.0 * 24.0);
        let expected = mean_votes(&shape);
        assert!((mean / expected - 1.0).abs() < 0.25, "{mean} of {expected}");
    }

    fn mean_votes(shape: &FleetShape) -> f64 {
        mean(shape).votes
    }

    #[test]
    fn load_has_seasons_crowds_and_growth() {
        let shape = FleetShape {
            crowds: 0.01,
            ..FleetShape::default()
        };
        let made = generator(shape.clone());
        let votes = |hour| made.load(7, at(&shape, hour)).votes;
        // Wednesday noon compared with Wednesday midnight and with Sunday noon.
        assert!(votes(3 * 24 + 14) > 1.5 * votes(3 * 24 + 2));
        assert!(votes(3 * 24 + 14) > 1.3 * votes(14));
        let hours = 0..1_000;
        let crowded = hours
            .filter(|hour| made.crowd(7, *hour as f64) > 1.0)
            .count();
        assert!((1..40).contains(&crowded), "{crowded} of about 10");
        let storage = |hour| made.load(7, at(&shape, hour)).storage;
        let grown = storage(365 * 24) / storage(0);
        assert!((grown - 1.5).abs() < 1e-9, "{grown}");
    }

    #[test]
    fn a_random_spread_obeys_the_rules_too() {
        let shape = FleetShape {
            regions: 3,
            zones: 2,
            zoned: 0.5,
            shards: 17,
            spread: super::super::SliceSpread::AtRandom,
            ..FleetShape::default()
        };
        let fleet = generator(shape.clone()).fleet(shape.start);
        let shards: std::collections::BTreeMap<_, _> = fleet
            .shards
            .iter()
            .map(|shard| (shard.id(), shard))
            .collect();
        for slice in &fleet.slices {
            let shard = shards[&slice.shard_id];
            assert_eq!(shard.record.region, slice.home_region);
            assert!(
                slice
                    .zones
                    .iter()
                    .all(|zone| shard.record.zones.contains(zone))
            );
        }
    }
}
