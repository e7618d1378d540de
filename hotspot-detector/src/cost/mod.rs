//! Each tenant's daily usage and its cost according to a price list.
//!
//! ```text
//!   samples ─► ledger (day, tenant ─► usage) ─► rows ─► JSON, CSV
//! ```
//! Days are UTC. A sample that crosses midnight is divided between the days by
//! time, so the days add up to the samples.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use ballast_domain::clock::Timestamp;
use ballast_domain::id::TenantId;

const DAY_MS: i64 = 86_400_000;
const GIB: f64 = (1u64 << 30) as f64;
/// A month of the price list has 30 days.
const MONTH_HOURS: f64 = 30.0 * 24.0;

/// A tenant's usage over a time span.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageSample {
    /// Which tenant.
    pub tenant_id: TenantId,
    /// The start.
    pub from: Timestamp,
    /// The end.
    pub until: Timestamp,
    /// Votes in it.
    pub votes: f64,
    /// Queries in it.
    pub queries: f64,
    /// Bytes stored during the span.
    pub bytes_stored: f64,
    /// Bytes copied by migrations in it.
    pub bytes_moved: f64,
}

/// A tenant's usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantUsage {
    /// Votes.
    pub votes: f64,
    /// Queries.
    pub queries: f64,
    /// Bytes stored times hours.
    pub byte_hours: f64,
    /// Bytes copied by migrations.
    pub bytes_moved: f64,
}

/// The price list, in one currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PriceList {
    /// For a million votes.
    pub per_million_votes: f64,
    /// For a million queries.
    pub per_million_queries: f64,
    /// For a GiB stored over a month of 30 days.
    pub per_gib_month: f64,
    /// For a GiB copied by migrations.
    pub per_gib_moved: f64,
}

impl PriceList {
    /// The cost of a usage.
    #[must_use]
    pub fn cost(&self, usage: &TenantUsage) -> f64 {
        usage.votes / 1e6 * self.per_million_votes
            + usage.queries / 1e6 * self.per_million_queries
            + usage.byte_hours / GIB / MONTH_HOURS * self.per_gib_month
            + usage.bytes_moved / GIB * self.per_gib_moved
    }
}

/// A day, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct Day(i64);

impl Day {
    /// The day that contains a moment.
    #[must_use]
    pub fn containing(moment: Timestamp) -> Self {
        Self(moment.unix_ms().div_euclid(DAY_MS))
    }

    fn begins(self) -> i64 {
        self.0.saturating_mul(DAY_MS)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let midnight = Timestamp::from_unix_ms(self.begins()).to_string();
        f.write_str(midnight.split('T').next().unwrap_or_default())
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}

/// The daily usage of all tenants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageLedger {
    days: BTreeMap<(Day, TenantId), TenantUsage>,
}

/// One tenant's usage and cost on one day.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The day.
    pub day: Day,
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Its usage.
    #[serde(flatten)]
    pub usage: TenantUsage,
    /// Its cost.
    pub cost: f64,
}

impl UsageLedger {
    /// Adds a sample. Samples with an empty span or invalid numbers are ignored.
    pub fn add(&mut self, sample: &UsageSample) {
        let (from, until) = (sample.from.unix_ms(), sample.until.unix_ms());
        let amounts = [
            sample.votes,
            sample.queries,
            sample.bytes_stored,
            sample.bytes_moved,
        ];
        let sound = amounts
            .iter()
            .all(|amount| amount.is_finite() && *amount >= 0.0);
        if until <= from || !sound {
            return;
        }
        let whole = (until - from) as f64;
        let last = Day::containing(Timestamp::from_unix_ms(until - 1));
        for day in Day::containing(sample.from).0..=last.0 {
            let day = Day(day);
            let part = until.min(day.begins() + DAY_MS) - from.max(day.begins());
            let (share, hours) = (part as f64 / whole, part as f64 / 3_600_000.0);
            let key = (day, sample.tenant_id.clone());
            let usage = self.days.entry(key).or_default();
            usage.votes += sample.votes * share;
            usage.queries += sample.queries * share;
            usage.byte_hours += sample.bytes_stored * hours;
            usage.bytes_moved += sample.bytes_moved * share;
        }
    }

    /// Drops the days before `day`.
    pub fn forget_before(&mut self, day: Day) {
        self.days.retain(|(recorded, _), _| *recorded >= day);
    }

    /// The rows, by day and tenant.
    pub fn rows<'a>(&'a self, prices: &'a PriceList) -> impl Iterator<Item = UsageRow> + 'a {
        self.days.iter().map(|((day, tenant_id), usage)| UsageRow {
            day: *day,
            tenant_id: tenant_id.clone(),
            usage: *usage,
            cost: prices.cost(usage),
        })
    }

