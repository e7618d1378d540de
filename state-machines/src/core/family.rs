//! Branches and iterations: begun, gathered, stopped.

use serde_json::{Value, json};

use super::history::{Details, HistoryType};
use super::look::Beside;
use super::payload::{InField, Trouble};
use super::run::{Failure, Family, FamilyKind, Parent, Phase, Run};
use super::walk::{Fate, Walk};
use super::{RunId, errors, payload};
use crate::language::State;
use crate::language::model::{Kind, Parallel};

impl<'a> Walk<'a> {
    pub(super) fn try_parallel(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        parallel: &'a Parallel,
    ) -> Fate {
        let input = self.look(id, run, state, Beside::default(), |scope| {
            payload::arguments(state, parallel.arguments.as_ref(), scope)
        });
        let input = match input {
            Ok(input) => input,
            Err(trouble) => return self.trouble(id, run, state, trouble),
        };
        self.write(run, HistoryType::ParallelStateStarted, Details::none());
        let total = parallel.branches.len() as u64;
        let mut family = Family::new(FamilyKind::Parallel, input, total);
        family.at_once = total;
        self.gather(id, run, state, family)
    }

    /// Begins a family, and waits for it.
    pub(super) fn gather(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        family: Family,
    ) -> Fate {
        let previous = run.last_event;
        run.phase = Phase::Gathering(Box::new(family));
        self.begin_more(id, run, state, previous);
        Fate::Stays
    }

    /// Begins as many branches or iterations as may run, or finishes if all
    /// are done. The run is out of the map, its children go in.
    fn begin_more(&mut self, id: RunId, run: &mut Run, state: &'a State, previous: u64) {
        loop {
            let Phase::Gathering(family) = &mut run.phase else {
                return;
            };
            if family.done == family.total {
                let outputs = std::mem::take(&mut family.outputs);
                run.phase = Phase::Finished(Value::Array(outputs));
                self.execution.ready.push_back(id);
                return;
            }
            let is_full = family.running.len() as u64 >= family.at_once;
            if is_full || family.begun == family.total {
                return;
            }
            let index = family.begun;
            if let Err(trouble) = self.begin_one(id, run, state, index, previous) {
                self.stop_children(run, previous);
                let failure = self.told(run, state, trouble);
                run.phase = Phase::Failing(failure);
                self.execution.ready.push_back(id);
                return;
            }
        }
    }

    fn begin_one(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        index: u64,
        previous: u64,
    ) -> Result<(), Trouble> {
        let input = self.child_input(id, run, state, index)?;
        let machine = match &state.kind {
            Kind::Parallel(parallel) => parallel.branches.get(index as usize),
            _ => state.machines().first(),
        };
        let start = machine.map_or("", |machine| machine.start_at()).to_owned();
        let Phase::Gathering(family) = &mut run.phase else {
            return Ok(());
        };
        let kind = family.kind;
        let is_silent = run.is_silent || kind == FamilyKind::Distributed;
        family.begun += 1;
        let mut first = previous;
        if kind == FamilyKind::Inline && !is_silent {
            let details = iteration(state, index);
            first = self.record(previous, HistoryType::MapIterationStarted, details);
        }
        let parent = Parent { run: id, index };
        let child = self.add_run(Run::new(Some(parent), start, input, first, is_silent));
        if let Phase::Gathering(family) = &mut run.phase {
            family.running.insert(index, child);
        }
        Ok(())
    }

    /// What a branch or an iteration is given.
    fn child_input(
        &mut self,
        id: RunId,
        run: &Run,
        state: &'a State,
        index: u64,
    ) -> Result<Value, Trouble> {
        let Phase::Gathering(family) = &run.phase else {
            return Ok(Value::Null);
        };
        let Kind::Map(map) = &state.kind else {
            return Ok(family.input.clone());
        };
        let item = family
            .items
            .get(index as usize)
            .cloned()
            .unwrap_or_default();
        match &map.item_selector {
            Some(selector) if !family.is_batched => {
                let beside = Beside {
                    item: Some((index, &item)),
                    ..Beside::default()
                };
                self.look(id, run, state, beside, |scope| {
                    let seed = format!("ItemSelector {index}");
                    selector
                        .fill(&scope.with_input(&family.input).seeded_for(&seed))
                        .in_field("ItemSelector")
                })
            }
            _ => Ok(item),
        }
    }

    /// A branch or an iteration has ended well.
    pub(super) fn child_succeeded(&mut self, parent: Parent, child: &Run, output: Value) {
        self.with_parent(parent, |walk, run, state| {
            let Phase::Gathering(family) = &mut run.phase else {
                return;
            };
            family.settle(parent.index, output);
            let mut last = child.last_event;
            if family.kind == FamilyKind::Inline && !child.is_silent {
                let details = iteration(state, parent.index);
                last = walk.record(last, HistoryType::MapIterationSucceeded, details);
            }
            if !child.is_silent {
                run.last_event = last;
            }
            walk.begin_more(parent.run, run, state, child.last_event);
        });
    }

