//! The domain types of Ballast, pure: tenants, slices, shards, routes and epochs, and the
//! placement of slices.
//!
//! Nothing here does I/O, reads a clock or draws random numbers: time and randomness are
//! parameters, or come through the traits in [`clock`] and [`entropy`]. Ports that several
//! crates need (the [`registry`], the [`routes`] of a router) are declared here and
//! implemented elsewhere.
//!
//! A type belongs here only if two crates need it.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod actor;
pub mod bounds;
pub mod call_stats;
pub mod certificate;
pub mod clock;
pub mod credential;
pub mod entropy;
pub mod error;
pub mod hold;
pub mod id;
pub mod key;
pub mod limits;
pub mod maintenance;
pub mod migration;
pub mod moving;
pub mod object;
pub mod placement;
pub mod poll;
pub mod registry;
pub mod residency;
pub mod routes;
pub mod shard;
pub mod sketch;
pub mod slicing;
pub mod tenant;
pub mod text;
pub mod token;

pub use actor::Actor;
pub use clock::{Clock, Timestamp};
pub use entropy::Entropy;
pub use error::{Error, ErrorCode, Result};
pub use id::{KeyId, RegionId, ShardId, TenantId, TokenId, ZoneId};
pub use poll::{ItemId, PollId, VoterId};
