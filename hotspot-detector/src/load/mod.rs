//! What was measured: samples of an interval, and the short and the long
//! window that a book of them gives.
//!
//! ```text
//!   a source ──► sample ──► book ──► short window (to react)
//!      record ──►                └─► long window  (to be sure)
//! ```
//! What was not measured is absent and never nought: a window with too little
//! in it has no values at all.

pub mod book;
pub mod flow;
pub mod hitters;
pub mod record;
pub mod ring;
pub mod sample;
pub mod shard_book;
pub mod source;
pub mod view;

pub use ballast_domain::sketch as latency;
pub use ballast_domain::sketch::Sketch;
pub use book::{Book, Refused};
pub use flow::Flow;
pub use hitters::Hitters;
pub use ring::{Spans, Window};
pub use sample::{
    Interval, IoWait, ItemName, ItemSample, KeySample, Sample, ShardSample, SliceSample,
};
pub use shard_book::ShardBook;
pub use source::MetricSource;
pub use view::{ItemView, KeyView, ShardView, SliceView};
