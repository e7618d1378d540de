//! The values of rule variables for one subject at one moment.

use std::cell::OnceCell;

use ballast_domain::poll::lanes::{ImbalanceCause, LaneSpread};

use crate::load::{ItemWindow, ShardWindow, SliceWindow, Window};
use crate::resources::Dimension;
use crate::rules::vars::{Metric, Variable};

/// A shard's variables, computed once for all its subjects.
pub(super) struct ShardVariables {
    pub(super) short: Option<ShardWindow>,
    pub(super) long: Option<ShardWindow>,
    slices: usize,
    computed: [OnceCell<Vec<Option<f64>>>; 2],
}

impl ShardVariables {
    pub(super) fn new(
        short: Option<ShardWindow>,
        long: Option<ShardWindow>,
        slices: usize,
    ) -> Self {
        Self {
            short,
            long,
            slices,
            computed: [OnceCell::new(), OnceCell::new()],
        }
    }

    pub(super) fn view(&self, window: Window) -> Option<&ShardWindow> {
        match window {
            Window::Short => self.short.as_ref(),
            Window::Long => self.long.as_ref(),
        }
    }

    pub(super) fn value(&self, var: Variable) -> Option<f64> {
        let cell = &self.computed[usize::from(var.window == Window::Long)];
        let values = cell.get_or_init(|| {
            let view = self.view(var.window);
            let value = |what| view.and_then(|view| shard_value(view, what, self.slices));
            Metric::ALL.iter().map(|what| value(*what)).collect()
        });
        values.get(var.what as usize).copied().flatten()
    }
}

fn shard_value(view: &ShardWindow, what: Metric, slices: usize) -> Option<f64> {
    let calls = view.flow.calls();
    let share_of_calls = |many: f64| if calls > 0.0 { many / calls } else { 0.0 };
    match what {
        Metric::Pressure => view.pressure(),
        Metric::Storage => view.share(Dimension::Storage),
        Metric::StorageBytes => view.knows_storage.then_some(view.used.storage),
        Metric::Votes => Some(view.used.votes),
        Metric::Queries => Some(view.used.queries),
        Metric::Traffic => Some(view.used.bytes),
        Metric::Concurrency => view.knows_concurrency.then_some(view.used.concurrency),
        Metric::IoWait => view.io_wait.map(|wait| wait.share()),
        Metric::IoQueue => view.io_wait.map(|wait| wait.queue),
        Metric::IoFsync => view.io_wait.map(|wait| wait.fsync),
        Metric::Errors => Some(share_of_calls(view.flow.errors)),
        Metric::Throttles => Some(share_of_calls(view.flow.throttles)),
        Metric::VoteP50 => view.vote_latency.quantile(0.50),
        Metric::VoteP95 => view.vote_latency.quantile(0.95),
        Metric::VoteP99 => view.vote_latency.quantile(0.99),
        Metric::QueryP50 => view.query_latency.quantile(0.50),
        Metric::QueryP95 => view.query_latency.quantile(0.95),
        Metric::QueryP99 => view.query_latency.quantile(0.99),
        Metric::Tenants => Some(slices as f64),
        _ => None,
    }
}

pub(super) fn slice_value(slice: &SliceWindow, shard: &ShardWindow, what: Metric) -> Option<f64> {
    match what {
        Metric::TenantShare => slice.share(shard),
        Metric::TenantShareOfUse => Some(slice.share_of_use(shard)),
        Metric::TenantVotes => Some(slice.used.votes),
        Metric::TenantQueries => Some(slice.used.queries),
        Metric::TenantTraffic => Some(slice.used.bytes),
        Metric::TenantStorage => Some(slice.used.storage),
        Metric::TenantConcurrency => Some(slice.used.concurrency),
        Metric::TenantThrottles => Some(slice.throttles),
        _ => None,
    }
}

pub(super) fn item_value(item: &ItemWindow, what: Metric) -> Option<f64> {
    match what {
        Metric::ItemVotes => Some(item.votes),
        Metric::ItemLanes => Some(item.lanes.len() as f64),
        Metric::ItemLaneVotes => Some(item.lane_votes()),
        Metric::ItemLaneSkew => Some(skew(&item.spread())),
        _ => None,
    }
}

/// How uneven lanes are; 0 if chance or recently added lanes explain it.
fn skew(spread: &LaneSpread) -> f64 {
    match spread.cause {
        Some(ImbalanceCause::TooFewVotes | ImbalanceCause::LanesAdded) => 0.0,
        Some(ImbalanceCause::Unknown) | None => spread.deviation_percent / 100.0,
    }
}
