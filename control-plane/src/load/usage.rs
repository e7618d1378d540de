//! Daily use per tenant, and its cost by the price list.

use std::collections::HashMap;
use std::sync::Arc;

use ballast_domain::migration::Migration;
use ballast_domain::registry::{RecordKind, RecordQuery};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Result, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::cost::{self, CSV_HEADER, PriceList, UsageLedger, UsageRow};
use ballast_hotspot_detector::load::LoadSample;
use serde::Serialize;
use serde_json::Value;

use super::history::TimeRange;
use super::{load_monitor, read_failed, read_interrupted};
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Migrations read per page.
const PAGE: u32 = 1_000;
/// Maximum number of rows returned.
pub const ROWS_MAX: usize = 100_000;

/// What tenants used.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageBody {
    /// A row for each tenant and day (UTC) on which it used anything: `day`,
    /// `tenantID`, `votes`, `queries`, `byteHours`, `bytesMoved`, `cost`.
    #[schema(value_type = Vec<Object>)]
    pub rows: Vec<UsageRow>,
    /// Whether rows were left out.
    pub more: bool,
    /// The price list used for the cost.
    #[schema(value_type = Object)]
    pub prices: Value,
}

/// What tenants used in a time range.
pub async fn show(
    plane: &ControlPlane,
    range: TimeRange,
    tenant: Option<TenantId>,
) -> Result<UsageBody> {
    let prices = plane.settings().load.prices;
    let ledger = build_ledger(plane, range, tenant).await?;
    let mut rows: Vec<UsageRow> = ledger.rows(&prices).take(ROWS_MAX + 1).collect();
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
    range: TimeRange,
    tenant: Option<TenantId>,
) -> Result<String> {
    let prices: PriceList = plane.settings().load.prices;
    let ledger = build_ledger(plane, range, tenant).await?;
    let lines = ledger.rows(&prices).map(|row| row.csv());
    let lines = std::iter::once(CSV_HEADER.to_owned()).chain(lines);
    Ok(lines.map(|line| line + "\n").collect())
}

async fn build_ledger(
    plane: &ControlPlane,
    range: TimeRange,
    tenant: Option<TenantId>,
) -> Result<UsageLedger> {
    let load = load_monitor(plane)?;
    let moved = migrated_bytes(plane, range, tenant.as_ref()).await?;
    let _turn = plane.preview_permit().await;
    let files = Arc::clone(load.files());
    let read = tokio::task::spawn_blocking(move || {
        let mut book = UsageAccumulator {
            ledger: UsageLedger::default(),
            stored: HashMap::new(),
            tenant,
            until: range.from,
        };
        files.read(range.from, range.to, |sample| book.add_sample(&sample))?;
        let mut ledger = book.finish();
        moved.iter().for_each(|sample| ledger.add(sample));
        Ok(ledger)
    });
    read.await
        .map_err(|_| read_interrupted())?
        .map_err(read_failed)
}

/// Adds up samples.
struct UsageAccumulator {
    ledger: UsageLedger,
    /// Bytes that each slice stores on a shard, and since when.
    stored: HashMap<(ShardId, SliceId), (f64, Timestamp)>,
    tenant: Option<TenantId>,
    until: Timestamp,
}

impl UsageAccumulator {
    fn add_sample(&mut self, sample: &LoadSample) {
        let (from, until) = (sample.interval.start, sample.interval.end());
        self.until = until;
        for shard in &sample.shards {
            for slice in &shard.slices {
                let tenant = &slice.slice.tenant_id;
                if self.tenant.as_ref().is_some_and(|wanted| wanted != tenant) {
                    continue;
                }
                if !slice.flow.is_idle() {
                    self.ledger.add(&cost::UsageSample {
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
                    self.add_storage(tenant, before, until);
                }
            }
        }
    }

    /// Adds storage up to a moment.
    fn add_storage(
        &mut self,
        tenant: &TenantId,
        before: Option<(f64, Timestamp)>,
        until: Timestamp,
    ) {
        if let Some((bytes_stored, from)) = before {
            self.ledger.add(&cost::UsageSample {
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

    fn finish(mut self) -> UsageLedger {
        let until = self.until;
        for ((_, slice), known) in std::mem::take(&mut self.stored) {
            self.add_storage(&slice.tenant_id, Some(known), until);
        }
        self.ledger
    }
}

/// Bytes copied by migrations that ended in a time range.
async fn migrated_bytes(
    plane: &ControlPlane,
    range: TimeRange,
    tenant: Option<&TenantId>,
) -> Result<Vec<cost::UsageSample>> {
    let mut samples = Vec::new();
    let mut after = None;
    loop {
        let query = RecordQuery {
            after: after.take(),
            descending: true,
            ..RecordQuery::all(RecordKind::Migration, PAGE)
        };
        let page = typed::list::<Migration>(plane.registry(), &query).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.value.migration_id.to_string());
        // Ids sort by creation time.
        let is_past = last.value.requested_at.plus_seconds(60 * 86_400) < range.from;
        for migration in page.into_iter().map(|found| found.value) {
            let Some(ended) = &migration.ended else {
                continue;
            };
            let wanted = tenant.is_none_or(|wanted| *wanted == migration.tenant_id);
            if wanted && ended.at >= range.from && ended.at < range.to {
                samples.push(cost::UsageSample {
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
