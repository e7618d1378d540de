//! What a move would cost, from what is there and from past moves.

use std::collections::BTreeMap;

use ballast_domain::Result;
use ballast_domain::migration::{Migration, Price, Status, ended_so};
use ballast_domain::registry::{Kind, RecordQuery, slices_on};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Error, ShardId};
use ballast_vote_shard::ShardError;

use super::movers;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Past moves that are looked at.
const PAST: u32 = 50;
/// What is expected of a new installation.
const BYTES_PER_ROW: u64 = 120;
const ROWS_PER_SECOND: u64 = 100_000;
const PAUSE_MS: u64 = 20;
/// What every move takes besides its rows.
const AT_LEAST_MS: u64 = 200;

/// What a slice has in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Files {
    rows: u64,
    bytes: u64,
}

/// What is known of past moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Experience {
    moves: u64,
    bytes_per_row: u64,
    rows_per_second: u64,
    pause_ms: u64,
}

impl Experience {
    /// Out of moves that were completed: pure.
    pub(super) fn of(past: &[Migration]) -> Self {
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
        // Few rows say little about a rate.
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

    /// What it costs to carry so many polls and rows, and files, with so many bytes
    /// per second at the most.
    fn price(
        self,
        polls: u64,
        rows: u64,
        files: Files,
        neighbours: u64,
        limit: Option<u64>,
    ) -> Price {
        let bytes = rows.saturating_mul(self.bytes_per_row) + files.bytes;
        let rows = rows + files.rows;
        let by_limit = match limit {
            Some(limit) if limit > 0 => bytes.saturating_mul(1_000) / limit,
            _ => 0,
        };
        let usual = rows.saturating_mul(1_000) / self.rows_per_second;
        Price {
            polls,
            rows,
            bytes,
            duration_ms: AT_LEAST_MS + usual.max(by_limit),
            pause_ms: self.pause_ms,
            from_moves: self.moves,
            neighbours,
        }
    }
}

/// Reckons what moves would cost, from what was learnt so far.
pub(crate) struct Pricer {
    experience: Experience,
    slices: BTreeMap<String, u64>,
}

impl Pricer {
    /// One who knows the past moves and how many slices are where.
    pub(crate) async fn new(plane: &ControlPlane) -> Result<Self> {
        let query = RecordQuery {
            terms: vec![ended_so(Status::Completed)],
            descending: true,
            ..RecordQuery::all(Kind::Migration, PAST)
        };
        let past = typed::list::<Migration>(plane.registry(), &query).await?;
        let past: Vec<_> = past.into_iter().map(|past| past.value).collect();
        let registry = plane.registry();
        Ok(Self {
            experience: Experience::of(&past),
            slices: registry.tallies(Kind::Tenant, &slices_on("")).await?,
        })
    }

    /// What a move of a slice would cost.
    pub(crate) async fn price(
        &self,
        plane: &ControlPlane,
        slice: &SliceId,
        from: &ShardId,
        to: &ShardId,
    ) -> Result<Price> {
        let source = movers(plane)?.shards.shard(from).map_err(Error::from)?;
        let digests = match source.digests(slice).await {
            Ok(digests) => digests,
            // Nobody has voted yet.
            Err(ShardError::Unfit(_)) => Vec::new(),
            Err(other) => return Err(other.into()),
        };
        let rows: u64 = digests.iter().map(|(_, digest)| digest.rows).sum();
        let polls = digests.len() as u64;
        let on = |shard: &ShardId| {
            let tally = slices_on(shard.as_str());
            self.slices.get(&tally).copied().unwrap_or(0)
        };
        let neighbours = (on(from) + on(to)).saturating_sub(1);
        // A poll has a row of its own.
        let rows = rows.saturating_sub(polls);
        let mut files = Files::default();
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

/// What a move of a slice would cost.
pub async fn price(
    plane: &ControlPlane,
    slice: &SliceId,
    from: &ShardId,
    to: &ShardId,
) -> Result<Price> {
    let pricer = Pricer::new(plane).await?;
    pricer.price(plane, slice, from, to).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_bytes_is_reckoned_with() {
        let lasts = |limit| {
            let nobody = Experience::of(&[]);
            nobody
                .price(1, 10_000, Files::default(), 0, limit)
                .duration_ms
                - AT_LEAST_MS
        };
        let usual = 10_000 * 1_000 / ROWS_PER_SECOND;
        assert_eq!(
            [lasts(None), lasts(Some(0)), lasts(Some(u64::MAX))],
            [usual; 3]
        );
        assert_eq!(lasts(Some(BYTES_PER_ROW * 1_000)), 10_000);
    }
}
