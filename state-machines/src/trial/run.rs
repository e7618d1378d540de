//! Runs a case: tasks return their mocked results, and the clock jumps to the next
//! scheduled action.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::case::{CaseError, EventSummary, TaskMock, TestCase};
use crate::core::{
    Effect, Execution, ExecutionEvent, ExecutionLimits, ExecutionStart, ExecutionStatus,
    HistoryEvent, RunTask, TaskId, TimedEvent, TimerId, apply,
};
use crate::data::errors::RUNTIME;
use crate::language::Definition;

/// The start of the simulated clock: 2024-01-01T00:00:00Z.
pub const CLOCK_START_MS: i64 = 1_704_067_200_000;

/// The maximum number of actions of a case. The history limit applies much earlier,
/// except for loops within a distributed Map, whose runs record no history.
const EVENTS_MAX: u64 = 2_000_000;

/// The result of a case.
///
/// As JSON it has `status`, then `output` or `error` and `cause`, then
/// `statesEntered` and `events`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    /// How it ended.
    pub status: ExecutionStatus,
    /// Its output, if it succeeded.
    pub output: Option<Value>,
    /// The name of its error, if it has one.
    pub error: Option<String>,
    /// The cause of the error.
    pub cause: Option<String>,
    /// The entered states, in order.
    pub states_entered: Vec<String>,
    /// The history in short form.
    pub events: Vec<EventSummary>,
    /// The history in full.
    pub history: Vec<HistoryEvent>,
    /// The simulated duration, in milliseconds.
    pub took_ms: i64,
    /// Mismatches during the run: a task had an unexpected input, or no mock was left for
    /// it.
    pub remarks: Vec<String>,
    /// The parts of the case that had no effect: unused mocks, an unknown type.
    pub unused: Vec<String>,
}

impl Serialize for TrialResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("status", &self.status)?;
        if self.status == ExecutionStatus::Succeeded {
            map.serialize_entry("output", &self.output)?;
        } else {
            map.serialize_entry("error", &self.error)?;
            map.serialize_entry("cause", &self.cause)?;
        }
        map.serialize_entry("statesEntered", &self.states_entered)?;
        map.serialize_entry("events", &self.events)?;
        map.end()
    }
}

/// Runs a case.
pub fn run(case: &TestCase) -> Result<TrialResult, CaseError> {
    let definition = case.read_definition()?;
    let mut runner = CaseRunner {
        case,
        definition: &definition,
        execution: Execution::default(),
        now: CLOCK_START_MS,
        used: vec![false; case.tasks.len()],
        agenda: BinaryHeap::new(),
        scheduled: 0,
        history: Vec::new(),
        remarks: Vec::new(),
    };
    runner.run_to_end();
    Ok(runner.into_result())
}

struct CaseRunner<'a> {
    case: &'a TestCase,
    definition: &'a Definition,
    execution: Execution,
    now: i64,
    /// Which mocks were used.
    used: Vec<bool>,
    agenda: BinaryHeap<Reverse<ScheduledAction>>,
    scheduled: u64,
    history: Vec<HistoryEvent>,
    remarks: Vec<String>,
}

/// What will happen: the earliest first, and of one time the first scheduled.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ScheduledAction {
    at_ms: i64,
    nth: u64,
    what: CaseAction,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CaseAction {
    StartTask(TaskId),
    FinishTask(TaskId, Option<usize>),
    Timer(TimerId),
    Turn(u64),
}

