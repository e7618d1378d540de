//! An execution on its way through one event: the runs that can go on take
//! turns, a state each, until none can or the event has done enough.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::execution::{Alarm, Execution, Status, Wakes};
use super::history::{Details, HistoryEvent, HistoryType};
use super::payload::Leaving;
use super::run::{Failure, FamilyKind, Parent, Phase, Run};
use super::{Effect, Outcome, RunId, TaskId, TimerId, clock};
use crate::data::chance::seed_for;
use crate::data::{Scope, errors, pipeline};
use crate::language::model::{Kind, Next};
use crate::language::{Definition, Machine, State};

/// An execution while an event is applied to it.
pub(super) struct Walk<'a> {
    pub(super) definition: &'a Definition,
    pub(super) execution: &'a mut Execution,
    pub(super) now: i64,
    pub(super) budget: u32,
    pub(super) effects: Vec<Effect>,
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

/// What an expression may see besides its run's data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside<'v> {
    /// The item of a Map that is about to be run.
    pub(super) item: Option<(u64, &'v Value)>,
    /// The token of the task that is about to be run.
    pub(super) token: Option<&'v str>,
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
            history: Vec::new(),
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        Outcome {
            accepted: true,
            effects: self.effects,
            history: self.history,
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

    /// Looks at a run's data.
    pub(super) fn look<R>(
        &mut self,
        id: RunId,
        run: &Run,
        state: &State,
        beside: Beside<'_>,
        see: impl FnOnce(&Scope<'_>) -> R,
    ) -> R {
        let mut context = std::mem::take(&mut self.execution.context);
        let above = self.item_above(run);
        let item = beside
            .item
            .or(above.as_ref().map(|(index, value)| (*index, value)));
        describe(&mut context, run, state, item, beside.token);
        let context = Value::Object(context);
        let seed = format!("{id} {} {}", run.states, run.attempts);
        let seen = see(&Scope {
            input: &run.input,
            context: &context,
            variables: &self.variables(run),
            result: None,
            error_output: None,
            seed: seed_for(self.execution.seed, &seed),
            now: clock::moment(self.now),
        });
        if let Value::Object(mut context) = context {
            for passing in ["Task", "Map", "State"] {
                context.shift_remove(passing);
            }
            self.execution.context = context;
        }
        seen
    }

    /// The item of the innermost Map that a run is in.
    fn item_above(&self, run: &Run) -> Option<(u64, Value)> {
        let mut at = run;
        loop {
            let parent = at.parent?;
            at = self.execution.runs.get(&parent.run)?;
            if let Phase::Gathering(family) = &at.phase
                && family.is_map()
            {
                let item = family.items.get(parent.index as usize)?;
                return Some((parent.index, item.clone()));
            }
        }
    }

    /// The variables that a run can read: its own and those of the runs above
    /// it, up to a distributed Map, whose runs are by themselves.
    fn variables<'r>(&self, run: &'r Run) -> Cow<'r, Map<String, Value>> {
        let mut above: Vec<&Map<String, Value>> = Vec::new();
        let mut at = run;
        while let Some(parent) = at.parent
            && let Some(next) = self.execution.runs.get(&parent.run)
        {
            if matches!(&next.phase, Phase::Gathering(family) if family.kind == FamilyKind::Distributed)
            {
                break;
            }
            above.push(&next.variables);
            at = next;
        }
        if above.iter().all(|variables| variables.is_empty()) {
            return Cow::Borrowed(&run.variables);
        }
        let mut all = Map::new();
        let inwards = above.into_iter().rev().chain([&run.variables]);
        for (name, value) in inwards.flatten() {
            all.insert(name.clone(), value.clone());
        }
        Cow::Owned(all)
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

/// The part of the context object that changes: the state, the item of the
/// Map, the token of the task.
fn describe(
    context: &mut Map<String, Value>,
    run: &Run,
    state: &State,
    item: Option<(u64, &Value)>,
    token: Option<&str>,
) {
    let mut about = Map::new();
    about.insert("Name".to_owned(), json!(state.name));
    about.insert(
        "EnteredTime".to_owned(),
        json!(clock::written(run.entered_at_ms)),
    );
    if matches!(state.kind, Kind::Task(_) | Kind::Map(_) | Kind::Parallel(_)) {
        about.insert("RetryCount".to_owned(), json!(run.attempts));
    }
    context.insert("State".to_owned(), Value::Object(about));
    if let Some((index, value)) = item {
        let item = json!({"Item": {"Index": index, "Value": value}});
        context.insert("Map".to_owned(), item);
    }
    if let Some(token) = token {
        context.insert("Task".to_owned(), json!({ "Token": token }));
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
