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
//!
//! A workflow, run:
//!
//! ```
//! use std::sync::Arc;
//! use ballast_state_machines::engine::{Engine, Registry, Settings, SystemClock, TaskContext, TaskError};
//! use ballast_state_machines::store::MemoryStore;
//! use serde_json::json;
//!
//! async fn greet(name: String, _: TaskContext) -> Result<String, TaskError> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let registry = Registry::new().function("greet", greet);
//! let store = Arc::new(MemoryStore::new());
//! let engine = Engine::new(store, registry, Arc::new(SystemClock), Settings::default()).await?;
//! engine.deploy("greeting", r#"{"StartAt": "Greet", "States": {
//!     "Greet": {"Type": "Task", "Resource": "greet", "InputPath": "$.name", "End": true}}}"#).await?;
//!
//! let id = engine.start("greeting", "first", json!({"name": "Ada"})).await?;
//! let ended = engine.ended(&id).await?.expect("it is there");
//! assert_eq!(ended.output, Some(json!("Hello, Ada!")));
//! engine.stop().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