    /// Each tenant's total usage.
    #[must_use]
    pub fn by_tenant(&self) -> BTreeMap<&TenantId, TenantUsage> {
        let mut sums: BTreeMap<&TenantId, TenantUsage> = BTreeMap::new();
        for ((_, tenant), usage) in &self.days {
            let sum = sums.entry(tenant).or_default();
            sum.votes += usage.votes;
            sum.queries += usage.queries;
            sum.byte_hours += usage.byte_hours;
            sum.bytes_moved += usage.bytes_moved;
        }
        sums
    }
}

/// The first line of the CSV.
pub const CSV_HEADER: &str = "day,tenantID,votes,queries,gibHours,gibMoved,cost";

impl UsageRow {
    /// The row as a line of CSV. Days and ids need no quotes.
    #[must_use]
    pub fn csv(&self) -> String {
        let usage = &self.usage;
        format!(
            "{},{},{:.0},{:.0},{:.6},{:.6},{:.6}",
            self.day,
            self.tenant_id,
            usage.votes,
            usage.queries,
            usage.byte_hours / GIB,
            usage.bytes_moved / GIB,
            self.cost
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(from_ms: i64, until_ms: i64) -> UsageSample {
        UsageSample {
            tenant_id: "acme".parse().unwrap(),
            from: Timestamp::from_unix_ms(from_ms),
            until: Timestamp::from_unix_ms(until_ms),
            votes: 1_000.0,
            queries: 500.0,
            bytes_stored: GIB,
            bytes_moved: GIB,
        }
    }

    const PRICES: PriceList = PriceList {
        per_million_votes: 1_000.0,
        per_million_queries: 2_000.0,
        per_gib_month: 720.0,
        per_gib_moved: 5.0,
    };

    #[test]
    fn midnight_divides_a_sample() {
        // Two hours before midnight, one after.
        let midnight: Timestamp = "2026-11-17T00:00:00Z".parse().unwrap();
        let hour = 3_600_000;
        let mut ledger = UsageLedger::default();
        ledger.add(&sample(
            midnight.unix_ms() - 2 * hour,
            midnight.unix_ms() + hour,
        ));
        let csv: Vec<String> = ledger.rows(&PRICES).map(|row| row.csv()).collect();
        assert_eq!(
            csv,
            [
                "2026-11-16,acme,667,333,2.000000,0.666667,6.666667",
                "2026-11-17,acme,333,167,1.000000,0.333333,3.333333",
            ]
        );
        let rows: Vec<UsageRow> = ledger.rows(&PRICES).collect();
        let json = serde_json::to_value(&rows[1]).unwrap();
        assert_eq!(json["day"], "2026-11-17");
        assert_eq!(json["tenantID"], "acme");
        assert_eq!(json["byteHours"], GIB);
        assert_eq!(CSV_HEADER.split(',').count(), csv[0].split(',').count());
        ledger.forget_before(Day::containing(midnight));
        assert_eq!(ledger.rows(&PRICES).count(), 1);
    }

    #[test]
    fn invalid_samples_are_ignored() {
        let mut ledger = UsageLedger::default();
        ledger.add(&sample(5, 5));
        ledger.add(&sample(6, 5));
        ledger.add(&UsageSample {
            votes: f64::NAN,
            ..sample(0, 5)
        });
        ledger.add(&UsageSample {
            bytes_moved: -1.0,
            ..sample(0, 5)
        });
        assert_eq!(ledger, UsageLedger::default());
    }

    proptest! {
        /// However samples are cut, the days add up to them.
        #[test]
        fn days_add_up_to_the_samples(
            cuts in prop::collection::btree_set(0i64..20 * DAY_MS, 2..20),
        ) {
            let cuts: Vec<i64> = cuts.into_iter().collect();
            let mut ledger = UsageLedger::default();
            for pair in cuts.windows(2) {
                ledger.add(&sample(pair[0], pair[1]));
            }
            let sums = ledger.by_tenant();
            let usage = sums.values().next().unwrap();
            let samples = (cuts.len() - 1) as f64;
            let hours = (cuts[cuts.len() - 1] - cuts[0]) as f64 / 3_600_000.0;
            prop_assert!((usage.votes - 1_000.0 * samples).abs() < 1e-6);
            prop_assert!((usage.bytes_moved / GIB - samples).abs() < 1e-6);
            prop_assert!((usage.byte_hours / GIB - hours).abs() < 1e-6);
            let cost: f64 = ledger.rows(&PRICES).map(|row| row.cost).sum();
            prop_assert!((cost - PRICES.cost(usage)).abs() < 1e-6);
        }
    }
}
