//! Workflow definitions in the Amazon States Language, and the engine that
//! runs them. It knows nothing of shards or votes.
//!
//! ```text
//!   language   a definition: read, checked, drawn
//!   data       what a state does with JSON: paths, templates, JSONata, choices
//!   store      where executions are kept
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod data;
pub mod language;
pub mod store;
