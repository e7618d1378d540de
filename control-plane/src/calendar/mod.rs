//! The calendar of polls: which polls expect many voters, when their tenants may
//! not be moved, and which lanes are added before they open.
//!
//! ```text
//!   poller   polls every shard for polls that expect many voters
//!   prepare  plans lanes for them before they open
//!   (here)   the reports, and whether a tenant is frozen now
//! ```
//! The forecast in `hotspot-detector` decides when and how many. While a shard is
//! unreachable, its last report stays valid.

pub mod poller;
pub(crate) mod prepare;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use ballast_domain::poll::Poll;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, PollId, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::forecast::{PollReadiness, ScheduledPoll, freezes, preparations};
use ballast_hotspot_detector::plan::TimeSpan;

/// Settings of the calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct CalendarSettings {
    /// Polls that expect fewer voters are ignored.
    pub audience_min: u64,
    /// How polls are prepared for.
    pub ready: PollReadiness,
}

impl Default for CalendarSettings {
    fn default() -> Self {
        Self {
            audience_min: 1_000,
            ready: PollReadiness::default(),
        }
    }
}

/// A poll that expects many voters.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedPoll {
    /// Its tenant, times and expected voters.
    pub event: ScheduledPoll,
    /// The slice that contains it.
    pub slice: SliceId,
    /// Its first item; all items share its lanes.
    pub item: ItemId,
    /// Its number of lanes.
    pub lanes: u16,
}

impl ExpectedPoll {
    fn from_poll(slice: SliceId, poll: &Poll) -> Self {
        Self {
            event: ScheduledPoll {
                tenant_id: slice.tenant_id.clone(),
                poll_id: poll.poll_id,
                opens_at: poll.spec.opening_time.unwrap_or(poll.created_at),
                closes_at: poll.spec.expiration_time,
                audience: poll.spec.expected_voters.unwrap_or(0),
                items: poll.spec.items.len(),
            },
            slice,
            item: poll.item_id(0),
            lanes: poll.spec.options.lanes,
        }
    }
}

/// The polls that expect many voters.
#[derive(Debug, Default)]
pub struct Calendar {
    state: RwLock<CalendarState>,
}

#[derive(Debug, Default)]
struct CalendarState {
    /// Reports by shard.
    reports: BTreeMap<ShardId, Vec<ExpectedPoll>>,
    ready: PollReadiness,
    freezes: BTreeMap<TenantId, Vec<TimeSpan>>,
}

/// Why a tenant may not be moved now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// The poll that causes the freeze.
    pub poll: PollId,
    /// Its expected number of voters.
    pub audience: u64,
    /// End of the freeze.
    pub until: Timestamp,
}

impl std::fmt::Display for Freeze {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            poll,
            audience,
            until,
        } = self;
        write!(
            f,
            "moves of its tenant are frozen until {until} for {poll}, which expects {audience} voters"
        )
    }
}

impl Calendar {
    fn lock(&self) -> std::sync::RwLockReadGuard<'_, CalendarState> {
        // It is replaced as a whole, so a poisoned lock never guards a partial update.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies shards' reports. A shard without a new report keeps its last one,
    /// unless it left the fleet.
    fn apply_reports(
        &self,
        reports: Vec<(ShardId, Option<Vec<ExpectedPoll>>)>,
        ready: PollReadiness,
    ) {
        let mut known = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut known.reports);
        let reports: BTreeMap<_, _> = reports
            .into_iter()
            .filter_map(|(shard, reports)| {
                let reports = reports.or_else(|| before.remove(&shard))?;
                Some((shard, reports))
            })
            .collect();
        let events: Vec<_> = reports
            .values()
            .flatten()
            .map(|it| it.event.clone())
            .collect();
        known.freezes = freezes(&events, &ready);
        known.ready = ready;
        known.reports = reports;
    }

    /// Whether a shard has reported since the process started.
    #[must_use]
    pub fn has_report_from(&self, shard: &ShardId) -> bool {
        self.lock().reports.contains_key(shard)
    }

    /// The move freezes of all tenants.
    #[must_use]
    pub fn freezes(&self) -> BTreeMap<TenantId, Vec<TimeSpan>> {
        self.lock().freezes.clone()
    }

    /// Why a tenant may not be moved at this moment, if so.
    #[must_use]
    pub fn freeze_for(&self, tenant: &TenantId, at: Timestamp) -> Option<Freeze> {
        let known = self.lock();
        let until = known.freezes.get(tenant)?.iter();
        let until = until
            .filter(|span| span.contains(at))
            .map(|it| it.until)
            .max()?;
        let awaited = known.reports.values().flatten();
        let mut its = awaited.filter(|it| it.event.tenant_id == *tenant);
        let poll = its.find(|it| {
            let own = freezes(std::slice::from_ref(&it.event), &known.ready);
            own.values().flatten().any(|span| span.contains(at))
        })?;
        Some(Freeze {
            poll: poll.event.poll_id,
            audience: poll.event.audience,
            until,
        })
    }

    /// The tenants with polls on a shard that are frozen at this moment.
    #[must_use]
    pub fn frozen_tenants(&self, shard: &ShardId, at: Timestamp) -> Vec<(TenantId, Freeze)> {
        let tenants: std::collections::BTreeSet<TenantId> = {
            let known = self.lock();
            let reports = known.reports.get(shard);
            let tenants = reports.into_iter().flatten();
            tenants.map(|it| it.event.tenant_id.clone()).collect()
        };
        let frozen = tenants.into_iter().filter_map(|tenant| {
            let frozen = self.freeze_for(&tenant, at)?;
            Some((tenant, frozen))
        });
        frozen.collect()
    }

    /// The number of lanes that a poll must keep for its voters until it closes.
    #[must_use]
    pub fn required_lanes(&self, poll: PollId, at: Timestamp) -> Option<u16> {
        let known = self.lock();
        let awaited = known.reports.values().flatten();
        let events: Vec<_> = awaited
            .filter(|it| it.event.poll_id == poll)
            .map(|it| it.event.clone())
            .collect();
        let prepared = preparations(&events, &known.ready, at);
        prepared.first().map(|it| it.lanes)
    }

    /// All expected polls, with their shards.
    #[must_use]
    pub fn expected_polls(&self) -> Vec<(ShardId, ExpectedPoll)> {
        let known = self.lock();
        let reports = known.reports.iter();
        let reports = reports
            .flat_map(|(shard, reports)| reports.iter().map(|it| (shard.clone(), it.clone())));
        reports.collect()
    }
}

#[cfg(test)]
mod tests;
