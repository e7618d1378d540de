//! Workflow definitions in the Amazon States Language, and the engine that
//! runs them. It knows nothing of shards or votes.
//!
//! ```text
//!   language   a definition: read, checked, drawn
//!   data       what a state does with JSON: paths, templates, JSONata, choices
//!   core       what an event does to an execution: the interpreter, pure
//!   trial      a definition tried with given answers, on a simulated clock
//!   store      where executions are kept
//!   engine     runs executions durably: core and store, driven
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod core;
pub mod data;
pub mod definitions;
pub mod engine;
pub mod language;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trial;
