//! The control plane: who the tenants are, where they are, and who may ask.
//!
//! ```text
//!   api/ ──► tenants, keys, shards, placements, tokens, events ──► registry
//!            (what an operator can ask for, one file each)
//!   keeper ── follows the registry's change feed: keeps the fleet in memory,
//!             notes which shards are filling up, forgets old replies
//!   route_source ── what routers read
//!   workflows ── what is deployed and what runs, on the engine of state-machines
//!   migrations, drains ── moves of slices, one by one and many at once
//!   load ── what every shard and tenant uses, now and in the past
//!   hotspots ── what is hot, why, and what is done about it
//!   calendar ── polls that expect many voters, prepared for and left alone
//!   shares ── links to a poll's results; reloads ── settings read again
//!   slicing ── tenants cut into more slices, and joined again
//! ```
//! The API writes intent into the registry; whatever follows from it is found
//! there by those who follow its feed. Nothing here calls a router.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod api;
pub mod bootstrap;
pub mod calendar;
pub mod change;
pub mod drains;
pub mod events;
pub mod fleet;
pub mod hotspots;
pub mod idempotency;
pub mod intent;
pub mod keeper;
pub mod keys;
pub mod load;
pub mod migrations;
pub mod placements;
pub mod plane;
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

pub use plane::{ControlPlane, Settings};
pub use workflows::Workflows;
