//! What a shard is: a place that stores many tenants' votes and accepts a
//! write only as the owner of its slice at the very epoch the write carries.
//!
//! ```text
//!   shard/         the trait that every engine implements, and its words
//!   conformance/   the one suite that every engine passes; for the tests of
//!                  other crates behind the feature `conformance`
//!   archive/       closed polls in Parquet files, beside whichever engine
//!   embedded/      the engine that needs nothing but a directory
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod archive;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
pub mod shard;
pub mod testing;

pub use shard::{At, ShardError, ShardResult, Shards, Tally, Usage, VoteShard};
