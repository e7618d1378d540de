//! The interpreter: applies events to an execution. It is pure: its only clock
//! is the time of the events, its only randomness is the seed of the execution,
//! and it performs no effects itself.
//!
//! ```text
//!   apply(definition, execution, event at a time) ─▶ effects, history
//!
//!   execution   the complete state of a running workflow, as data
//!   run         the progress of one machine of the definition
//!   apply       handles events and ends executions
//!   interpreter runs take turns, one state per turn
//!   simple, task, map, children    the states
//!   nested      tasks that start other executions
//!   fail        Retry, Catch, and propagation to the parent
//!   scope       the scope of expressions
//!   payload     input and output processing of states
//!   history     the history, in the format of Step Functions
//! ```
//!
//! The driver makes an event durable, applies it, performs the effects, and
//! turns their results into the next events. After a crash the driver loads the
//! execution, or replays the events, and performs the
//! [outstanding](Execution::outstanding) effects.
//!
//! ```
//! use ballast_state_machines::core::{
//!     Effect, Execution, ExecutionEvent, ExecutionLimits, ExecutionStart, ExecutionStatus,
//!     TimedEvent, apply,
//! };
//! use ballast_state_machines::language::Definition;
//! use serde_json::json;
//!
//! let definition = Definition::parse(
//!     r#"{"StartAt": "Copy", "States": {
//!         "Copy": {"Type": "Task", "Resource": "ballast:copy", "End": true}}}"#,
//! ).expect("it is valid");
//! let mut execution = Execution::default();
//! let start = ExecutionStart {
//!     execution_id: "run-1".to_owned(),
//!     name: "run-1".to_owned(),
//!     machine: "copying".to_owned(),
//!     role: String::new(),
//!     input: json!({"from": "a", "to": "b"}),
//!     at_ms: 0,
//!     seed: 7,
//!     limits: ExecutionLimits::default(),
//!     origin: None,
//! };
//! let outcome = apply(&definition, &mut execution, TimedEvent::new(ExecutionEvent::Begun(Box::new(start)), 0));
//! let [Effect::RunTask(order)] = outcome.effects.as_slice() else { panic!("expected a task") };
//!
//! let done = ExecutionEvent::TaskSucceeded { task: order.task, output: json!({"rows": 3}) };
//! apply(&definition, &mut execution, TimedEvent::new(done, 10));
//! assert_eq!(execution.status(), ExecutionStatus::Succeeded);
//! assert_eq!(execution.output(), Some(&json!({"rows": 3})));
//! ```

mod apply;
mod children;
mod clock;
mod effect;
pub mod errors;
mod event;
mod execution;
mod fail;
mod history;
mod ids;
mod interpreter;
mod map;
mod nested;
mod payload;
mod resource;
mod run;
mod scope;
mod simple;
mod task;

pub use apply::{apply, replay};
pub use effect::{Effect, EventOutcome, Iteration, RunTask};
pub use event::{ExecutionEvent, ExecutionLimits, ExecutionStart, ParentTask, TimedEvent};
pub use execution::{Execution, ExecutionStatus, Position, RunActivity, TaskInFlight};
pub use history::{HistoryEvent, HistoryType};
pub use ids::{RunId, TaskId, TimerId, parse_token};
pub use nested::NestedStart;

use run::Failure;
