//! One event, applied.

use serde_json::{Map, Value, json};

use super::event::{Begin, Event, TimedEvent};
use super::execution::{Execution, InFlight, Status, Wakes};
use super::history::{Details, HistoryType};
use super::resource::Resource;
use super::run::{Failure, Phase, Run};
use super::walk::Walk;
use super::{Effect, Nested, Outcome, RunId, TaskId, TimerId, clock};
use crate::data::{MILLISECONDS_MAX, REPLAY_MILLISECONDS_MAX, errors, pipeline};
use crate::language::Definition;

/// Applies an event to an execution.
///
/// The same execution, event and time give the same outcome, unless a JSONata
/// expression takes too long: the outcome says so. The effects are
/// for the driver to carry out once the event is durable; should it crash
/// before it has, [`Execution::outstanding`] says what is left to do.
///
/// An event that no longer matters changes nothing, and the outcome says so.
pub fn apply(definition: &Definition, execution: &mut Execution, at: TimedEvent) -> Outcome {
    apply_within(definition, execution, at, MILLISECONDS_MAX)
}

/// Applies an event that was applied before, to get where it led. What was
/// evaluated in time then has more of it now.
pub fn replay(definition: &Definition, execution: &mut Execution, at: TimedEvent) -> Outcome {
    apply_within(definition, execution, at, REPLAY_MILLISECONDS_MAX)
}

fn apply_within(
    definition: &Definition,
    execution: &mut Execution,
    at: TimedEvent,
    milliseconds_max: u64,
) -> Outcome {
    // Clocks go back now and then. Executions do not.
    let now = at.at_ms.max(execution.changed_at_ms);
    let mut walk = Walk::new(definition, execution, now);
    walk.milliseconds_max = milliseconds_max;
    if !walk.take(at.event) {
        return Outcome::default();
    }
    walk.execution.changed_at_ms = now;
    walk.go_on();
    walk.into_outcome()
}