    /// A branch or an iteration has failed. Unless that is tolerated, the
    /// others are stopped, and the state that waits for them fails.
    pub(super) fn child_failed(
        &mut self,
        parent: Parent,
        child: &Run,
        child_state: &State,
        failure: Failure,
    ) {
        self.with_parent(parent, |walk, run, state| {
            let Phase::Gathering(family) = &mut run.phase else {
                return;
            };
            let (kind, failed_max) = (family.kind, family.failed_max);
            family.failed += 1;
            let is_tolerated = family.failed <= failed_max;
            family.settle(parent.index, failure.error_output());
            let previous = child.last_event;
            if !child.is_silent {
                run.last_event = previous;
                if kind == FamilyKind::Inline {
                    let details = iteration(state, parent.index);
                    walk.record(previous, HistoryType::MapIterationFailed, details);
                }
            }
            if is_tolerated {
                return walk.begin_more(parent.run, run, state, previous);
            }
            if let Some(kind) = aborted(&child_state.kind)
                && !child.is_silent
            {
                walk.record(previous, kind, Details::none());
            }
            walk.stop_children(run, previous);
            let failure = match kind {
                FamilyKind::Distributed => exceeded(&failure),
                FamilyKind::Inline if failed_max > 0 => exceeded(&failure),
                _ => failure,
            };
            if kind == FamilyKind::Distributed {
                let details = failure.details(Details::none());
                walk.write(run, HistoryType::MapRunFailed, details);
            }
            run.phase = Phase::Failing(failure);
            walk.execution.ready.push_back(parent.run);
        });
    }

    /// Does something with the run that waits for another, while it is out of
    /// the map.
    fn with_parent(&mut self, parent: Parent, act: impl FnOnce(&mut Self, &mut Run, &'a State)) {
        let Some(mut run) = self.execution.runs.remove(&parent.run) else {
            return;
        };
        let Some(state) = self.state_of(&run) else {
            return self.unknown_state(&run.state);
        };
        act(self, &mut run, state);
        if self.is_running() {
            self.execution.runs.insert(parent.run, run);
        }
    }

    /// Stops what a run waits for: tasks, timers, and everything below.
    pub(super) fn stop_children(&mut self, run: &mut Run, previous: u64) {
        if let Some(task) = run.phase.task() {
            self.drop_task(task);
        }
        if let Some(timer) = run.phase.timer() {
            self.drop_timer(timer);
        }
        let (running, kind) = match &mut run.phase {
            Phase::Gathering(family) => (std::mem::take(&mut family.running), family.kind),
            _ => return,
        };
        for (index, id) in running {
            let Some(mut child) = self.execution.runs.remove(&id) else {
                continue;
            };
            if kind == FamilyKind::Inline && !child.is_silent {
                let details = Details::none()
                    .with("name", run.state.as_str())
                    .with("index", index);
                self.record(previous, HistoryType::MapIterationAborted, details);
            }
            let is_within = child.phase != Phase::Entering;
            // Its kind is known by its phase where the run above it is out.
            let kind = match &child.phase {
                Phase::Gathering(family) if family.is_map() => Some(HistoryType::MapStateAborted),
                Phase::Gathering(_) => Some(HistoryType::ParallelStateAborted),
                Phase::Waiting(_) => Some(HistoryType::WaitStateAborted),
                _ if is_within => self
                    .definition
                    .find(&child.state)
                    .and_then(|state| aborted(&state.kind)),
                _ => None,
            };
            self.stop_children(&mut child, previous);
            if let Some(kind) = kind
                && !child.is_silent
            {
                self.record(previous, kind, Details::none());
            }
        }
    }

    /// Writes that all branches or iterations are done. The exit follows the
    /// last of them, and not this.
    pub(super) fn family_succeeded(&mut self, run: &mut Run, state: &State) {
        if run.is_silent {
            return;
        }
        let kind = match &state.kind {
            Kind::Map(map) if is_distributed(map) => {
                self.write(run, HistoryType::MapRunSucceeded, Details::none());
                HistoryType::MapStateSucceeded
            }
            Kind::Map(_) => HistoryType::MapStateSucceeded,
            _ => HistoryType::ParallelStateSucceeded,
        };
        self.record(run.last_event, kind, Details::none());
    }
}

impl Family {
    pub(super) fn new(kind: FamilyKind, input: Value, total: u64) -> Self {
        Self {
            kind,
            input,
            items: Vec::new(),
            is_batched: false,
            total,
            at_once: 1,
            begun: 0,
            running: std::collections::BTreeMap::new(),
            outputs: vec![Value::Null; total as usize],
            done: 0,
            failed: 0,
            failed_max: 0,
        }
    }

    fn settle(&mut self, index: u64, output: Value) {
        self.running.remove(&index);
        self.done += 1;
        if let Some(place) = self.outputs.get_mut(index as usize) {
            *place = output;
        }
    }
}

pub(super) fn is_distributed(map: &crate::language::model::Map) -> bool {
    map.processor.mode != crate::language::model::Mode::Inline
}

fn iteration(state: &State, index: u64) -> Details {
    Details::none()
        .with("name", state.name.as_str())
        .with("index", index)
}

fn exceeded(last: &Failure) -> Failure {
    let cause = format!(
        "more iterations failed than are tolerated; the last with {}",
        json!(last.error_output())
    );
    Failure::new(errors::EXCEED_TOLERATED_FAILURE_THRESHOLD, cause)
}

/// The event of a state that was cut short, for those that have one.
fn aborted(kind: &Kind) -> Option<HistoryType> {
    match kind {
        Kind::Task(_) => Some(HistoryType::TaskStateAborted),
        Kind::Wait(_) => Some(HistoryType::WaitStateAborted),
        Kind::Parallel(_) => Some(HistoryType::ParallelStateAborted),
        Kind::Map(_) => Some(HistoryType::MapStateAborted),
        _ => None,
    }
}