impl CaseRunner<'_> {
    fn run_to_end(&mut self) {
        let begin = ExecutionStart {
            execution_id: "arn:aws:states:local:000000000000:execution:machine:trial".to_owned(),
            name: "trial".to_owned(),
            machine: "arn:aws:states:local:000000000000:stateMachine:machine".to_owned(),
            role: "arn:aws:iam::000000000000:role/trial".to_owned(),
            input: self.case.input.clone(),
            at_ms: self.now,
            seed: 0,
            limits: ExecutionLimits::default(),
            origin: None,
        };
        self.apply(ExecutionEvent::Begun(Box::new(begin)));
        while !self.execution.status().is_ended() && self.scheduled < EVENTS_MAX {
            let Some(Reverse(entry)) = self.agenda.pop() else {
                break;
            };
            if entry.at_ms > self.now && self.expects_abort() {
                self.abort();
                break;
            }
            self.now = self.now.max(entry.at_ms);
            self.perform(entry.what);
        }
        if !self.execution.status().is_ended() {
            self.remarks.push(format!(
                "the case does not end: it was stopped after {} actions",
                self.scheduled
            ));
            self.apply(ExecutionEvent::Cancelled {
                error: None,
                cause: Some("the case does not end".to_owned()),
            });
        }
    }

    /// Whether the case expects to be aborted: then it is aborted when it first waits.
    fn expects_abort(&self) -> bool {
        let expected = self.case.expected.as_ref();
        expected.and_then(|expected| expected.status.as_deref())
            == Some(ExecutionStatus::Aborted.as_str())
    }

    fn abort(&mut self) {
        let text = |value: &Option<Value>| Some(value.as_ref()?.as_str()?.to_owned());
        let expected = self.case.expected.clone().unwrap_or_default();
        self.apply(ExecutionEvent::Cancelled {
            error: text(&expected.error),
            cause: text(&expected.cause),
        });
    }

    fn perform(&mut self, what: CaseAction) {
        match what {
            CaseAction::StartTask(task) => self.start_task(task),
            CaseAction::FinishTask(task, answer) => self.finish_task(task, answer),
            CaseAction::Timer(timer) => self.apply(ExecutionEvent::TimerFired { timer }),
            CaseAction::Turn(turn) => self.apply(ExecutionEvent::Continued { turn }),
        }
    }

    fn apply(&mut self, event: ExecutionEvent) {
        let at = TimedEvent::new(event, self.now);
        let outcome = apply(self.definition, &mut self.execution, at);
        self.history.extend(outcome.history);
        for effect in outcome.effects {
            match effect {
                Effect::RunTask(order) => self.schedule(self.now, CaseAction::StartTask(order.task)),
                Effect::SetTimer { timer, at_ms } => self.schedule(at_ms, CaseAction::Timer(timer)),
                Effect::Continue { turn } => self.schedule(self.now, CaseAction::Turn(turn)),
                Effect::StopTimer { timer } => {
                    // The clock must not jump to its time.
                    self.agenda
                        .retain(|Reverse(entry)| entry.what != CaseAction::Timer(timer));
                }
                Effect::StopTask { task } => self.agenda.retain(
                    |Reverse(entry)| !matches!(entry.what, CaseAction::StartTask(of) | CaseAction::FinishTask(of, _) if of == task),
                ),
                Effect::Ended => {}
            }
        }
    }

    fn schedule(&mut self, at_ms: i64, what: CaseAction) {
        self.scheduled += 1;
        self.agenda.push(Reverse(ScheduledAction {
            at_ms,
            nth: self.scheduled,
            what,
        }));
    }

    /// Starts a task: picks its mock, and schedules the result now or at its timeout.
    fn start_task(&mut self, task: TaskId) {
        let Some(flight) = self.execution.task(task) else {
            return;
        };
        let order = flight.order.clone();
        let found = self.pick_mock(&order);
        self.apply(ExecutionEvent::TaskStarted { task });
        let answer = found.and_then(|index| self.case.tasks.get(index));
        if answer.is_some() && (order.waits_for_callback || order.resource.contains(".sync")) {
            let output = Value::Object(serde_json::Map::new());
            self.apply(ExecutionEvent::TaskSubmitted { task, output });
        }
        let is_late = answer.is_some_and(TaskMock::is_timeout);
        let timeouts = [order.timeout_ms, order.heartbeat_ms];
        let due = match timeouts.into_iter().flatten().min() {
            Some(timeout) if is_late => self.now.saturating_add(timeout),
            _ => self.now,
        };
        self.schedule(due, CaseAction::FinishTask(task, found));
    }

    /// Picks the first unused mock for the task whose `parameters` equal the input;
    /// otherwise the first unused one.
    fn pick_mock(&mut self, order: &RunTask) -> Option<usize> {
        let within: Vec<(String, u64)> = order
            .iterations
            .iter()
            .map(|iteration| (iteration.map.clone(), iteration.index))
            .collect();
        let is_for = |answer: &TaskMock| {
            answer
                .state
                .as_ref()
                .is_none_or(|state| *state == order.state)
                && (answer.iteration.is_empty() || answer.iteration == within)
        };
        let free: Vec<usize> = (0..self.case.tasks.len())
            .filter(|index| !self.used[*index] && is_for(&self.case.tasks[*index]))
            .collect();
        let has_same_input = |index: &&usize| {
            let parameters = self.case.tasks[**index].parameters.as_ref();
            parameters
                .is_some_and(|parameters| super::compare::json_equals(&order.input, parameters))
        };
        let found = *free.iter().find(has_same_input).or(free.first())?;
        self.used[found] = true;
        if let Some(parameters) = &self.case.tasks[found].parameters
            && !super::compare::json_equals_leniently(&order.input, parameters)
        {
            self.remarks.push(format!(
                "the task of {:?} has the input {} instead of {parameters}",
                order.state, order.input
            ));
        }
        Some(found)
    }

    fn finish_task(&mut self, task: TaskId, answer: Option<usize>) {
        let Some(flight) = self.execution.task(task) else {
            return;
        };
        let order = &flight.order;
        let Some(answer) = answer.and_then(|index| self.case.tasks.get(index)) else {
            let cause = format!(
                "the case has no result left for the task of {:?} with the input {}",
                order.state, order.input
            );
            self.remarks.push(cause.clone());
            let error = RUNTIME.to_owned();
            return self.apply(ExecutionEvent::TaskFailed { task, error, cause });
        };
        let event = if answer.is_timeout() {
            let heartbeat = match (order.heartbeat_ms, order.timeout_ms) {
                (Some(heartbeat), Some(timeout)) => heartbeat < timeout,
                (heartbeat, _) => heartbeat.is_some(),
            };
            ExecutionEvent::TaskTimedOut { task, heartbeat }
        } else if let Some(error) = &answer.error {
            ExecutionEvent::TaskFailed {
                task,
                error: error.clone(),
                cause: answer.cause_text().unwrap_or_default(),
            }
        } else {
            ExecutionEvent::TaskSucceeded {
                task,
                output: answer.result.clone().unwrap_or_default(),
            }
        };
        self.apply(event);
    }

    fn into_result(self) -> TrialResult {
        let line = |event: &HistoryEvent| EventSummary {
            kind: event.kind.as_str().to_owned(),
            name: event.name().map(str::to_owned),
            index: event.index(),
        };
        let entered = self
            .history
            .iter()
            .filter(|event| event.kind.details_name() == "stateEnteredEventDetails");
        TrialResult {
            status: self.execution.status(),
            output: self.execution.output().cloned(),
            error: self.execution.error().map(str::to_owned),
            cause: self.execution.cause().map(str::to_owned),
            states_entered: entered
                .filter_map(|event| Some(event.name()?.to_owned()))
                .collect(),
            events: self.history.iter().map(line).collect(),
            history: self.history,
            took_ms: self.now - CLOCK_START_MS,
            unused: super::unused::list_unused_parts(self.case, self.definition, &self.used),
            remarks: self.remarks,
        }
    }
}
