//! The columns, their encodings, and the metadata keys.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::errors::Result;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, Type};

/// The version that this program writes, and the newest that it reads.
pub(super) const VERSION: u32 = 1;
/// Maximum rows per group: what is in memory at once.
pub(in crate::archive) const ROWS_PER_GROUP: usize = 16_384;
/// The first and last bytes of every file.
pub(in crate::archive) const MAGIC: &[u8; 4] = b"PAR1";

/// Metadata keys.
pub(super) const FORMAT: &str = "ballast.format";
pub(super) const POLL: &str = "ballast.pollID";
pub(super) const ROWS: &str = "ballast.rows";
pub(super) const DIGEST: &str = "ballast.digest";
pub(super) const GROUPS: &str = "ballast.groups";

/// Indexes of the leaf columns.
pub(super) const PRINT: usize = 0;
pub(super) const VOTER: usize = 1;
pub(super) const ITEMS: usize = 2;
pub(super) const EPOCH: usize = 3;
pub(super) const REVISION: usize = 4;
pub(super) const REQUESTS: usize = 5;
pub(super) const REQUEST_REVISIONS: usize = 6;
pub(super) const VOTED_AT: usize = 7;

/// One row per voter.
const SCHEMA: &str = "message vote {
  required fixed_len_byte_array(16) print;
  optional binary voterID (STRING);
  required group items (LIST) {
    repeated group list { required int32 element (INTEGER(16,false)); }
  }
  required int64 epoch (INTEGER(64,false));
  required int32 revision (INTEGER(32,false));
  required group requests (LIST) {
    repeated group list {
      required group element {
        required int64 id (INTEGER(64,false));
        required int32 revision (INTEGER(32,false));
      }
    }
  }
  required int64 votedAt (TIMESTAMP(MILLIS,true));
}";

pub(super) fn columns() -> Result<Arc<Type>> {
    parse_message_type(SCHEMA).map(Arc::new)
}

/// Encodings: random columns plain, times as differences, others with
/// dictionaries where these are smaller.
pub(super) fn properties() -> WriterProperties {
    let column = ColumnPath::from;
    let ids = || {
        ColumnPath::new(
            ["requests", "list", "element", "id"]
                .map(str::to_owned)
                .into(),
        )
    };
    WriterProperties::builder()
        .set_created_by("ballast".to_owned())
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(None)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_statistics_enabled(column("print"), EnabledStatistics::Page)
        .set_column_dictionary_enabled(column("print"), false)
        .set_column_compression(column("print"), Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(column("voterID"), false)
        .set_column_statistics_enabled(column("voterID"), EnabledStatistics::None)
        .set_column_dictionary_enabled(ids(), false)
        .set_column_compression(ids(), Compression::UNCOMPRESSED)
        .set_column_statistics_enabled(ids(), EnabledStatistics::None)
        .set_column_dictionary_enabled(column("votedAt"), false)
        .set_column_encoding(column("votedAt"), Encoding::DELTA_BINARY_PACKED)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: PRINT as i32,
            descending: false,
            nulls_first: false,
        }]))
        .build()
}

/// A group's checksum: half of a BLAKE3 hash, in hexadecimal.
pub(super) fn group_checksum(bytes: &[u8]) -> String {
    let mut hex = blake3::hash(bytes).to_hex().to_string();
    hex.truncate(32);
    hex
}
