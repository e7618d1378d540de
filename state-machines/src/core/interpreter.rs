//! Runs an execution through one event: the ready runs take turns, one state
//! per turn, until no run is ready or the limit per event is reached.

use serde_json::{Map, Value, json};

use super::execution::{Execution, ExecutionStatus, Timer, TimerTarget};
use super::history::{Details, HistoryEvent, HistoryType};
use super::payload::StateOutput;
use super::run::{Failure, Parent, Phase, Run};
use super::{Effect, EventOutcome, RunId, TaskId, TimerId};
use crate::data::{MILLISECONDS_MAX, errors, pipeline};
use crate::language::model::{NextState, StateKind};
use crate::language::{Definition, Machine, State};

/// Applies one event to an execution and collects the effects.
pub(super) struct Interpreter<'a> {
    pub(super) definition: &'a Definition,
    pub(super) execution: &'a mut Execution,
    pub(super) now: i64,
    pub(super) budget: u32,
    pub(super) effects: Vec<Effect>,
    /// The time limit of an expression, and whether one exceeded it.
    pub(super) milliseconds_max: u64,
    pub(super) is_out_of_time: bool,
    history: Vec<HistoryEvent>,
}

/// Whether a run still exists after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum TurnOutcome {
    /// The run continues.
    Continues,
    /// The run, or the whole execution, has ended.
    Ended,
}

impl Run {
    pub(super) fn new(
        parent: Option<Parent>,
        state: String,
        input: Value,
        last_event: u64,
        is_silent: bool,
    ) -> Self {
        Self {
            parent,
            state,
            input,
            variables: Map::new(),
            entered_at_ms: 0,
            entered_event: 0,
            before_event: 0,
            last_event,
            retries: Vec::new(),
            attempts: 0,
            states: 0,
            is_silent,
            phase: Phase::Entering,
        }
    }
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(definition: &'a Definition, execution: &'a mut Execution, now: i64) -> Self {
        Self {
            definition,
            now,
            budget: execution.limits.states_per_event_max.max(1),
            execution,
            effects: Vec::new(),
            milliseconds_max: MILLISECONDS_MAX,
            is_out_of_time: false,
            history: Vec::new(),
        }
    }

    pub(super) fn into_outcome(self) -> EventOutcome {
        EventOutcome {
            accepted: true,
            effects: self.effects,
            history: self.history,
            is_out_of_time: self.is_out_of_time,
        }
    }

    /// Gives turns to ready runs until none is left or the limit is reached.
    pub(super) fn run_turns(&mut self) {
        if self.execution.is_paused {
            return;
        }
        while self.budget > 0
            && let Some(id) = self.execution.ready.pop_front()
        {
            self.run_turn(id);
        }
        if self.execution.ready.is_empty() {
            self.execution.awaited_turn = None;
        } else if self.execution.awaited_turn.is_none() {
            self.execution.counters.turns += 1;
            let turn = self.execution.counters.turns;
            self.execution.awaited_turn = Some(turn);
            self.effects.push(Effect::Continue { turn });
        }
    }

    /// Gives one run its turn. During the turn the run is not in the map of runs;
    /// its ancestors are.
    fn run_turn(&mut self, id: RunId) {
        let Some(mut run) = self.execution.runs.remove(&id) else {
            return;
        };
        self.budget -= 1;
        let Some(state) = self.find_state(&run) else {
            return self.fail_on_unknown_state(&run.state);
        };
        if self.advance(id, &mut run, state) == TurnOutcome::Continues {
            self.execution.runs.insert(id, run);
        }
    }

    fn advance(&mut self, id: RunId, run: &mut Run, state: &'a State) -> TurnOutcome {
        let phase = std::mem::replace(&mut run.phase, Phase::Trying);
        if matches!(phase, Phase::Entering | Phase::Trying)
            && let Some(failure) = self.check_history_limit(run)
        {
            return self.handle_failure(id, run, state, failure);
        }
        match phase {
            Phase::Entering => {
                self.enter_state(run, state);
                self.try_state(id, run, state)
            }
            Phase::Trying => self.try_state(id, run, state),
            Phase::Finished(result) => self.finish_state(id, run, state, &result),
            Phase::Read(items) => self.handle_items_read(id, run, state, items),
            Phase::Failing(failure) => self.handle_failure(id, run, state, failure),
            waiting => {
                run.phase = waiting;
                TurnOutcome::Continues
            }
        }
    }

