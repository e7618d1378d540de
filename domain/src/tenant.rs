//! A tenant: its identity, home region, residency policy and limits, and the routes of
//! its slices.
//!
//! ```text
//!   created ──► active ◄──► suspended
//!                  │            │
//!                  └──► closed ◄┘      (final: the ID is never reused)
//! ```
//!
//! All routes of a tenant are in this one record, so that one compare-and-swap decides
//! every change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::Timestamp;
use crate::id::{RegionId, ShardId, TenantId, ZoneId};
use crate::limits::TenantLimits;
use crate::moving::{ActiveMigration, LastMigration, MigrationPhase, SliceRoute};
use crate::poll::PollId;
use crate::residency::Residency;
use crate::slicing::{LayoutSlice, RecutPhase, SliceLayout, Slicing, SlicingResult};

/// A tenant's record in the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Its id, in every command and path.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Its display name.
    pub name: String,
    /// The organisation that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organisation: Option<String>,
    /// Whether it is served.
    pub status: TenantStatus,
    /// The region of its data.
    pub home_region: RegionId,
    /// In which other regions its data may be.
    pub residency: Residency,
    /// Only shards with one of these tags may hold it; if empty, any may.
    pub zones: Vec<ZoneId>,
    /// Its limits.
    pub limits: TenantLimits,
    /// Browser origins that may use its keys; `*` allows all.
    pub cors_origins: Vec<String>,
    /// Its slices and their routes.
    pub slices: Vec<Slice>,
    /// The shard that an operator pinned it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// Which automatic actions it allows.
    #[serde(default, skip_serializing_if = "Dial::is_active")]
    pub dial: Dial,
    /// The number of its next slice, once it was split: numbers are never reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_slice: Option<u32>,
    /// The requested number of slices, while that is being carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<Slicing>,
    /// How the last such request ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_slicing: Option<SlicingResult>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Tenant {
    /// The layout of its slices, for recuts.
    #[must_use]
    pub fn layout(&self) -> SliceLayout {
        let mut parts: Vec<LayoutSlice> = self.slices.iter().map(Slice::part).collect();
        parts.sort_by_key(|part| part.hash_from);
        let highest = parts.iter().map(|part| part.slice).max();
        let after = highest.map_or(0, |highest| highest.saturating_add(1));
        SliceLayout {
            parts,
            next_slice: self.next_slice.unwrap_or(0).max(after),
            recut: self.slicing.as_ref().and_then(|it| it.recut.clone()),
        }
    }

    /// Applies the layout that a recut produced at `now`.
    pub fn set_layout(&mut self, layout: SliceLayout, now: Timestamp) {
        let recut = layout.recut.as_ref();
        let sealing = recut.filter(|recut| recut.phase == RecutPhase::Sealing);
        let old = std::mem::take(&mut self.slices);
        let mut slices: Vec<Slice> = Vec::with_capacity(layout.parts.len());
        for part in &layout.parts {
            let known = old.iter().find(|slice| slice.slice == part.slice);
            let mut slice = known.cloned().unwrap_or_else(|| Slice {
                hash_from: part.hash_from,
                ..Slice::placed(part.slice, part.owner.clone(), now)
            });
            slice.epoch = part.epoch;
            if part.spent > part.epoch || slice.spent_epoch.is_some() || known.is_none() {
                slice.spent_epoch = Some(part.spent);
            }
            if layout.recut_of_slice(part.slice).is_some() || slice.moving.is_none() {
                let sealed = sealing.is_some_and(|recut| recut.parents.contains(&part.slice));
                slice.sealing_since = match sealed {
                    true => Some(slice.sealing_since.unwrap_or(now)),
                    false => None,
                };
            }
            slices.push(slice);
        }
        self.slices = slices;
        self.next_slice = Some(layout.next_slice);
        if let Some(slicing) = &mut self.slicing {
            slicing.recut = layout.recut;
        }
    }

    /// Raises every epoch, after a restore. A recut that was running is dropped, and its
    /// parents stay. (A backup is never made between the commit of a recut and the moment
    /// at which its shard has applied it.)
    pub fn restore(&mut self, raise: u64) {
        for slice in &mut self.slices {
            slice.restore(raise);
        }
        self.slicing = None;
    }
}

/// Whether a tenant is served.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum TenantStatus {
    /// Served.
    #[default]
    Active,
    /// Its keys are refused until it is resumed; its data stays.
    Suspended,
    /// Its keys are refused permanently.
    Closed,
}

impl TenantStatus {
    /// The status's name, as in its JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Closed => "closed",
        }
    }
}

/// Which automatic actions a tenant allows: a dial for operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Dial {
    /// All.
    #[default]
    Active,
    /// Only necessary ones: it leaves a shard that may no longer hold it, but is not moved
    /// for the sake of other tenants.
    Essential,
    /// None for now. The drain of its shard waits.
    Pause,
    /// None, not even on request.
    Stop,
}

impl Dial {
    /// Its name, as in its JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Essential => "essential",
            Self::Pause => "pause",
            Self::Stop => "stop",
        }
    }

    /// Whether all actions are allowed.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Active)
    }
}

