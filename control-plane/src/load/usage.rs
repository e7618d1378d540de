//! What each tenant used, day by day, and what that costs by the price list.

use std::collections::HashMap;
use std::sync::Arc;

use ballast_domain::migration::Migration;
use ballast_domain::registry::{Kind, RecordQuery};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Result, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::cost::{self, CSV_HEADER, Ledger, PriceList, Row};
use ballast_hotspot_detector::load::Sample;
use serde::Serialize;
use serde_json::Value;

use super::history::Stretch;
use super::{cut_short, load, unreadable};
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Moves read at a time.
const PAGE: u32 = 1_000;
/// Rows that are told, at the most.
pub const ROWS_MAX: usize = 100_000;

/// What tenants used.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageBody {
    /// A row for each tenant and day (UTC) on which it used anything: `day`,
    /// `tenantID`, `votes`, `queries`, `byteHours`, `bytesMoved`, `cost`.
    #[schema(value_type = Vec<Object>)]
    pub rows: Vec<Row>,
    /// Whether there are more than are told.
    pub more: bool,
    /// The price list that the cost goes by.
    #[schema(value_type = Object)]
    pub prices: Value,
}

/// What tenants used in a stretch of time.
pub async fn show(
    plane: &ControlPlane,
    stretch: Stretch,
    tenant: Option<TenantId>,
) -> Result<UsageBody> {
    let prices = plane.settings().load.prices;
    let ledger = ledger(plane, stretch, tenant).await?;
    let mut rows: Vec<Row> = ledger.rows(&prices).take(ROWS_MAX + 1).collect();
    let more = rows.len() > ROWS_MAX;
    rows.truncate(ROWS_MAX);
    Ok(UsageBody {
        rows,
        more,
        prices: serde_json::to_value(prices).unwrap_or_default(),
    })
}

/// The same as CSV.
pub async fn csv(
    plane: &ControlPlane,
    stretch: Stretch,
    tenant: Option<TenantId>,
) -> Result<String> {
    let prices: PriceList = plane.settings().load.prices;
    let ledger = ledger(plane, stretch, tenant).await?;
    let lines = ledger.rows(&prices).map(|row| row.csv());
    let lines = std::iter::once(CSV_HEADER.to_owned()).chain(lines);
    Ok(lines.map(|line| line + "\n").collect())
}

async fn ledger(
    plane: &ControlPlane,
    stretch: Stretch,
    tenant: Option<TenantId>,
) -> Result<Ledger> {
    let load = load(plane)?;
    let moved = moved(plane, stretch, tenant.as_ref()).await?;
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut book = Bookkeeper {
            ledger: Ledger::default(),
            stored: HashMap::new(),
            tenant,
            until: stretch.from,
        };
        files.read(stretch.from, stretch.to, |sample| book.take(&sample))?;
        let mut ledger = book.finish();
        moved.iter().for_each(|sample| ledger.add(sample));
        Ok(ledger)
    });
    read.await.map_err(|_| cut_short())?.map_err(unreadable)
}

/// Adds samples up.
struct Bookkeeper {
    ledger: Ledger,
    /// What each slice stores on a shard, and since when.
    stored: HashMap<(ShardId, SliceId), (f64, Timestamp)>,
    tenant: Option<TenantId>,
    until: Timestamp,
}

impl Bookkeeper {
    fn take(&mut self, sample: &Sample) {
        let (from, until) = (sample.interval.start, sample.interval.end());
        self.until = until;
        for shard in &sample.shards {
            for slice in &shard.slices {
                let tenant = &slice.slice.tenant_id;
                if self.tenant.as_ref().is_some_and(|wanted| wanted != tenant) {
                    continue;
                }
                if !slice.flow.is_idle() {
                    self.ledger.add(&cost::Sample {
                        tenant_id: tenant.clone(),
                        from,
                        until,
                        votes: slice.flow.votes,
                        queries: slice.flow.queries,
                        bytes_stored: 0.0,
                        bytes_moved: 0.0,
                    });
                }
                if let Some(bytes) = slice.storage {
                    let place = (shard.shard.clone(), slice.slice.clone());
                    let before = self.stored.insert(place, (bytes, until));
                    self.store(tenant, before, until);
                }
            }
        }
    }

    /// What was stored up to a moment.
    fn store(&mut self, tenant: &TenantId, before: Option<(f64, Timestamp)>, until: Timestamp) {
        if let Some((bytes_stored, from)) = before {
            self.ledger.add(&cost::Sample {
                tenant_id: tenant.clone(),
                from,
                until,
                votes: 0.0,
                queries: 0.0,
                bytes_stored,
                bytes_moved: 0.0,
            });
        }
    }

    fn finish(mut self) -> Ledger {
        let until = self.until;
        for ((_, slice), known) in std::mem::take(&mut self.stored) {
            self.store(&slice.tenant_id, Some(known), until);
        }
        self.ledger
    }
}

/// What moves that ended in a stretch of time have copied.
async fn moved(
    plane: &ControlPlane,
    stretch: Stretch,
    tenant: Option<&TenantId>,
) -> Result<Vec<cost::Sample>> {
    let mut samples = Vec::new();
    let mut after = None;
    loop {
        let query = RecordQuery {
            after: after.take(),
            descending: true,
            ..RecordQuery::all(Kind::Migration, PAGE)
        };
        let page = typed::list::<Migration>(plane.registry(), &query).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.value.migration_id.to_string());
        // Names sort by when they were given.
        let is_past = last.value.requested_at.plus_seconds(60 * 86_400) < stretch.from;
        for migration in page.into_iter().map(|found| found.value) {
            let Some(ended) = &migration.ended else {
                continue;
            };
            let wanted = tenant.is_none_or(|wanted| *wanted == migration.tenant_id);
            if wanted && ended.at >= stretch.from && ended.at < stretch.to {
                samples.push(cost::Sample {
                    tenant_id: migration.tenant_id.clone(),
                    from: Timestamp::from_unix_ms(ended.at.unix_ms() - 1),
                    until: ended.at,
                    votes: 0.0,
                    queries: 0.0,
                    bytes_stored: 0.0,
                    bytes_moved: migration.figures.bytes as f64,
                });
            }
        }
        if is_past {
            break;
        }
    }
    Ok(samples)
}
