//! The calendar of polls: which will have many voters, when their tenants are
//! left alone, and which lanes are made before they open.
//!
//! ```text
//!   keep     asks every shard which polls expect many voters
//!   prepare  lanes for them become plans, before they open
//!   (here)   what is known, and whether a tenant is left alone now
//! ```
//! When and how many is decided in `hotspot-detector`'s forecast. Shards tell
//! what they know; while one is away, what it told last holds.

pub mod keep;
pub(crate) mod prepare;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use ballast_domain::poll::Poll;
use ballast_domain::tenant::SliceId;
use ballast_domain::{ItemId, PollId, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::forecast::{Event, Readiness, freezes, preparations};
use ballast_hotspot_detector::plan::Span;

/// What an operator may set about the calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct CalendarSettings {
    /// Polls that expect fewer voters are nothing out of the ordinary.
    pub audience_min: u64,
    /// How polls are prepared for.
    pub ready: Readiness,
}

impl Default for CalendarSettings {
    fn default() -> Self {
        Self {
            audience_min: 1_000,
            ready: Readiness::default(),
        }
    }
}

/// A poll that expects many voters.
#[derive(Debug, Clone, PartialEq)]
pub struct Awaited {
    /// Whose, when, and how many.
    pub event: Event,
    /// The slice that has it.
    pub slice: SliceId,
    /// Its first item: all share its lanes.
    pub item: ItemId,
    /// The lanes it has.
    pub lanes: u16,
}

impl Awaited {
    fn of(slice: SliceId, poll: &Poll) -> Self {
        Self {
            event: Event {
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

/// What is known of polls that expect many voters.
#[derive(Debug, Default)]
pub struct Calendar {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the shard that told of them.
    told: BTreeMap<ShardId, Vec<Awaited>>,
    ready: Readiness,
    freezes: BTreeMap<TenantId, Vec<Span>>,
}

/// Why a tenant is left alone now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// The poll for which it is.
    pub poll: PollId,
    /// How many voters it expects.
    pub audience: u64,
    /// Until when.
    pub until: Timestamp,
}

impl std::fmt::Display for Frozen {
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
    fn known(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        // It is put in place as a whole: there is nothing half done in it.
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what shards tell. One of which nothing is said keeps what it
    /// told last, unless it is not in the fleet any more.
    fn take(&self, told: Vec<(ShardId, Option<Vec<Awaited>>)>, ready: Readiness) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut known.told);
        let told: BTreeMap<_, _> = told
            .into_iter()
            .filter_map(|(shard, told)| {
                let told = told.or_else(|| before.remove(&shard))?;
                Some((shard, told))
            })
            .collect();
        let events: Vec<_> = told.values().flatten().map(|it| it.event.clone()).collect();
        known.freezes = freezes(&events, &ready);
        known.ready = ready;
        known.told = told;
    }

    /// Whether a shard has told of its polls since the process was started.
    #[must_use]
    pub fn knows(&self, shard: &ShardId) -> bool {
        self.known().told.contains_key(shard)
    }

    /// When tenants are to be left alone.
    #[must_use]
    pub fn freezes(&self) -> BTreeMap<TenantId, Vec<Span>> {
        self.known().freezes.clone()
    }

    /// Why a tenant is left alone at this moment, if it is.
    #[must_use]
    pub fn frozen(&self, tenant: &TenantId, at: Timestamp) -> Option<Frozen> {
        let known = self.known();
        let until = known.freezes.get(tenant)?.iter();
        let until = until.filter(|span| span.has(at)).map(|it| it.until).max()?;
        let awaited = known.told.values().flatten();
        let mut its = awaited.filter(|it| it.event.tenant_id == *tenant);
        let poll = its.find(|it| {
            let own = freezes(std::slice::from_ref(&it.event), &known.ready);
            own.values().flatten().any(|span| span.has(at))
        })?;
        Some(Frozen {
            poll: poll.event.poll_id,
            audience: poll.event.audience,
            until,
        })
    }

    /// The tenants that are left alone at this moment, of those with polls on a
    /// shard.
    #[must_use]
    pub fn frozen_on(&self, shard: &ShardId, at: Timestamp) -> Vec<(TenantId, Frozen)> {
        let tenants: std::collections::BTreeSet<TenantId> = {
            let known = self.known();
            let told = known.told.get(shard);
            let tenants = told.into_iter().flatten();
            tenants.map(|it| it.event.tenant_id.clone()).collect()
        };
        let frozen = tenants.into_iter().filter_map(|tenant| {
            let frozen = self.frozen(&tenant, at)?;
            Some((tenant, frozen))
        });
        frozen.collect()
    }

    /// The lanes that a poll is to keep for its voters, until it has closed.
    #[must_use]
    pub fn lanes_kept(&self, poll: PollId, at: Timestamp) -> Option<u16> {
        let known = self.known();
        let awaited = known.told.values().flatten();
        let events: Vec<_> = awaited
            .filter(|it| it.event.poll_id == poll)
            .map(|it| it.event.clone())
            .collect();
        let prepared = preparations(&events, &known.ready, at);
        prepared.first().map(|it| it.lanes)
    }

    /// All that are known, with the shard that has each.
    #[must_use]
    pub fn awaited(&self) -> Vec<(ShardId, Awaited)> {
        let known = self.known();
        let told = known.told.iter();
        let told = told.flat_map(|(shard, told)| told.iter().map(|it| (shard.clone(), it.clone())));
        told.collect()
    }
}

#[cfg(test)]
mod tests;
