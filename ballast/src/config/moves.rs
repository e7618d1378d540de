//! `[moves]`: migrations of slices between shards.

use std::time::Duration;

use ballast_control_plane::migrations::MigrationSettings;
use ballast_domain::maintenance::{BadWindow, MaintenanceWindow};
use ballast_migration_engine::budget::ServiceBudget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HumanDuration;

/// Migrations of slices between shards. A new migration takes the current terms; the limits apply
/// to running ones too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Moves {
    /// How long both shards keep the data after a cutover, in which the migration can be reversed.
    /// `--window` overrides it.
    pub(crate) window: HumanDuration,
    /// Maximum write pause at a cutover: the cutover waits until the expected pause is short
    /// enough. `--max-pause` overrides it.
    pub(crate) max_pause: Option<HumanDuration>,
    /// How long a slice may be sealed before it accepts votes again, whether or not the migration
    /// succeeds.
    pub(crate) seal_max: HumanDuration,
    /// Maximum number of migrations that copy from or to one shard at the same time.
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) per_shard_max: u64,
    /// Maximum number of migrations that copy from or to one region at the same time.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) per_region_max: u64,
    /// Maximum number of migrations of the whole fleet that copy or are in their window at the same
    /// time. A migration in its window does not count for the two limits above. Each takes one of
    /// `workflows.tasks_max`.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) windows_max: u64,
    /// Maximum bytes per second that one migration copies.
    #[schemars(range(min = 1_024))]
    pub(crate) bytes_per_second: Option<u64>,
    /// Closed polls with fewer rows than this are copied row by row when their slice moves, instead
    /// of being archived.
    #[schemars(range(min = 1))]
    pub(crate) archive_rows_min: u64,
    /// A migration of a slice with more rows than this needs approval (`ballast migration
    /// approve`).
    pub(crate) approval_above_rows: Option<u64>,
    /// When migrations may start to copy, in UTC: `daily 01:00-05:00`, `Sun 02:00-04:00`, `Mon-Fri
    /// 22:00-06:00`; at any time if the list is empty.
    pub(crate) maintenance: Vec<String>,
    /// In the window: if more than this percentage of the tenant's calls fail at the target
    /// repeatedly, the migration is reversed; 0 for never.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub(crate) reverse_failed_percent: f64,
    /// In the window: if the p99 latency of the tenant's calls at the target exceeds this
    /// repeatedly, and did not before, the migration is reversed; 0s for never.
    pub(crate) reverse_latency: HumanDuration,
    /// In a synchronous window (`--window sync`): if the target has been unreachable for this long,
    /// the migration is reversed without it, which loses no acknowledged vote; 0s for never.
    pub(crate) reverse_away: HumanDuration,
}

impl Default for Moves {
    fn default() -> Self {
        let set = MigrationSettings::default();
        let human = |ms| HumanDuration(Duration::from_millis(ms));
        Self {
            window: human(set.window_ms),
            max_pause: set.max_pause_ms.map(human),
            seal_max: human(set.seal_max_ms),
            per_shard_max: set.per_shard_max,
            per_region_max: set.per_region_max,
            windows_max: set.windows_max,
            bytes_per_second: set.bytes_per_second,
            archive_rows_min: set.archive_rows_min,
            approval_above_rows: set.approval_above_rows,
            maintenance: Vec::new(),
            reverse_failed_percent: set.budget.failed_share.unwrap_or(0.0) * 100.0,
            reverse_latency: human(set.budget.p99_ms.unwrap_or(0)),
            reverse_away: human(set.budget.away_ms.unwrap_or(0)),
        }
    }
}

fn ms(human: HumanDuration) -> u64 {
    u64::try_from(human.0.as_millis()).unwrap_or(u64::MAX)
}

