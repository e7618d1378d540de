//! The vocabulary of Ballast, pure: what a tenant, a slice, a shard, a route
//! and an epoch are, and where a slice is placed.
//!
//! Nothing here does I/O, reads a clock or draws a random number: time and
//! chance arrive as data, or through the traits in [`clock`] and [`entropy`].
//! The port traits that two rooms need (the [`registry`], the [`routes`] a
//! router reads) are declared here; their implementations are not.
//!
//! A type moves in when a second room needs it, not before.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod actor;
pub mod answers;
pub mod bounds;
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
pub mod token;

pub use actor::Actor;
pub use clock::{Clock, Timestamp};
pub use entropy::Entropy;
pub use error::{Error, ErrorCode, Result};
pub use id::{KeyId, RegionId, ShardId, TenantId, TokenId, ZoneId};
pub use poll::{ItemId, PollId, VoterId};
