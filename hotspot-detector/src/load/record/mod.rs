//! Recorded load: plain lines of JSON that anyone can write, so that load can be
//! kept, replayed and fed in from elsewhere. The format is in
//! `docs/load-format.md`; a golden file keeps it.
//!
//! Pure: lines come and go as text, files are opened elsewhere.

mod downsample;
mod line;
mod read;
mod write;

pub use downsample::{Tier, compact, downsample};
pub use read::{BadLine, Reader, read};
pub use write::{header, lines};

/// The version of the format.
pub const VERSION: u32 = 1;
/// The name of the format.
pub const FORMAT: &str = "ballast-load";
