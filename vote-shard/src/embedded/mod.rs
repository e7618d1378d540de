//! The embedded engine: one directory per shard, nothing to install.

pub mod disk;
pub mod log;
