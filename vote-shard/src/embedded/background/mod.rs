//! Background threads of an open shard, and how they yield to votes.
//!
//! ```text
//!   committer       writes groups to the log and answers their callers
//!   spare_segments  creates the log's next file before it is needed
//!   throttle        pauses background work while votes arrive
//! ```

pub(in crate::embedded) mod committer;
pub(in crate::embedded) mod spare_segments;
pub(in crate::embedded) mod throttle;
