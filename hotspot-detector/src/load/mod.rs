//! Load measurements: samples per interval, and the short and long window over them.
//!
//! ```text
//!   a source ──► sample ──► history ──► short window (to react)
//!      record ──►                   └─► long window  (to confirm)
//! ```
//! Missing measurements are absent, not zero: a window with too few measurements has no
//! values.

pub mod flow;
pub mod history;
pub mod hitters;
pub mod record;
pub mod ring;
pub mod sample;
pub mod shard_history;
pub mod source;
pub mod view;

pub use ballast_domain::sketch as latency;
pub use ballast_domain::sketch::Sketch;
pub use flow::Flow;
pub use history::{LoadHistory, SampleError};
pub use hitters::HeavyHitters;
pub use ring::{Spans, Window};
pub use sample::{
    Interval, IoWait, ItemName, ItemSample, KeySample, LoadSample, ShardSample, SliceSample,
};
pub use shard_history::ShardHistory;
pub use source::MetricSource;
pub use view::{ItemWindow, KeyWindow, ShardWindow, SliceWindow};
