//! What a shard is: a place that stores many tenants' votes and accepts a
//! write only as the owner of its slice at the very epoch the write carries.
//!
//! ```text
//!   embedded/disk   all file access, behind one small trait; a simulated disk
//!   embedded/log    the truth of the embedded engine: checksummed groups
//! ```
//! So far there is the ground that the embedded engine will stand on: its log
//! and the disk under it. The trait that every engine implements, its
//! conformance suite and the engine itself come next.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
pub mod shard;
pub mod testing;

pub use shard::{At, ShardError, ShardResult, Shards, Tally, Usage, VoteShard};
