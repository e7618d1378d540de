//! An execution on its way through one event: the runs that can go on take
//! turns, a state each, until none can or the event has done enough.

use serde_json::{Map, Value, json};

use super::execution::{Alarm, Execution, Status, Wakes};
use super::history::{Details, HistoryEvent, HistoryType};
use super::payload::Leaving;
use super::run::{Failure, Parent, Phase, Run};
use super::{Effect, Outcome, RunId, TaskId, TimerId};
use crate::data::{MILLISECONDS_MAX, errors, pipeline};
use crate::language::model::{Kind, Next};
use crate::language::{Definition, Machine, State};

/// An execution while an event is applied to it.
pub(super) struct Walk<'a> {
    pub(super) definition: &'a Definition,
    pub(super) execution: &'a mut Execution,
    pub(super) now: i64,
    pub(super) budget: u32,
    pub(super) effects: Vec<Effect>,
    /// How long an expression may take, and whether one took longer.
    pub(super) milliseconds_max: u64,
    pub(super) is_out_of_time: bool,
    history: Vec<HistoryEvent>,
}

/// What becomes of a run after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Fate {
    /// It is still there.
    Stays,
    /// It has ended, or all has.
    Gone,
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

impl<'a> Walk<'a> {
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

    pub(super) fn into_outcome(self) -> Outcome {
        Outcome {
            accepted: true,
            effects: self.effects,
            history: self.history,
            is_out_of_time: self.is_out_of_time,
        }
    }

    /// Gives turns until there is nothing to do, or enough was done.
    pub(super) fn go_on(&mut self) {
        if self.execution.is_paused {
            return;
        }
        while self.budget > 0
            && let Some(id) = self.execution.ready.pop_front()
        {
            self.turn(id);
        }
        if self.execution.ready.is_empty() {
            self.execution.awaited_turn = None;
        } else if self.execution.awaited_turn.is_none() {
            self.execution.made.turns += 1;
            let turn = self.execution.made.turns;
            self.execution.awaited_turn = Some(turn);
            self.effects.push(Effect::Continue { turn });
        }
    }

    /// One run's turn. Meanwhile it is out of the map; those above it are in.
    fn turn(&mut self, id: RunId) {
        let Some(mut run) = self.execution.runs.remove(&id) else {
            return;
        };
        self.budget -= 1;
        let Some(state) = self.state_of(&run) else {
            return self.unknown_state(&run.state);
        };
        if self.advance(id, &mut run, state) == Fate::Stays {
            self.execution.runs.insert(id, run);
        }
    }

    fn advance(&mut self, id: RunId, run: &mut Run, state: &'a State) -> Fate {
        let phase = std::mem::replace(&mut run.phase, Phase::Trying);
        if matches!(phase, Phase::Entering | Phase::Trying)
            && let Some(failure) = self.too_long(run)
        {
            return self.fail(id, run, state, failure);
        }
        match phase {
            Phase::Entering => {
                self.enter(run, state);
                self.attempt(id, run, state)
            }
            Phase::Trying => self.attempt(id, run, state),
            Phase::Finished(result) => self.finish_work(id, run, state, &result),
            Phase::Read(items) => self.map_items_read(id, run, state, items),
            Phase::Failing(failure) => self.fail(id, run, state, failure),
            waiting => {
                run.phase = waiting;
                Fate::Stays
            }
        }
    }

    /// Whether the history is full.
    fn too_long(&self, run: &Run) -> Option<Failure> {
        let limit = self.execution.limits.history_max;
        let length = if run.is_silent {
            run.states * 2 + run.attempts
        } else {
            self.execution.made.events + 1
        };
        (length >= limit).then(|| {
            let cause = format!(
                "the history has reached {limit} events; let an execution do less, and start others from it"
            );
            Failure::new(errors::RUNTIME, cause)
        })
    }

    fn enter(&mut self, run: &mut Run, state: &State) {
        run.entered_at_ms = self.now;
        run.retries = vec![0; state.retry().len()];
        run.attempts = 0;
        run.states += 1;
        self.execution.made.states += 1;
        let details = Details::none()
            .with("name", state.name.as_str())
            .payload("input", &run.input);
        run.before_event = run.last_event;
        run.entered_event = self.write(run, entered(&state.kind), details);
    }

    fn attempt(&mut self, id: RunId, run: &mut Run, state: &'a State) -> Fate {
        match &state.kind {
            Kind::Task(task) => self.try_task(id, run, state, task),
            Kind::Choice(choice) => self.try_choice(id, run, state, choice),
            Kind::Wait(wait) => self.try_wait(id, run, state, wait),
            Kind::Pass(pass) => self.try_pass(id, run, state, pass),
            Kind::Succeed => self.try_succeed(id, run, state),
            Kind::Fail(fail) => self.try_fail(id, run, state, fail),
            Kind::Parallel(parallel) => self.try_parallel(id, run, state, parallel),
            Kind::Map(map) => self.try_map(id, run, state, map),
        }
    }

