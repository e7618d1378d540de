//! A customer: identity, home, policy, limits — and where its slices are.
//!
//! ```text
//!   created ──► active ◄──► suspended
//!                  │            │
//!                  └──► closed ◄┘      (final: the ID is never given again)
//! ```
//!
//! The whole route map of a tenant is this one record, so that one
//! compare-and-swap decides every change of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::Timestamp;
use crate::id::{RegionId, ShardId, TenantId, ZoneId};
use crate::limits::Limits;
use crate::moving::{Ended, Moving, Phase, Route};
use crate::poll::PollId;
use crate::residency::Residency;
use crate::slicing::{Layout, Part, RecutPhase, Sliced, Slicing};

/// A tenant, as the registry keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Its name in every command and path.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// What people call it.
    pub name: String,
    /// The organisation it belongs to, as the operator knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organisation: Option<String>,
    /// Whether it is served.
    pub status: TenantStatus,
    /// The region its data lives in.
    pub home_region: RegionId,
    /// Where else its data may be.
    pub residency: Residency,
    /// Only shards that carry one of these tags may hold it; empty: any.
    pub zones: Vec<ZoneId>,
    /// What it may use.
    pub limits: Limits,
    /// Browser origins that may use its keys; `*` allows all.
    pub cors_origins: Vec<String>,
    /// Its slices and where they are.
    pub slices: Vec<Slice>,
    /// The shard an operator pinned it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// What may be done to it without asking.
    #[serde(default, skip_serializing_if = "Dial::is_active")]
    pub dial: Dial,
    /// The number of its next slice, once it was cut: none is given twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_slice: Option<u32>,
    /// That it is to have another number of slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<Slicing>,
    /// How that ended the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_slicing: Option<Sliced>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Tenant {
    /// Its slices as cuts see them.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let mut parts: Vec<Part> = self.slices.iter().map(Slice::part).collect();
        parts.sort_by_key(|part| part.hash_from);
        let highest = parts.iter().map(|part| part.slice).max();
        let after = highest.map_or(0, |highest| highest.saturating_add(1));
        Layout {
            parts,
            next_slice: self.next_slice.unwrap_or(0).max(after),
            recut: self.slicing.as_ref().and_then(|it| it.recut.clone()),
        }
    }

    /// Takes over what a cut has made of its slices at `now`.
    pub fn set_layout(&mut self, layout: Layout, now: Timestamp) {
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
            if layout.cut_of(part.slice).is_some() || slice.moving.is_none() {
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

    /// Raises every epoch, as after a restore. What was being cut is not: its
    /// parents are as they were. A backup is never made between a cut and the
    /// moment at which its shard has heard of it.
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
    /// Its keys are refused for ever.
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

/// What may be done to a tenant without asking: an operator's dial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Dial {
    /// Anything that helps.
    #[default]
    Active,
    /// Only what must be: it leaves a shard that may no longer hold it, and is
    /// never moved for the sake of others.
    Essential,
    /// Nothing for now. A shard that is drained waits for it.
    Pause,
    /// Nothing, whoever asks.
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

    /// Whether nothing is held back.
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
    /// The polls it holds: those whose hash is at least this, up to where the
    /// next slice begins.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash_from: u64,
    /// The shard that owns it.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// Grows with every change of owner; every write carries it.
    pub epoch: Epoch,
    /// Shards that scored higher when it was placed but were filling up or
    /// full. They do not attract it later, so room that comes and goes never
    /// turns into a move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<ShardId>,
    /// The same for where a move is bringing it: they take the place of these
    /// when it arrives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes_over: Vec<ShardId>,
    /// When it was placed there.
    pub placed_at: Timestamp,
    /// The highest epoch that was ever given out for it, once it has moved:
    /// none is given out twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_epoch: Option<Epoch>,
    /// The move that is at work on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
    /// Since when it is being sealed: nobody can vote meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing_since: Option<Timestamp>,
    /// How its last move ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_move: Option<Ended>,
}

impl Slice {
    /// A slice that has just been placed.
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

    /// What cuts know of it.
    #[must_use]
    pub fn part(&self) -> Part {
        let route = self.route();
        Part {
            slice: self.slice,
            hash_from: self.hash_from,
            owner: route.owner,
            epoch: route.epoch,
            spent: route.spent,
            moving: route.moving.map(|moving| moving.move_id),
        }
    }

    /// What moves know of it.
    #[must_use]
    pub fn route(&self) -> Route {
        Route {
            owner: self.shard_id.clone(),
            epoch: self.epoch,
            spent: self.spent_epoch.unwrap_or(self.epoch).max(self.epoch),
            moving: self.moving.clone(),
            last: self.last_move.clone(),
        }
    }

    /// Takes over what a move has made of it at `now`.
    pub fn set_route(&mut self, route: Route, now: Timestamp) {
        if route.owner != self.shard_id {
            self.placed_at = now;
            // Shards that outscore this one on purpose do not call it back.
            self.passed_over = std::mem::take(&mut self.passes_over);
        }
        if route.moving.is_none() {
            self.passes_over.clear();
        }
        let sealing = matches!(
            route.moving,
            Some(Moving {
                phase: Phase::Sealing { .. },
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

    /// Raises every epoch, as after a restore. A move is not gone on with: what
    /// it had begun is undone, and what it had done is finished.
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
                Phase::Copying | Phase::Sealing { .. } | Phase::Aborting => Phase::Aborting,
                Phase::Window | Phase::Cleaning => Phase::Cleaning,
            };
        }
    }

    /// The shard whose copy is read beside the owner's, while a move's window
    /// is open.
    #[must_use]
    pub fn also_on(&self) -> Option<&ShardId> {
        let moving = self.moving.as_ref()?;
        // What was given up is not read.
        (moving.phase == Phase::Window && !moving.gives_up).then_some(&moving.from)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The slice that holds a poll.
pub fn slice_of(slices: &[Slice], poll: PollId) -> Option<&Slice> {
    let hash = poll.hash();
    slices
        .iter()
        .filter(|slice| slice.hash_from <= hash)
        .max_by_key(|slice| slice.hash_from)
}

/// A slice by its full name: whose it is, and which one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceId {
    /// The tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The slice's number within the tenant.
    pub slice: u32,
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant_id, self.slice)
    }
}

/// The number that fences writes: it grows with every change of a slice's
/// owner, and a shard accepts a write only at the epoch it owns the slice at.
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
    /// The epoch of a slice that has just been created.
    pub const FIRST: Self = Self(1);
}

/// An operator's word that a tenant belongs on one shard.
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