impl Moves {
    /// Converts to the control plane's settings.
    pub(crate) fn settings(&self) -> MigrationSettings {
        MigrationSettings {
            window_ms: ms(self.window),
            max_pause_ms: self.max_pause.map(ms),
            seal_max_ms: ms(self.seal_max),
            per_shard_max: self.per_shard_max,
            per_region_max: self.per_region_max,
            windows_max: self.windows_max,
            bytes_per_second: self.bytes_per_second,
            archive_rows_min: self.archive_rows_min,
            approval_above_rows: self.approval_above_rows,
            // Invalid windows were refused when the file was read.
            maintenance: self.windows().unwrap_or_default(),
            budget: ServiceBudget {
                failed_share: Some(self.reverse_failed_percent / 100.0)
                    .filter(|share| *share > 0.0),
                p99_ms: Some(ms(self.reverse_latency)).filter(|ms| *ms > 0),
                away_ms: Some(ms(self.reverse_away)).filter(|ms| *ms > 0),
            },
        }
    }

    fn windows(&self) -> Result<Vec<MaintenanceWindow>, BadWindow> {
        self.maintenance.iter().map(|text| text.parse()).collect()
    }

    /// The first invalid value, with its key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let must = |key, holds: bool, message: &str| match holds {
            true => Ok(()),
            false => Err((key, message.to_owned())),
        };
        let longest = Duration::from_secs(10);
        let seal = self.seal_max.0;
        must(
            "moves.window",
            self.window.0 <= days(30),
            "must be at most 30 days",
        )?;
        must(
            "moves.max_pause",
            self.max_pause
                .is_none_or(|most| (Duration::from_millis(1)..=days(1) / 24).contains(&most.0)),
            "must be from 1ms to 1h",
        )?;
        // Requests are not held for longer either.
        must(
            "moves.seal_max",
            (Duration::from_millis(100)..=longest).contains(&seal),
            "must be from 100ms to 10s",
        )?;
        must(
            "moves.per_shard_max",
            (1..=1_000).contains(&self.per_shard_max),
            "must be from 1 to 1000",
        )?;
        must(
            "moves.per_region_max",
            (1..=10_000).contains(&self.per_region_max),
            "must be from 1 to 10000",
        )?;
        must(
            "moves.windows_max",
            (1..=100_000).contains(&self.windows_max),
            "must be from 1 to 100000",
        )?;
        must(
            "moves.bytes_per_second",
            self.bytes_per_second.is_none_or(|rate| rate >= 1_024),
            "must be at least 1024",
        )?;
        must(
            "moves.archive_rows_min",
            self.archive_rows_min >= 1,
            "must be at least 1",
        )?;
        must(
            "moves.reverse_failed_percent",
            (0.0..=100.0).contains(&self.reverse_failed_percent),
            "must be from 0 to 100",
        )?;
        must(
            "moves.reverse_away",
            self.reverse_away.0 <= days(1),
            "must be at most 1 day",
        )?;
        let windows = self.windows().map(drop);
        windows.map_err(|bad| ("moves.maintenance", bad.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The block in the operators' guide is what it says it is: the defaults. Settings without
    /// a default are commented out.
    #[test]
    fn the_documented_defaults_are_the_defaults() {
        #[derive(Deserialize)]
        struct File {
            moves: Moves,
        }
        let guide = include_str!("../../../docs/operating.md");
        let block = guide.split("```toml\n[moves]\n").nth(1).unwrap();
        let block = format!("[moves]\n{}", block.split("```").next().unwrap());
        let read: File = toml::from_str(&block).unwrap();
        assert_eq!(read.moves, Moves::default());
        let all = block.replace("\n# ", "\n");
        let all: File = toml::from_str(&all).unwrap();
        let all = serde_json::to_value(all.moves).unwrap();
        for (key, value) in all.as_object().unwrap() {
            assert!(
                block.contains(&format!("{key} = ")),
                "{key} is not in the block"
            );
            assert!(!value.is_null(), "{key} has no example");
        }
    }
}
