//! The control plane: stores tenants, shards and placements, and authorises
//! operators.
//!
//! ```text
//!   api/ ──► tenants, keys, shards, placements, tokens, events ──► registry
//!            (operator requests, one file each)
//!   reconcile ── the shared loop of the reconcilers:
//!     fleet_reconciler ──── follows the registry's change feed: refreshes the fleet
//!                           cache, records shard pressure, deletes expired replies
//!     migrations::reconciler ── restarts migrations that no execution works on
//!   route_source ── serves routes to routers
//!   workflows ── deployed definitions and their executions, on the state-machines engine
//!   migrations, drains ── moving slices one at a time, and many at once
//!   load ── the load of every shard and tenant, now and in the past
//!   hotspots ── detection, diagnosis and cures
//!   calendar ── polls that expect many voters: preparation and move freezes
//!   shares ── links to a poll's results; reloads ── audit of settings reloads
//!   slicing ── splitting tenants into more slices, and merging them
//! ```
//! The API only writes intent to the registry. Reconcilers read it from there
//! and act on it. Nothing here calls a router.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod api;
pub mod bootstrap;
pub mod calendar;
pub mod change;
pub mod drains;
pub mod events;
pub mod fleet;
pub mod fleet_reconciler;
pub mod hotspots;
pub mod idempotency;
pub mod intent;
pub mod keys;
pub mod load;
pub mod migrations;
pub mod placements;
pub mod plane;
pub mod reconcile;
pub mod registry;
pub mod reloads;
pub mod route_source;
pub mod shards;
pub mod shares;
pub mod slicing;
pub mod tenants;
#[cfg(test)]
mod testing;
pub mod tokens;
pub mod validate;
pub mod workflows;

pub use plane::{ControlPlane, ControlPlaneSettings};
pub use workflows::Workflows;
