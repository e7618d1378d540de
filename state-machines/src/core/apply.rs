//! Applies one event to an execution, and ends executions.

use serde_json::{Map, Value, json};

use super::event::{ExecutionEvent, ExecutionStart, TimedEvent};
use super::execution::{Execution, ExecutionStatus, TaskInFlight, TimerTarget};
use super::history::{Details, HistoryType};
use super::interpreter::Interpreter;
use super::resource::Resource;
use super::run::{Failure, Phase, Run};
use super::{Effect, EventOutcome, NestedStart, RunId, TaskId, TimerId, clock};
use crate::data::{MILLISECONDS_MAX, REPLAY_MILLISECONDS_MAX, errors, pipeline};
use crate::language::Definition;

/// Applies an event to an execution.
///
/// The result is deterministic in the execution, the event and the time, unless
/// a JSONata expression times out; [`EventOutcome::is_out_of_time`] reports that.
/// The driver performs the effects once the event is durable. If it crashes
/// before that, [`Execution::outstanding`] lists what is left to do.
///
/// An event that is stale or repeated changes nothing; the outcome is then not
/// `accepted`.
pub fn apply(definition: &Definition, execution: &mut Execution, at: TimedEvent) -> EventOutcome {
    apply_within(definition, execution, at, MILLISECONDS_MAX)
}

/// Applies an event from the journal again, to restore the execution. Expressions
/// get a longer time limit than in [`apply`], so that a slower machine does not
/// decide otherwise.
pub fn replay(definition: &Definition, execution: &mut Execution, at: TimedEvent) -> EventOutcome {
    apply_within(definition, execution, at, REPLAY_MILLISECONDS_MAX)
}

fn apply_within(
    definition: &Definition,
    execution: &mut Execution,
    at: TimedEvent,
    milliseconds_max: u64,
) -> EventOutcome {
    // The wall clock may step back; the time of an execution never does.
    let now = at.at_ms.max(execution.changed_at_ms);
    let mut walk = Interpreter::new(definition, execution, now);
    walk.milliseconds_max = milliseconds_max;
    if !walk.handle_event(at.event) {
        return EventOutcome::default();
    }
    walk.execution.changed_at_ms = now;
    walk.run_turns();
    walk.into_outcome()
}