impl Walk<'_> {
    /// Takes an event in; whether it mattered.
    fn take(&mut self, event: Event) -> bool {
        match (self.execution.status, event) {
            (Status::Pending, Event::Begun(begin)) => self.begin(*begin),
            (Status::Running, event) => return self.take_running(event),
            _ => return false,
        }
        true
    }

    fn take_running(&mut self, event: Event) -> bool {
        match event {
            Event::Begun(_) => false,
            Event::TaskStarted { task } => self.started(task),
            Event::TaskSubmitted { task, output } => self.submitted(task, &output),
            Event::TaskSucceeded { task, output } => self.succeeded(task, output),
            Event::TaskFailed { task, error, cause } => {
                self.failed(task, Failure::new(error, cause), false)
            }
            Event::TaskTimedOut { task, heartbeat } => {
                let failure = Failure {
                    error: Some(super::errors::TIMEOUT.to_owned()),
                    cause: None,
                    is_heartbeat: heartbeat,
                };
                self.failed(task, failure, true)
            }
            Event::TimerFired { timer } => self.fired(timer),
            Event::Continued { turn } => {
                let awaited = self.execution.awaited_turn == Some(turn);
                if awaited {
                    self.execution.awaited_turn = None;
                }
                awaited
            }
            Event::Paused => !std::mem::replace(&mut self.execution.is_paused, true),
            Event::Resumed => std::mem::replace(&mut self.execution.is_paused, false),
            Event::Failed { error, cause } => {
                self.end_badly(Status::Failed, 0, Failure::new(error, cause));
                true
            }
            Event::Cancelled { error, cause } => {
                let failure = Failure {
                    error,
                    cause,
                    is_heartbeat: false,
                };
                self.end_badly(Status::Aborted, 0, failure);
                true
            }
        }
    }

    fn begin(&mut self, begin: Begin) {
        let too_large = pipeline::check_size(&begin.input, "the input").err();
        let machine_name = begin.machine.rsplit(':').next().unwrap_or_default();
        let mut context = Map::new();
        context.insert(
            "Execution".to_owned(),
            json!({
                "Id": begin.execution_id,
                "Input": begin.input,
                "StartTime": clock::written(begin.at_ms),
                "Name": begin.name,
                "RoleArn": begin.role,
                "RedriveCount": 0,
            }),
        );
        context.insert(
            "StateMachine".to_owned(),
            json!({"Id": begin.machine, "Name": machine_name}),
        );
        let details = Details::none()
            .payload("input", &begin.input)
            .with("roleArn", begin.role);
        *self.execution = Execution {
            id: begin.execution_id,
            name: begin.name,
            status: Status::Running,
            begun_at_ms: begin.at_ms,
            seed: begin.seed,
            limits: begin.limits,
            origin: begin.origin,
            context,
            ..Execution::default()
        };
        self.budget = begin.limits.states_per_event_max.max(1);
        self.record(0, HistoryType::ExecutionStarted, details);
        if let Some(fault) = too_large {
            let failure = Failure::new(fault.error, fault.cause);
            return self.end_badly(Status::Failed, 0, failure);
        }
        let start = self.definition.start_at().to_owned();
        // The first state follows nothing: not even the beginning, on AWS.
        let run = Run::new(None, start, begin.input, 0, false);
        self.add_run(run);
        if let Some(seconds) = self.definition.timeout_seconds() {
            let at_ms = clock::later(begin.at_ms, seconds);
            self.set_timer(at_ms, Wakes::Deadline);
        }
    }

    fn started(&mut self, task: TaskId) -> bool {
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        let news = !flight.is_started;
        self.write_started(&mut flight);
        self.execution.tasks.insert(task, flight);
        news
    }

    /// A task that answers was taken up, whether it said so or not.
    fn write_started(&mut self, flight: &mut InFlight) {
        if !std::mem::replace(&mut flight.is_started, true) {
            let started = Resource::of(&flight.order.resource).started();
            self.write_of_task(flight.run, started);
        }
    }

    fn submitted(&mut self, task: TaskId, output: &Value) -> bool {
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        let news = !flight.is_submitted;
        if news {
            self.write_started(&mut flight);
            flight.is_submitted = true;
            flight.submitted_at_ms = Some(self.now);
            if Nested::of(&flight.order.resource).is_some() {
                let child = output.get("ExecutionArn").and_then(Value::as_str);
                flight.child = child.map(str::to_owned);
            }
            if let Some(submitted) = Resource::of(&flight.order.resource).submitted(output) {
                self.write_of_task(flight.run, submitted);
            }
        }
        self.execution.tasks.insert(task, flight);
        news
    }

    fn succeeded(&mut self, task: TaskId, output: Value) -> bool {
        // What a reader brings is not handed on as it is, and may be large.
        if !self.is_reading(task)
            && let Err(fault) = pipeline::check_size(&output, "the result")
        {
            return self.failed(task, Failure::new(fault.error, fault.cause), false);
        }
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        self.write_started(&mut flight);
        let succeeded = Resource::of(&flight.order.resource).succeeded(&output);
        self.write_of_task(flight.run, succeeded);
        self.wake(flight.run, |phase| match phase {
            Phase::Reading(_) => Phase::Read(output),
            _ => Phase::Finished(output),
        });
        true
    }

    fn failed(&mut self, task: TaskId, mut failure: Failure, timed_out: bool) -> bool {
        let is_reading = self.is_reading(task);
        let Some(mut flight) = self.execution.tasks.remove(&task) else {
            return false;
        };
        self.write_started(&mut flight);
        let resource = Resource::of(&flight.order.resource);
        let written = match timed_out {
            true => resource.timed_out(&failure),
            false => resource.failed(&failure),
        };
        self.write_of_task(flight.run, written);
        if is_reading {
            failure.error = Some(super::errors::ITEM_READER_FAILED.to_owned());
            let details = failure.details(Details::none());
            if let Some(mut run) = self.execution.runs.remove(&flight.run) {
                self.write(&mut run, HistoryType::MapRunFailed, details);
                self.execution.runs.insert(flight.run, run);
            }
        }
        self.wake(flight.run, |_| Phase::Failing(failure));
        true
    }

    fn is_reading(&self, task: TaskId) -> bool {
        let flight = self.execution.tasks.get(&task);
        let run = flight.and_then(|flight| self.execution.runs.get(&flight.run));
        run.is_some_and(|run| matches!(run.phase, Phase::Reading(_)))
    }

    /// Writes an event of a run's task. A reader's work is in no history.
    fn write_of_task(&mut self, id: RunId, (kind, details): (HistoryType, Details)) {
        let Some(mut run) = self.execution.runs.remove(&id) else {
            return;
        };
        if !matches!(run.phase, Phase::Reading(_)) {
            self.write(&mut run, kind, details);
        }
        self.execution.runs.insert(id, run);
    }

    fn fired(&mut self, timer: TimerId) -> bool {
        let Some(alarm) = self.execution.timers.remove(&timer) else {
            return false;
        };
        match alarm.wakes {
            Wakes::Deadline => {
                let failure = Failure::new(
                    super::errors::TIMEOUT,
                    "the execution took longer than its definition allows",
                );
                self.end_badly(Status::TimedOut, 0, failure);
            }
            Wakes::Run(run) => self.wake(run, |phase| match phase {
                Phase::Waiting(_) => Phase::Finished(Value::Null),
                _ => Phase::Trying,
            }),
        }
        true
    }

    /// A run can go on.
    fn wake(&mut self, id: RunId, next: impl FnOnce(&Phase) -> Phase) {
        if let Some(run) = self.execution.runs.get_mut(&id) {
            run.phase = next(&run.phase);
            self.execution.ready.push_back(id);
        }
    }

    /// Ends the execution well.
    pub(super) fn end_well(&mut self, previous: u64, output: Value) {
        let details = Details::none().payload("output", &output);
        self.record(previous, HistoryType::ExecutionSucceeded, details);
        self.execution.output = Some(output);
        self.end(Status::Succeeded);
    }

    /// Ends the execution with a failure.
    pub(super) fn end_badly(&mut self, status: Status, previous: u64, failure: Failure) {
        let kind = match status {
            Status::TimedOut => HistoryType::ExecutionTimedOut,
            Status::Aborted => HistoryType::ExecutionAborted,
            _ => HistoryType::ExecutionFailed,
        };
        self.record(previous, kind, failure.details(Details::none()));
        self.execution.error = failure.error;
        self.execution.cause = failure.cause;
        self.end(status);
    }

    fn end(&mut self, status: Status) {
        let execution = &mut *self.execution;
        execution.status = status;
        execution.is_paused = false;
        execution.awaited_turn = None;
        execution.runs.clear();
        execution.ready.clear();
        let tasks = std::mem::take(&mut execution.tasks);
        let timers = std::mem::take(&mut execution.timers);
        // What was ordered by this very event need not be ordered.
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

    pub(super) fn unknown_state(&mut self, state: &str) {
        let cause = format!("the definition has no state {state:?}; was it exchanged for another?");
        let failure = Failure::new(errors::RUNTIME, cause);
        self.end_badly(Status::Failed, 0, failure);
    }
}