    /// Leaves a state for another, or ends the machine.
    pub(super) fn leave(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        leaving: Leaving,
        next: &Next,
    ) -> Fate {
        if let Err(fault) = pipeline::check_size(&leaving.output, "the output") {
            return self.fail(id, run, state, Failure::new(fault.error, fault.cause));
        }
        self.exit(run, state, &leaving);
        match next {
            Next::State(next) => {
                run.state.clone_from(next);
                run.input = leaving.output;
                run.phase = Phase::Entering;
                self.execution.ready.push_back(id);
                Fate::Stays
            }
            Next::End => {
                self.finish_run(run, leaving.output);
                Fate::Gone
            }
        }
    }

    /// Writes that a state was left, and takes its variables.
    pub(super) fn exit(&mut self, run: &mut Run, state: &State, leaving: &Leaving) {
        let mut details = Details::none()
            .with("name", state.name.as_str())
            .payload("output", &leaving.output);
        if !leaving.assigned.is_empty() {
            let texts = leaving.assigned.iter();
            let texts: Map<String, Value> = texts
                .map(|(name, value)| (name.clone(), Value::String(value.to_string())))
                .collect();
            details = details
                .with("assignedVariables", texts)
                .with("assignedVariablesDetails", json!({"truncated": false}));
        }
        if let Some(kind) = exited(&state.kind) {
            self.write(run, kind, details);
        }
        run.variables.extend(leaving.assigned.clone());
    }

    /// A machine has ended well.
    fn finish_run(&mut self, run: &Run, output: Value) {
        match run.parent {
            None => self.end_well(run.last_event, output),
            Some(parent) => self.child_succeeded(parent, run, output),
        }
    }

    /// The machine of a run.
    fn machine_of(&self, run: &Run) -> Option<&'a Machine> {
        let Some(parent) = run.parent else {
            return Some(self.definition.machine());
        };
        let above = self.state_of(self.execution.runs.get(&parent.run)?)?;
        match &above.kind {
            Kind::Parallel(parallel) => parallel.branches.get(parent.index as usize),
            Kind::Map(map) => Some(&map.processor.machine),
            _ => None,
        }
    }

    /// The state that a run is in.
    pub(super) fn state_of(&self, run: &Run) -> Option<&'a State> {
        self.machine_of(run)?.state(&run.state)
    }

    pub(super) fn add_run(&mut self, run: Run) -> RunId {
        self.execution.made.runs += 1;
        let id = RunId(self.execution.made.runs);
        self.execution.runs.insert(id, run);
        self.execution.ready.push_back(id);
        id
    }

    pub(super) fn set_timer(&mut self, at_ms: i64, wakes: Wakes) -> TimerId {
        self.execution.made.timers += 1;
        let timer = TimerId(self.execution.made.timers);
        self.execution.timers.insert(timer, Alarm { at_ms, wakes });
        self.effects.push(Effect::SetTimer { timer, at_ms });
        timer
    }

    /// A task that is no longer wanted; one that was ordered by this very
    /// event is not ordered.
    pub(super) fn drop_task(&mut self, task: TaskId) {
        self.execution.tasks.remove(&task);
        let before = self.effects.len();
        self.effects
            .retain(|effect| !matches!(effect, Effect::RunTask(order) if order.task == task));
        if self.effects.len() == before {
            self.effects.push(Effect::StopTask { task });
        }
    }

    /// The same for a timer.
    pub(super) fn drop_timer(&mut self, timer: TimerId) {
        self.execution.timers.remove(&timer);
        let before = self.effects.len();
        self.effects.retain(
            |effect| !matches!(effect, Effect::SetTimer { timer: set, .. } if *set == timer),
        );
        if self.effects.len() == before {
            self.effects.push(Effect::StopTimer { timer });
        }
    }

    /// Writes an event of a run, unless nobody will read it.
    pub(super) fn write(&mut self, run: &mut Run, kind: HistoryType, details: Details) -> u64 {
        if run.is_silent {
            return 0;
        }
        run.last_event = self.record(run.last_event, kind, details);
        run.last_event
    }

    /// Writes an event that follows another.
    pub(super) fn record(&mut self, previous: u64, kind: HistoryType, details: Details) -> u64 {
        self.execution.made.events += 1;
        let id = self.execution.made.events;
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
        self.execution.status == Status::Running
    }
}

fn entered(kind: &Kind) -> HistoryType {
    match kind {
        Kind::Task(_) => HistoryType::TaskStateEntered,
        Kind::Choice(_) => HistoryType::ChoiceStateEntered,
        Kind::Wait(_) => HistoryType::WaitStateEntered,
        Kind::Pass(_) => HistoryType::PassStateEntered,
        Kind::Succeed => HistoryType::SucceedStateEntered,
        Kind::Fail(_) => HistoryType::FailStateEntered,
        Kind::Parallel(_) => HistoryType::ParallelStateEntered,
        Kind::Map(_) => HistoryType::MapStateEntered,
    }
}

fn exited(kind: &Kind) -> Option<HistoryType> {
    Some(match kind {
        Kind::Task(_) => HistoryType::TaskStateExited,
        Kind::Choice(_) => HistoryType::ChoiceStateExited,
        Kind::Wait(_) => HistoryType::WaitStateExited,
        Kind::Pass(_) => HistoryType::PassStateExited,
        Kind::Succeed => HistoryType::SucceedStateExited,
        Kind::Fail(_) => return None,
        Kind::Parallel(_) => HistoryType::ParallelStateExited,
        Kind::Map(_) => HistoryType::MapStateExited,
    })
}