/// The unit that is placed and moved: one tenant's data, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// Its number within the tenant. Nearly every tenant has only slice 0.
    pub slice: u32,
    /// The lowest hash of its polls. The highest is below that of the next slice.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash_from: u64,
    /// The shard that owns the slice.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Its epoch: grows with every change of owner, and every write carries it.
    pub epoch: Epoch,
    /// Shards that scored higher when it was placed, but were busy or full. They do not
    /// attract it later, so that changes of their load do not cause moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<ShardId>,
    /// The same for the target of its migration: replaces the list above when it arrives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes_over: Vec<ShardId>,
    /// When it was placed on its shard.
    pub placed_at: Timestamp,
    /// The highest epoch ever issued for it, once it has moved: none is issued twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_epoch: Option<Epoch>,
    /// Its running migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<ActiveMigration>,
    /// Since when it is being sealed: the start of the write pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing_since: Option<Timestamp>,
    /// How its last migration ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_move: Option<LastMigration>,
}

impl Slice {
    /// A newly placed slice.
    #[must_use]
    pub fn placed(slice: u32, shard_id: ShardId, placed_at: Timestamp) -> Self {
        Self {
            slice,
            hash_from: 0,
            shard_id,
            epoch: Epoch::FIRST,
            passed_over: Vec::new(),
            passes_over: Vec::new(),
            placed_at,
            spent_epoch: None,
            moving: None,
            sealing_since: None,
            last_move: None,
        }
    }

    /// The slice as part of a layout, for recuts.
    #[must_use]
    pub fn part(&self) -> LayoutSlice {
        let route = self.route();
        LayoutSlice {
            slice: self.slice,
            hash_from: self.hash_from,
            owner: route.owner,
            epoch: route.epoch,
            spent: route.spent,
            moving: route.moving.map(|moving| moving.migration_id),
        }
    }

    /// Its route, for migrations.
    #[must_use]
    pub fn route(&self) -> SliceRoute {
        SliceRoute {
            owner: self.shard_id.clone(),
            epoch: self.epoch,
            spent: self.spent_epoch.unwrap_or(self.epoch).max(self.epoch),
            moving: self.moving.clone(),
            last: self.last_move.clone(),
        }
    }

    /// Applies the route that a migration produced at `now`.
    pub fn set_route(&mut self, route: SliceRoute, now: Timestamp) {
        if route.owner != self.shard_id {
            self.placed_at = now;
            // The shards that the migration passed over do not attract it back.
            self.passed_over = std::mem::take(&mut self.passes_over);
        }
        if route.moving.is_none() {
            self.passes_over.clear();
        }
        let sealing = matches!(
            route.moving,
            Some(ActiveMigration {
                phase: MigrationPhase::Sealing { .. },
                ..
            })
        );
        self.sealing_since = match sealing {
            true => Some(self.sealing_since.unwrap_or(now)),
            false => None,
        };
        self.shard_id = route.owner;
        self.epoch = route.epoch;
        self.spent_epoch = Some(route.spent);
        self.moving = route.moving;
        self.last_move = route.last;
    }

    /// Raises every epoch, after a restore. A migration does not continue: before the
    /// cutover it is aborted, after it the source's copy is removed.
    pub fn restore(&mut self, raise: u64) {
        let raised = |epoch: Epoch| Epoch(epoch.0.saturating_add(raise));
        let spent = self.route().spent;
        self.epoch = raised(self.epoch);
        if self.spent_epoch.is_some() {
            self.spent_epoch = Some(raised(spent));
        }
        self.sealing_since = None;
        if let Some(moving) = &mut self.moving {
            moving.prepared = raised(moving.prepared);
            moving.phase = match moving.phase {
                MigrationPhase::Copying
                | MigrationPhase::Sealing { .. }
                | MigrationPhase::Aborting => MigrationPhase::Aborting,
                MigrationPhase::Window | MigrationPhase::Cleaning => MigrationPhase::Cleaning,
            };
        }
    }

    /// The previous owner, which is read in addition to the owner while a migration's
    /// window is open.
    #[must_use]
    pub fn also_on(&self) -> Option<&ShardId> {
        let moving = self.moving.as_ref()?;
        // An abandoned copy is not read.
        (moving.phase == MigrationPhase::Window && !moving.gives_up).then_some(&moving.from)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The slice that holds a poll.
pub fn find_slice(slices: &[Slice], poll: PollId) -> Option<&Slice> {
    let hash = poll.hash();
    slices
        .iter()
        .filter(|slice| slice.hash_from <= hash)
        .max_by_key(|slice| slice.hash_from)
}

/// The full name of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceId {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The slice's number within the tenant.
    pub slice: u32,
}

impl SliceId {
    /// How people know it: by the tenant alone, unless the tenant was ever split. Only a
    /// tenant that was never split has a slice 0, because numbers are not reused.
    #[must_use]
    pub fn label(&self) -> String {
        match self.slice {
            0 => self.tenant_id.to_string(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant_id, self.slice)
    }
}

/// The number that fences writes. It grows with every change of a slice's owner, and a
/// shard accepts a write only at the epoch at which it owns the slice.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of a new slice.
    pub const FIRST: Self = Self(1);
}

/// An operator's decision that a tenant belongs on one shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// The shard.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Who pinned it.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}
