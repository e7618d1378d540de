//! The vote shard: stores many tenants' votes. It accepts a write only while it
//! owns the write's slice at exactly the epoch that the write carries.
//!
//! ```text
//!   shard/         the `VoteShard` trait, and its types
//!   conformance/   the test suite that every engine passes; other crates enable
//!                  it with the feature `conformance`
//!   archive/       closed polls in Parquet files, for any engine
//!   embedded/      the engine that needs nothing but a directory
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod archive;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
pub mod shard;
pub mod testing;

pub use shard::{
    FencedSlice, ShardDirectory, ShardError, ShardResult, ShardUsage, Tally, VoteShard,
};
