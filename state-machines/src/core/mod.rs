//! The interpreter: what an event does to an execution. Pure; it knows no
//! clock but the events' times, no chance but the execution's seed, and does
//! nothing itself.
//!
//! ```text
//!   apply(definition, execution, event at a time) ─▶ effects, history
//!
//!   execution   everything about a running workflow, as data
//!   run         one machine of the definition on its way
//!   apply       an event taken in, an execution ended
//!   walk        runs take turns, a state each
//!   simple, task, family, map    the states
//!   nested      tasks that start executions
//!   fail        retried, caught, handed up
//!   look        what expressions may look at
//!   payload     what states make of JSON
//!   history     what is told of it, as Step Functions tells it
//! ```
//!
//! Whoever drives it makes an event durable, applies it, carries the effects
//! out, and makes what comes of them the next events. After a crash it reads
//! the execution, or applies the events anew, and carries out what is
//! [outstanding](Execution::outstanding).
//!
//! ```
//! use ballast_state_machines::core::{At, Begin, Effect, Event, Execution, Limits, Status, apply};
//! use ballast_state_machines::language::Definition;
//! use serde_json::json;
//!
//! let definition = Definition::parse(
//!     r#"{"StartAt": "Copy", "States": {
//!         "Copy": {"Type": "Task", "Resource": "ballast:copy", "End": true}}}"#,
//! ).expect("it is valid");
//! let mut execution = Execution::default();
//! let begin = Begin {
//!     execution_id: "run-1".to_owned(),
//!     name: "run-1".to_owned(),
//!     machine: "copying".to_owned(),
//!     role: String::new(),
//!     input: json!({"from": "a", "to": "b"}),
//!     at_ms: 0,
//!     seed: 7,
//!     limits: Limits::default(),
//!     origin: None,
//! };
//! let outcome = apply(&definition, &mut execution, At::new(Event::Begun(Box::new(begin)), 0));
//! let [Effect::RunTask(order)] = outcome.effects.as_slice() else { panic!("a task is to be run") };
//!
//! let done = Event::TaskSucceeded { task: order.task, output: json!({"rows": 3}) };
//! apply(&definition, &mut execution, At::new(done, 10));
//! assert_eq!(execution.status(), Status::Succeeded);
//! assert_eq!(execution.output(), Some(&json!({"rows": 3})));
//! ```

mod apply;
mod clock;
mod effect;
pub mod errors;
mod event;
mod execution;
mod fail;
mod family;
mod history;
mod ids;
mod look;
mod map;
mod nested;
mod payload;
mod resource;
mod run;
mod simple;
mod task;
mod walk;

pub use apply::{apply, replay};
pub use effect::{Effect, Iteration, Outcome, RunTask};
pub use event::{Begin, Event, Limits, Origin, TimedEvent};
pub use execution::{Doing, Execution, InFlight, Position, Status};
pub use history::{HistoryEvent, HistoryType};
pub use ids::{RunId, TaskId, TimerId, token_names};
pub use nested::Nested;

use run::Failure;
