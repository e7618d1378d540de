//! The Task state: starts a task and waits for its result.

use serde_json::Value;

use super::execution::TaskInFlight;
use super::interpreter::{Interpreter, TurnOutcome};
use super::payload::{self, FieldFault, InField};
use super::resource::Resource;
use super::run::{Failure, Phase, Run};
use super::scope::ExtraContext;
use super::{Effect, RunId, RunTask, TaskId, ids};
use crate::data::{EvaluationScope, pipeline};
use crate::language::State;
use crate::language::model::{FieldValue, TaskState};

/// The evaluated fields of a Task state.
struct EvaluatedTask {
    input: Value,
    timeout_ms: Option<i64>,
    heartbeat_ms: Option<i64>,
    credentials: Option<Value>,
}

impl<'a> Interpreter<'a> {
    pub(super) fn try_task(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        task: &'a TaskState,
    ) -> TurnOutcome {
        let token = self.make_next_token();
        let waits = Resource::from_name(&task.resource).waits_for_callback();
        let extra = ExtraContext {
            token: waits.then_some(token.as_str()),
            ..ExtraContext::default()
        };
        let terms = self.with_scope(id, run, state, extra, |scope| {
            evaluate_task(state, task, scope)
        });
        let terms = match terms {
            Ok(terms) => terms,
            Err(field_fault) => return self.fail_with_fault(id, run, state, field_fault),
        };
        if let Err(fault) = pipeline::check_size(&terms.input, "the input of the task") {
            return self.handle_failure(id, run, state, Failure::new(fault.error, fault.cause));
        }
        let order = RunTask {
            task: TaskId(0),
            resource: task.resource.clone(),
            input: terms.input,
            token,
            attempt: run.attempts,
            state: state.name.clone(),
            iterations: self.execution.iterations(run),
            timeout_ms: terms.timeout_ms,
            heartbeat_ms: terms.heartbeat_ms,
            credentials: terms.credentials,
            waits_for_callback: waits,
        };
        let resource = Resource::from_name(&task.resource);
        for (kind, details) in [resource.scheduled(&order), resource.started()] {
            self.record_run_event(run, kind, details);
        }
        let task = self.start_task(id, order);
        if let Some(flight) = self.execution.tasks.get_mut(&task) {
            flight.is_started = true;
        }
        run.phase = Phase::Working(task);
        TurnOutcome::Continues
    }

    /// The token of the next task.
    pub(super) fn make_next_token(&self) -> String {
        let next = TaskId(self.execution.counters.tasks + 1);
        ids::make_token(&self.execution.id, next, self.execution.seed)
    }

    /// Starts a task: assigns its id and emits the effect.
    pub(super) fn start_task(&mut self, run: RunId, mut order: RunTask) -> TaskId {
        self.execution.counters.tasks += 1;
        let task = TaskId(self.execution.counters.tasks);
        order.task = task;
        self.effects.push(Effect::RunTask(Box::new(order.clone())));
        let flight = TaskInFlight {
            run,
            is_started: false,
            is_submitted: false,
            ordered_at_ms: self.now,
            submitted_at_ms: None,
            child: None,
            order,
        };
        self.execution.tasks.insert(task, flight);
        task
    }
}

fn evaluate_task(
    state: &State,
    task: &TaskState,
    scope: &EvaluationScope<'_>,
) -> Result<EvaluatedTask, FieldFault> {
    let input = payload::effective_input(state, scope)?;
    let inner = scope.with_input(&input);
    let milliseconds = |given: &Option<FieldValue<u64>>, field| match given {
        None => Ok(None),
        Some(given) => payload::resolve_whole(given, 1, &inner)
            .in_field(field)
            .map(|seconds| Some(super::clock::add_seconds(0, seconds))),
    };
    let timeout_ms = milliseconds(&task.timeout_seconds, "TimeoutSeconds")?;
    let heartbeat_ms = milliseconds(&task.heartbeat_seconds, "HeartbeatSeconds")?;
    let credentials = match &task.credentials {
        None => None,
        Some(template) => Some(payload::fill_field(state, template, "Credentials", scope)?),
    };
    Ok(EvaluatedTask {
        input: payload::evaluate_arguments(state, task.arguments.as_ref(), scope)?,
        timeout_ms,
        heartbeat_ms,
        credentials,
    })
}
