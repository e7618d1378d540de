//! The load record format: lines of JSON that other programs can write too, so that load can
//! be stored, replayed and imported. The format is specified in `docs/load-format.md` and
//! pinned by a golden file.
//!
//! Pure: lines are text; files are opened elsewhere.

mod downsample;
mod line;
mod read;
mod write;

pub use downsample::{Tier, compact, downsample};
pub use read::{BadLine, RecordReader, read};
pub use write::{header, lines};

/// The version of the format.
pub const VERSION: u32 = 1;
/// The name of the format.
pub const FORMAT: &str = "ballast-load";