impl Interpreter<'_> {
    /// Handles an event. Returns whether it changed anything.
    fn handle_event(&mut self, event: ExecutionEvent) -> bool {
        match (self.execution.status, event) {
            (ExecutionStatus::Pending, ExecutionEvent::Begun(start)) => {
                self.start_execution(*start)
            }
            (ExecutionStatus::Running, event) => return self.handle_running_event(event),
            _ => return false,
        }
        true
    }

    fn handle_running_event(&mut self, event: ExecutionEvent) -> bool {
        match event {
            ExecutionEvent::Begun(_) => false,
            ExecutionEvent::TaskStarted { task } => self.handle_task_started(task),
            ExecutionEvent::TaskSubmitted { task, output } => {
                self.handle_task_submitted(task, &output)
            }
            ExecutionEvent::TaskSucceeded { task, output } => {
                self.handle_task_succeeded(task, output)
            }
            ExecutionEvent::TaskFailed { task, error, cause } => {
                self.handle_task_failed(task, Failure::new(error, cause), false)
            }
            ExecutionEvent::TaskTimedOut { task, heartbeat } => {
                let failure = Failure {
                    error: Some(super::errors::TIMEOUT.to_owned()),
                    cause: None,
                    is_heartbeat: heartbeat,
                };
                self.handle_task_failed(task, failure, true)
            }
            ExecutionEvent::TimerFired { timer } => self.handle_timer(timer),
            ExecutionEvent::Continued { turn } => {
                let awaited = self.execution.awaited_turn == Some(turn);
                if awaited {
                    self.execution.awaited_turn = None;
                }
                awaited
            }
            ExecutionEvent::Paused => !std::mem::replace(&mut self.execution.is_paused, true),
            ExecutionEvent::Resumed => std::mem::replace(&mut self.execution.is_paused, false),
            ExecutionEvent::Failed { error, cause } => {
                self.end_with_failure(ExecutionStatus::Failed, 0, Failure::new(error, cause));
                true
            }
            ExecutionEvent::Cancelled { error, cause } => {
                let failure = Failure {
                    error,
                    cause,
                    is_heartbeat: false,
                };
                self.end_with_failure(ExecutionStatus::Aborted, 0, failure);
                true
            }
        }
    }

    fn start_execution(&mut self, start: ExecutionStart) {
        let too_large = pipeline::check_size(&start.input, "the input").err();
        let machine_name = start.machine.rsplit(':').next().unwrap_or_default();
        let mut context = Map::new();
        context.insert(
            "Execution".to_owned(),
            json!({
                "Id": start.execution_id,
                "Input": start.input,
                "StartTime": clock::to_iso8601(start.at_ms),
                "Name": start.name,
                "RoleArn": start.role,
                "RedriveCount": 0,
            }),
        );
        context.insert(
            "StateMachine".to_owned(),
            json!({"Id": start.machine, "Name": machine_name}),
        );
        let details = Details::new()
            .with_payload("input", &start.input)
            .with("roleArn", start.role);
        *self.execution = Execution {
            id: start.execution_id,
            name: start.name,
            status: ExecutionStatus::Running,
            begun_at_ms: start.at_ms,
            seed: start.seed,
            limits: start.limits,
            origin: start.origin,
            context,
            ..Execution::default()
        };
        self.budget = start.limits.states_per_event_max.max(1);
        self.record_event(0, HistoryType::ExecutionStarted, details);
        if let Some(fault) = too_large {
            let failure = Failure::new(fault.error, fault.cause);
            return self.end_with_failure(ExecutionStatus::Failed, 0, failure);
        }
        let start_at = self.definition.start_at().to_owned();
        // As on AWS, the first state has no previous event, not even
        // ExecutionStarted.
        let run = Run::new(None, start_at, start.input, 0, false);
        self.add_run(run);
        if let Some(seconds) = self.definition.timeout_seconds() {
            let at_ms = clock::add_seconds(start.at_ms, seconds);
            self.set_timer(at_ms, TimerTarget::Deadline);
        }
    }

    fn handle_task_started(&mut self, task: TaskId) -> bool {
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        let news = !flight.is_started;
        self.record_task_started(&mut flight);
        self.execution.tasks.insert(task, flight);
        news
    }

    /// Records that a task started, unless that is recorded already: a result
    /// implies a start.
    fn record_task_started(&mut self, flight: &mut TaskInFlight) {
        if !std::mem::replace(&mut flight.is_started, true) {
            let started = Resource::from_name(&flight.order.resource).started();
            self.record_task_event(flight.run, started);
        }
    }

    fn handle_task_submitted(&mut self, task: TaskId, output: &Value) -> bool {
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        let news = !flight.is_submitted;
        if news {
            self.record_task_started(&mut flight);
            flight.is_submitted = true;
            flight.submitted_at_ms = Some(self.now);
            if NestedStart::from_resource(&flight.order.resource).is_some() {
                let child = output.get("ExecutionArn").and_then(Value::as_str);
                flight.child = child.map(str::to_owned);
            }
            if let Some(submitted) = Resource::from_name(&flight.order.resource).submitted(output) {
                self.record_task_event(flight.run, submitted);
            }
        }
        self.execution.tasks.insert(task, flight);
        news
    }

    fn handle_task_succeeded(&mut self, task: TaskId, output: Value) -> bool {
        // The result of an item reader is not passed on as a payload, so the
        // size limit does not apply.
        if !self.is_reading(task)
            && let Err(fault) = pipeline::check_size(&output, "the result")
        {
            return self.handle_task_failed(task, Failure::new(fault.error, fault.cause), false);
        }
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        self.record_task_started(&mut flight);
        let succeeded = Resource::from_name(&flight.order.resource).succeeded(&output);
        self.record_task_event(flight.run, succeeded);
        self.resume_run(flight.run, |phase| match phase {
            Phase::Reading(_) => Phase::Read(output),
            _ => Phase::Finished(output),
        });
        true
    }

    fn handle_task_failed(&mut self, task: TaskId, mut failure: Failure, timed_out: bool) -> bool {
        let is_reading = self.is_reading(task);
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        self.record_task_started(&mut flight);
        let resource = Resource::from_name(&flight.order.resource);
        let written = match timed_out {
            true => resource.timed_out(&failure),
            false => resource.failed(&failure),
        };
        self.record_task_event(flight.run, written);
        if is_reading {
            failure.error = Some(super::errors::ITEM_READER_FAILED.to_owned());
            let details = failure.details(Details::new());
            if let Some(mut run) = self.execution.runs.remove(&flight.run) {
                self.record_run_event(&mut run, HistoryType::MapRunFailed, details);
                self.execution.runs.insert(flight.run, run);
            }
        }
        self.resume_run(flight.run, |_| Phase::Failing(failure));
        true
    }

    fn is_reading(&self, task: TaskId) -> bool {
        let flight = self.execution.tasks.get(&task);
        let run = flight.and_then(|flight| self.execution.runs.get(&flight.run));
        run.is_some_and(|run| matches!(run.phase, Phase::Reading(_)))
    }

    /// Records a history event for a task of a run. Tasks of item readers have no
    /// history.
    fn record_task_event(&mut self, id: RunId, (kind, details): (HistoryType, Details)) {
        let Some(mut run) = self.execution.runs.remove(&id) else {
            return;
        };
        if !matches!(run.phase, Phase::Reading(_)) {
            self.record_run_event(&mut run, kind, details);
        }
        self.execution.runs.insert(id, run);
    }

    fn handle_timer(&mut self, timer: TimerId) -> bool {
        let Some(alarm) = self.execution.timers.remove(&timer) else {
            return false;
        };
        match alarm.wakes {
            TimerTarget::Deadline => {
                let failure = Failure::new(
                    super::errors::TIMEOUT,
                    "the execution took longer than its definition allows",
                );
                self.end_with_failure(ExecutionStatus::TimedOut, 0, failure);
            }
            TimerTarget::Run(run) => self.resume_run(run, |phase| match phase {
                Phase::Waiting(_) => Phase::Finished(Value::Null),
                _ => Phase::Trying,
            }),
        }
        true
    }

    /// Puts a run into its next phase and makes it ready.
    fn resume_run(&mut self, id: RunId, next: impl FnOnce(&Phase) -> Phase) {
        if let Some(run) = self.execution.runs.get_mut(&id) {
            run.phase = next(&run.phase);
            self.execution.ready.push_back(id);
        }
    }

    /// Ends the execution as succeeded.
    pub(super) fn succeed_execution(&mut self, previous: u64, output: Value) {
        let details = Details::new().with_payload("output", &output);
        self.record_event(previous, HistoryType::ExecutionSucceeded, details);
        self.execution.output = Some(output);
        self.end_execution(ExecutionStatus::Succeeded);
    }

    /// Ends the execution with a failure.
    pub(super) fn end_with_failure(
        &mut self,
        status: ExecutionStatus,
        previous: u64,
        failure: Failure,
    ) {
        let kind = match status {
            ExecutionStatus::TimedOut => HistoryType::ExecutionTimedOut,
            ExecutionStatus::Aborted => HistoryType::ExecutionAborted,
            _ => HistoryType::ExecutionFailed,
        };
        self.record_event(previous, kind, failure.details(Details::new()));
        self.execution.error = failure.error;
        self.execution.cause = failure.cause;
        self.end_execution(status);
    }

    fn end_execution(&mut self, status: ExecutionStatus) {
        let execution = &mut *self.execution;
        execution.status = status;
        execution.is_paused = false;
        execution.awaited_turn = None;
        execution.runs.clear();
        execution.ready.clear();
        let tasks = std::mem::take(&mut execution.tasks);
        let timers = std::mem::take(&mut execution.timers);
        // Drop effects that this same event created.
        self.effects.retain(|effect| match effect {
            Effect::RunTask(order) => !tasks.contains_key(&order.task),
            Effect::SetTimer { timer, .. } => !timers.contains_key(timer),
            Effect::Continue { .. } => false,
            _ => true,
        });
        let tasks = tasks.into_keys().map(|task| Effect::StopTask { task });
        self.effects.extend(tasks);
        let timers = timers.into_keys().map(|timer| Effect::StopTimer { timer });
        self.effects.extend(timers);
        self.effects.push(Effect::Ended);
    }

    pub(super) fn fail_on_unknown_state(&mut self, state: &str) {
        let cause = format!("the definition has no state {state:?}; was the definition replaced?");
        let failure = Failure::new(errors::RUNTIME, cause);
        self.end_with_failure(ExecutionStatus::Failed, 0, failure);
    }
}