    /// Returns a failure if the history is full.
    fn check_history_limit(&self, run: &Run) -> Option<Failure> {
        let limit = self.execution.limits.history_max;
        let length = if run.is_silent {
            run.states * 2 + run.attempts
        } else {
            self.execution.counters.events + 1
        };
        (length >= limit).then(|| {
            let cause = format!(
                "the history has reached its limit of {limit} events; split the work into several executions"
            );
            Failure::new(errors::RUNTIME, cause)
        })
    }

    fn enter_state(&mut self, run: &mut Run, state: &State) {
        run.entered_at_ms = self.now;
        run.retries = vec![0; state.retry().len()];
        run.attempts = 0;
        run.states += 1;
        self.execution.counters.states += 1;
        let details = Details::new()
            .with("name", state.name.as_str())
            .with_payload("input", &run.input);
        run.before_event = run.last_event;
        run.entered_event = self.record_run_event(run, entered_event_type(&state.kind), details);
    }

    fn try_state(&mut self, id: RunId, run: &mut Run, state: &'a State) -> TurnOutcome {
        match &state.kind {
            StateKind::Task(task) => self.try_task(id, run, state, task),
            StateKind::Choice(choice) => self.try_choice(id, run, state, choice),
            StateKind::Wait(wait) => self.try_wait(id, run, state, wait),
            StateKind::Pass(pass) => self.try_pass(id, run, state, pass),
            StateKind::Succeed => self.try_succeed(id, run, state),
            StateKind::Fail(fail) => self.try_fail(id, run, state, fail),
            StateKind::Parallel(parallel) => self.try_parallel(id, run, state, parallel),
            StateKind::Map(map) => self.try_map(id, run, state, map),
        }
    }

    /// Leaves a state for another, or ends the machine.
    pub(super) fn leave_state(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        state_output: StateOutput,
        next: &NextState,
    ) -> TurnOutcome {
        if let Err(fault) = pipeline::check_size(&state_output.output, "the output") {
            return self.handle_failure(id, run, state, Failure::new(fault.error, fault.cause));
        }
        self.record_exit(run, state, &state_output);
        match next {
            NextState::State(next) => {
                run.state.clone_from(next);
                run.input = state_output.output;
                run.phase = Phase::Entering;
                self.execution.ready.push_back(id);
                TurnOutcome::Continues
            }
            NextState::End => {
                self.finish_run(run, state_output.output);
                TurnOutcome::Ended
            }
        }
    }

    /// Records the exit of a state and assigns its variables.
    pub(super) fn record_exit(&mut self, run: &mut Run, state: &State, state_output: &StateOutput) {
        let mut details = Details::new()
            .with("name", state.name.as_str())
            .with_payload("output", &state_output.output);
        if !state_output.assigned.is_empty() {
            let texts = state_output.assigned.iter();
            let texts: Map<String, Value> = texts
                .map(|(name, value)| (name.clone(), Value::String(value.to_string())))
                .collect();
            details = details
                .with("assignedVariables", texts)
                .with("assignedVariablesDetails", json!({"truncated": false}));
        }
        if let Some(kind) = exited_event_type(&state.kind) {
            self.record_run_event(run, kind, details);
        }
        run.variables.extend(state_output.assigned.clone());
    }

    /// Ends a machine that succeeded.
    fn finish_run(&mut self, run: &Run, output: Value) {
        match run.parent {
            None => self.succeed_execution(run.last_event, output),
            Some(parent) => self.handle_child_succeeded(parent, run, output),
        }
    }

