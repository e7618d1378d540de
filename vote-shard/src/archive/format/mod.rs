//! The bytes of a file: Parquet, and what Ballast writes into its metadata.
//! Version 1.
//!
//! ```text
//!   4  "PAR1"
//!   …  groups of up to 16,384 rows, sorted by print, each under a checksum
//!   …  tail: page indexes, metadata, its length, "PAR1"; under the checksum
//!      that the shard keeps
//! ```
//! The metadata has the checksums of the groups, so all of a file is under the
//! one in the shard, and a single group can be trusted without the rest.

mod decode;
mod encode;
mod schema;

pub(super) use decode::{FileTail, PrintedRow};
pub(super) use encode::{Encoded, Encoder};
pub(super) use schema::{MAGIC, ROWS_PER_GROUP};
