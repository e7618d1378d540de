//! Workflow definitions in the Amazon States Language, and the engine that runs them.
//! This crate does not know shards or votes.
//!
//! ```text
//!   language   parses, checks and draws definitions
//!   data       JSON processing of states: paths, templates, JSONata, conditions
//!   core       the interpreter: what an event does to an execution; pure
//!   trial      tries a definition with given task results, on a simulated clock
//!   store      keeps executions
//!   engine     runs executions durably, with core and store
//! ```
//!
//! Running a workflow:
//!
//! ```
//! use std::sync::Arc;
//! use ballast_state_machines::engine::{
//!     Engine, EngineSettings, HandlerRegistry, SystemClock, TaskContext, TaskError,
//! };
//! use ballast_state_machines::store::MemoryStore;
//! use serde_json::json;
//!
//! async fn greet(name: String, _: TaskContext) -> Result<String, TaskError> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let registry = HandlerRegistry::new().with_function("greet", greet);
//! let store = Arc::new(MemoryStore::new());
//! let engine = Engine::new(store, registry, Arc::new(SystemClock), EngineSettings::default()).await?;
//! engine.deploy("greeting", r#"{"StartAt": "Greet", "States": {
//!     "Greet": {"Type": "Task", "Resource": "greet", "InputPath": "$.name", "End": true}}}"#).await?;
//!
//! let id = engine.start("greeting", "first", json!({"name": "Ada"})).await?;
//! let ended = engine.wait_for_end(&id).await?.expect("it exists");
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