    /// Finds the machine of a run.
    fn find_machine(&self, run: &Run) -> Option<&'a Machine> {
        let Some(parent) = run.parent else {
            return Some(self.definition.machine());
        };
        let above = self.find_state(self.execution.runs.get(&parent.run)?)?;
        match &above.kind {
            StateKind::Parallel(parallel) => parallel.branches.get(parent.index as usize),
            StateKind::Map(map) => Some(&map.processor.machine),
            _ => None,
        }
    }

    /// Finds the current state of a run.
    pub(super) fn find_state(&self, run: &Run) -> Option<&'a State> {
        self.find_machine(run)?.state(&run.state)
    }

    pub(super) fn add_run(&mut self, run: Run) -> RunId {
        self.execution.counters.runs += 1;
        let id = RunId(self.execution.counters.runs);
        self.execution.runs.insert(id, run);
        self.execution.ready.push_back(id);
        id
    }

    pub(super) fn set_timer(&mut self, at_ms: i64, wakes: TimerTarget) -> TimerId {
        self.execution.counters.timers += 1;
        let timer = TimerId(self.execution.counters.timers);
        self.execution.timers.insert(timer, Timer { at_ms, wakes });
        self.effects.push(Effect::SetTimer { timer, at_ms });
        timer
    }

    /// Stops a task. If this same event started it, drops the start instead.
    pub(super) fn stop_task(&mut self, task: TaskId) {
        self.execution.tasks.remove(&task);
        let before = self.effects.len();
        self.effects
            .retain(|effect| !matches!(effect, Effect::RunTask(order) if order.task == task));
        if self.effects.len() == before {
            self.effects.push(Effect::StopTask { task });
        }
    }

    /// Stops a timer. If this same event set it, drops the setting instead.
    pub(super) fn stop_timer(&mut self, timer: TimerId) {
        self.execution.timers.remove(&timer);
        let before = self.effects.len();
        self.effects.retain(
            |effect| !matches!(effect, Effect::SetTimer { timer: set, .. } if *set == timer),
        );
        if self.effects.len() == before {
            self.effects.push(Effect::StopTimer { timer });
        }
    }

    /// Records a history event of a run, unless the run has no history.
    pub(super) fn record_run_event(
        &mut self,
        run: &mut Run,
        kind: HistoryType,
        details: Details,
    ) -> u64 {
        if run.is_silent {
            return 0;
        }
        run.last_event = self.record_event(run.last_event, kind, details);
        run.last_event
    }

    /// Records a history event that follows the event `previous`.
    pub(super) fn record_event(
        &mut self,
        previous: u64,
        kind: HistoryType,
        details: Details,
    ) -> u64 {
        self.execution.counters.events += 1;
        let id = self.execution.counters.events;
        self.history.push(HistoryEvent {
            id,
            previous_event_id: previous,
            at_ms: self.now,
            kind,
            details: details.into_map(),
        });
        id
    }

    pub(super) fn is_running(&self) -> bool {
        self.execution.status == ExecutionStatus::Running
    }
}

fn entered_event_type(kind: &StateKind) -> HistoryType {
    match kind {
        StateKind::Task(_) => HistoryType::TaskStateEntered,
        StateKind::Choice(_) => HistoryType::ChoiceStateEntered,
        StateKind::Wait(_) => HistoryType::WaitStateEntered,
        StateKind::Pass(_) => HistoryType::PassStateEntered,
        StateKind::Succeed => HistoryType::SucceedStateEntered,
        StateKind::Fail(_) => HistoryType::FailStateEntered,
        StateKind::Parallel(_) => HistoryType::ParallelStateEntered,
        StateKind::Map(_) => HistoryType::MapStateEntered,
    }
}

fn exited_event_type(kind: &StateKind) -> Option<HistoryType> {
    Some(match kind {
        StateKind::Task(_) => HistoryType::TaskStateExited,
        StateKind::Choice(_) => HistoryType::ChoiceStateExited,
        StateKind::Wait(_) => HistoryType::WaitStateExited,
        StateKind::Pass(_) => HistoryType::PassStateExited,
        StateKind::Succeed => HistoryType::SucceedStateExited,
        StateKind::Fail(_) => return None,
        StateKind::Parallel(_) => HistoryType::ParallelStateExited,
        StateKind::Map(_) => HistoryType::MapStateExited,
    })
}
