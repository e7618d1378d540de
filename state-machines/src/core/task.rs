//! A Task: handed out, and waited for.

use serde_json::Value;

use super::execution::InFlight;
use super::look::Beside;
use super::payload::{self, InField, Trouble};
use super::resource::Resource;
use super::run::{Failure, Phase, Run};
use super::walk::{Fate, Walk};
use super::{Effect, RunId, RunTask, TaskId, ids};
use crate::data::{Scope, pipeline};
use crate::language::State;
use crate::language::model::{Given, Task};

/// What a Task says of its work.
struct Terms {
    input: Value,
    timeout_ms: Option<i64>,
    heartbeat_ms: Option<i64>,
    credentials: Option<Value>,
}

impl<'a> Walk<'a> {
    pub(super) fn try_task(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        task: &'a Task,
    ) -> Fate {
        let token = self.next_token();
        let waits = Resource::of(&task.resource).waits_for_callback();
        let beside = Beside {
            token: waits.then_some(token.as_str()),
            ..Beside::default()
        };
        let terms = self.look(id, run, state, beside, |scope| terms(state, task, scope));
        let terms = match terms {
            Ok(terms) => terms,
            Err(trouble) => return self.trouble(id, run, state, trouble),
        };
        if let Err(fault) = pipeline::check_size(&terms.input, "what the task is given") {
            return self.fail(id, run, state, Failure::new(fault.error, fault.cause));
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
        let resource = Resource::of(&task.resource);
        for (kind, details) in [resource.scheduled(&order), resource.started()] {
            self.write(run, kind, details);
        }
        let task = self.order(id, order);
        if let Some(flight) = self.execution.tasks.get_mut(&task) {
            flight.is_started = true;
        }
        run.phase = Phase::Working(task);
        Fate::Stays
    }

    /// The token of the task that is made next.
    pub(super) fn next_token(&self) -> String {
        let next = TaskId(self.execution.made.tasks + 1);
        ids::token(&self.execution.id, next, self.execution.seed)
    }

    /// Hands out a task.
    pub(super) fn order(&mut self, run: RunId, mut order: RunTask) -> TaskId {
        self.execution.made.tasks += 1;
        let task = TaskId(self.execution.made.tasks);
        order.task = task;
        self.effects.push(Effect::RunTask(Box::new(order.clone())));
        let flight = InFlight {
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

fn terms(state: &State, task: &Task, scope: &Scope<'_>) -> Result<Terms, Trouble> {
    let input = payload::effective(state, scope)?;
    let inner = scope.with_input(&input);
    let milliseconds = |given: &Option<Given<u64>>, field| match given {
        None => Ok(None),
        Some(given) => payload::whole(given, 1, &inner)
            .in_field(field)
            .map(|seconds| Some(super::clock::later(0, seconds))),
    };
    let timeout_ms = milliseconds(&task.timeout_seconds, "TimeoutSeconds")?;
    let heartbeat_ms = milliseconds(&task.heartbeat_seconds, "HeartbeatSeconds")?;
    let credentials = match &task.credentials {
        None => None,
        Some(template) => Some(payload::filled(state, template, "Credentials", scope)?),
    };
    Ok(Terms {
        input: payload::arguments(state, task.arguments.as_ref(), scope)?,
        timeout_ms,
        heartbeat_ms,
        credentials,
    })
}
