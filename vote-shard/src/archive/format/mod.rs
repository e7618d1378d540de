//! The file format: Parquet, with Ballast's metadata. Version 1.
//!
//! ```text
//!   4  "PAR1"
//!   …  groups of up to 16,384 rows, sorted by fingerprint, each with a checksum
//!   …  tail: page indexes, metadata, its length, "PAR1"; covered by the checksum
//!      that the shard keeps
//! ```
//! The metadata contains the groups' checksums. So the shard's checksum covers
//! the whole file, and a single group can be verified without the rest.

mod decode;
mod encode;
mod schema;

pub(super) use decode::{FileTail, PrintedRow};
pub(super) use encode::{Encoded, Encoder};
pub(super) use schema::{MAGIC, ROWS_PER_GROUP};
