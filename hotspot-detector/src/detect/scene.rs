//! The variables of one subject at one moment.

use std::cell::OnceCell;

use ballast_domain::poll::lanes::{Cause, Spread};

use crate::load::{ItemView, ShardView, SliceView, Window};
use crate::resources::Dimension;
use crate::rules::vars::{Var, What};

/// A shard's variables, worked out once for all that is on it.
pub(super) struct ShardScene {
    pub(super) short: Option<ShardView>,
    pub(super) long: Option<ShardView>,
    slices: usize,
    worked_out: [OnceCell<Vec<Option<f64>>>; 2],
}

impl ShardScene {
    pub(super) fn new(short: Option<ShardView>, long: Option<ShardView>, slices: usize) -> Self {
        Self {
            short,
            long,
            slices,
            worked_out: [OnceCell::new(), OnceCell::new()],
        }
    }

    pub(super) fn view(&self, window: Window) -> Option<&ShardView> {
        match window {
            Window::Short => self.short.as_ref(),
            Window::Long => self.long.as_ref(),
        }
    }

    pub(super) fn value(&self, var: Var) -> Option<f64> {
        let cell = &self.worked_out[usize::from(var.window == Window::Long)];
        let values = cell.get_or_init(|| {
            let view = self.view(var.window);
            let value = |what| view.and_then(|view| shard_value(view, what, self.slices));
            What::ALL.iter().map(|what| value(*what)).collect()
        });
        values.get(var.what as usize).copied().flatten()
    }
}

fn shard_value(view: &ShardView, what: What, slices: usize) -> Option<f64> {
    let calls = view.flow.calls();
    let of_calls = |many: f64| if calls > 0.0 { many / calls } else { 0.0 };
    match what {
        What::Pressure => view.pressure(),
        What::Storage => view.share(Dimension::Storage),
        What::StorageBytes => view.knows_storage.then_some(view.used.storage),
        What::Votes => Some(view.used.votes),
        What::Queries => Some(view.used.queries),
        What::Traffic => Some(view.used.bytes),
        What::Concurrency => view.knows_concurrency.then_some(view.used.concurrency),
        What::IoWait => view.io_wait.map(|wait| wait.share()),
        What::IoQueue => view.io_wait.map(|wait| wait.queue),
        What::IoFsync => view.io_wait.map(|wait| wait.fsync),
        What::Errors => Some(of_calls(view.flow.errors)),
        What::Throttles => Some(of_calls(view.flow.throttles)),
        What::VoteP50 => view.vote_latency.quantile(0.50),
        What::VoteP95 => view.vote_latency.quantile(0.95),
        What::VoteP99 => view.vote_latency.quantile(0.99),
        What::QueryP50 => view.query_latency.quantile(0.50),
        What::QueryP95 => view.query_latency.quantile(0.95),
        What::QueryP99 => view.query_latency.quantile(0.99),
        What::Tenants => Some(slices as f64),
        _ => None,
    }
}

pub(super) fn slice_value(slice: &SliceView, shard: &ShardView, what: What) -> Option<f64> {
    match what {
        What::TenantShare => slice.share(shard),
        What::TenantShareOfUse => Some(slice.share_of_use(shard)),
        What::TenantVotes => Some(slice.used.votes),
        What::TenantQueries => Some(slice.used.queries),
        What::TenantTraffic => Some(slice.used.bytes),
        What::TenantStorage => Some(slice.used.storage),
        What::TenantConcurrency => Some(slice.used.concurrency),
        What::TenantThrottles => Some(slice.throttles),
        _ => None,
    }
}

pub(super) fn item_value(item: &ItemView, what: What) -> Option<f64> {
    match what {
        What::ItemVotes => Some(item.votes),
        What::ItemLanes => Some(item.lanes.len() as f64),
        What::ItemLaneVotes => Some(item.lane_votes()),
        What::ItemLaneSkew => Some(skew(&item.spread())),
        _ => None,
    }
}

/// How uneven lanes are, where nothing harmless explains it.
fn skew(spread: &Spread) -> f64 {
    match spread.cause {
        Some(Cause::TooFewVotes | Cause::LanesAdded) => 0.0,
        Some(Cause::Unknown) | None => spread.deviation_percent / 100.0,
    }
}
