//! Estimated cost of a migration, from the slice's size and past migrations.

use std::collections::BTreeMap;

use ballast_domain::Result;
use ballast_domain::migration::{Migration, MigrationEstimate, MigrationStatus, status_term};
use ballast_domain::registry::{RecordKind, RecordQuery, slices_tally};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Error, ShardId};
use ballast_vote_shard::ShardError;

use super::migration_backends;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Number of past migrations to average over.
const PAST_MIGRATIONS_MAX: u32 = 50;
/// Defaults while there are no past migrations.
const BYTES_PER_ROW: u64 = 120;
const ROWS_PER_SECOND: u64 = 100_000;
const PAUSE_MS: u64 = 20;
/// Fixed duration of a migration, in addition to its rows.
const BASE_DURATION_MS: u64 = 200;

/// Size of a slice's archive files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ArchivedSize {
    rows: u64,
    bytes: u64,
}

/// Averages over past migrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PastMigrations {
    moves: u64,
    bytes_per_row: u64,
    rows_per_second: u64,
    pause_ms: u64,
}

impl PastMigrations {
    /// Computes the averages from completed migrations. Pure.
    pub(super) fn from_migrations(past: &[Migration]) -> Self {
        let (mut rows, mut bytes, mut ms, mut pauses) = (0_u64, 0_u64, 0_u64, Vec::new());
        for figures in past.iter().map(|migration| &migration.figures) {
            rows += figures.rows;
            bytes += figures.bytes;
            if let (Some(from), Some(until)) = (figures.copying_since, figures.cut_over_at) {
                ms += u64::try_from(until.unix_ms() - from.unix_ms()).unwrap_or(0);
            }
            pauses.extend(figures.pause_ms);
        }
        pauses.sort_unstable();
        // A rate over few rows means little.
        let telling = rows >= 1_000;
        Self {
            moves: past.len() as u64,
            bytes_per_row: match telling {
                true => bytes / rows,
                false => BYTES_PER_ROW,
            },
            rows_per_second: match telling && ms > 0 {
                true => (rows.saturating_mul(1_000) / ms).max(1),
                false => ROWS_PER_SECOND,
            },
            pause_ms: pauses.get(pauses.len() / 2).copied().unwrap_or(PAUSE_MS),
        }
    }

    /// The cost of moving this many polls, rows and files, with an optional limit in
    /// bytes per second.
    fn price(
        self,
        polls: u64,
        rows: u64,
        files: ArchivedSize,
        neighbours: u64,
        limit: Option<u64>,
    ) -> MigrationEstimate {
        let bytes = rows.saturating_mul(self.bytes_per_row) + files.bytes;
        let rows = rows + files.rows;
        let by_limit = match limit {
            Some(limit) if limit > 0 => bytes.saturating_mul(1_000) / limit,
            _ => 0,
        };
        let usual = rows.saturating_mul(1_000) / self.rows_per_second;
        MigrationEstimate {
            polls,
            rows,
            bytes,
            duration_ms: BASE_DURATION_MS + usual.max(by_limit),
            pause_ms: self.pause_ms,
            from_moves: self.moves,
            neighbours,
        }
    }
}

/// Estimates the cost of migrations from past ones.
pub(crate) struct PriceEstimator {
    experience: PastMigrations,
    slices: BTreeMap<String, u64>,
}

impl PriceEstimator {
    /// Reads past migrations and the slice count of every shard.
    pub(crate) async fn new(plane: &ControlPlane) -> Result<Self> {
        let query = RecordQuery {
            terms: vec![status_term(MigrationStatus::Completed)],
            descending: true,
            ..RecordQuery::all(RecordKind::Migration, PAST_MIGRATIONS_MAX)
        };
        let past = typed::list::<Migration>(plane.registry(), &query).await?;
        let past: Vec<_> = past.into_iter().map(|past| past.value).collect();
        let registry = plane.registry();
        Ok(Self {
            experience: PastMigrations::from_migrations(&past),
            slices: registry
                .tallies(RecordKind::Tenant, &slices_tally(""))
                .await?,
        })
    }

    /// Estimates the cost of moving a slice.
    pub(crate) async fn price(
        &self,
        plane: &ControlPlane,
        slice: &SliceId,
        from: &ShardId,
        to: &ShardId,
    ) -> Result<MigrationEstimate> {
        let source = migration_backends(plane)?
            .shards
            .shard(from)
            .map_err(Error::from)?;
        let digests = match source.digests(slice).await {
            Ok(digests) => digests,
            // The slice has no votes yet.
            Err(ShardError::SliceState(_)) => Vec::new(),
            Err(other) => return Err(other.into()),
        };
        let rows: u64 = digests.iter().map(|(_, digest)| digest.rows).sum();
        let polls = digests.len() as u64;
        let on = |shard: &ShardId| {
            let tally = slices_tally(shard.as_str());
            self.slices.get(&tally).copied().unwrap_or(0)
        };
        let neighbours = (on(from) + on(to)).saturating_sub(1);
        // Each poll has one row of its own.
        let rows = rows.saturating_sub(polls);
        let mut files = ArchivedSize::default();
        for row in source.archives(slice).await.map_err(Error::from)? {
            if let Some(archived) = &row.archived {
                files.rows += archived.file.digest.rows;
                files.bytes += archived.file.bytes;
            }
        }
        let limit = plane.settings().moves.bytes_per_second;
        let price = self.experience.price(polls, rows, files, neighbours, limit);
        Ok(price)
    }
}

/// Estimates the cost of moving a slice.
pub async fn price(
    plane: &ControlPlane,
    slice: &SliceId,
    from: &ShardId,
    to: &ShardId,
) -> Result<MigrationEstimate> {
    let pricer = PriceEstimator::new(plane).await?;
    pricer.price(plane, slice, from, to).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_includes_the_bandwidth_limit() {
        let lasts = |limit| {
            let untrained = PastMigrations::from_migrations(&[]);
            untrained
                .price(1, 10_000, ArchivedSize::default(), 0, limit)
                .duration_ms
                - BASE_DURATION_MS
        };
        let usual = 10_000 * 1_000 / ROWS_PER_SECOND;
        assert_eq!(
            [lasts(None), lasts(Some(0)), lasts(Some(u64::MAX))],
            [usual; 3]
        );
        assert_eq!(lasts(Some(BYTES_PER_ROW * 1_000)), 10_000);
    }
}
