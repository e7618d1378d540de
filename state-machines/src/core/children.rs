//! Child runs: starts, collects and stops branches and iterations.

use serde_json::{Value, json};

use super::history::{Details, HistoryType};
use super::interpreter::{Interpreter, TurnOutcome};
use super::payload::{FieldFault, InField};
use super::run::{ChildRuns, ChildRunsKind, Failure, Parent, Phase, Run};
use super::scope::ExtraContext;
use super::{RunId, errors, payload};
use crate::language::State;
use crate::language::model::{ParallelState, StateKind};

impl<'a> Interpreter<'a> {
    pub(super) fn try_parallel(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        parallel: &'a ParallelState,
    ) -> TurnOutcome {
        let input = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::evaluate_arguments(state, parallel.arguments.as_ref(), scope)
        });
        let input = match input {
            Ok(input) => input,
            Err(field_fault) => return self.fail_with_fault(id, run, state, field_fault),
        };
        self.record_run_event(run, HistoryType::ParallelStateStarted, Details::new());
        let total = parallel.branches.len() as u64;
        let mut children = ChildRuns::new(ChildRunsKind::Parallel, input, total);
        children.at_once = total;
        self.start_children(id, run, state, children)
    }

    /// Starts child runs and waits for them.
    pub(super) fn start_children(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        children: ChildRuns,
    ) -> TurnOutcome {
        let previous = run.last_event;
        run.phase = Phase::Gathering(Box::new(children));
        self.start_more_children(id, run, state, previous);
        TurnOutcome::Continues
    }

    /// Starts as many children as the concurrency limit allows, or finishes if all
    /// are done. The parent run is not in the map of runs meanwhile.
    fn start_more_children(&mut self, id: RunId, run: &mut Run, state: &'a State, previous: u64) {
        loop {
            let Phase::Gathering(children) = &mut run.phase else {
                return;
            };
            if children.done == children.total {
                let outputs = std::mem::take(&mut children.outputs);
                run.phase = Phase::Finished(Value::Array(outputs));
                self.execution.ready.push_back(id);
                return;
            }
            let is_full = children.running.len() as u64 >= children.at_once;
            if is_full || children.begun == children.total {
                return;
            }
            let index = children.begun;
            if let Err(field_fault) = self.start_child(id, run, state, index, previous) {
                self.stop_children(run, previous);
                let failure = self.record_fault(run, state, field_fault);
                run.phase = Phase::Failing(failure);
                self.execution.ready.push_back(id);
                return;
            }
        }
    }

    fn start_child(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        index: u64,
        previous: u64,
    ) -> Result<(), FieldFault> {
        let input = self.evaluate_child_input(id, run, state, index)?;
        let machine = match &state.kind {
            StateKind::Parallel(parallel) => parallel.branches.get(index as usize),
            _ => state.machines().first(),
        };
        let start = machine.map_or("", |machine| machine.start_at()).to_owned();
        let Phase::Gathering(children) = &mut run.phase else {
            return Ok(());
        };
        let kind = children.kind;
        let is_silent = run.is_silent || kind == ChildRunsKind::Distributed;
        children.begun += 1;
        let mut first = previous;
        if kind == ChildRunsKind::Inline && !is_silent {
            let details = iteration_details(state, index);
            first = self.record_event(previous, HistoryType::MapIterationStarted, details);
        }
        let parent = Parent { run: id, index };
        let child = self.add_run(Run::new(Some(parent), start, input, first, is_silent));
        if let Phase::Gathering(children) = &mut run.phase {
            children.running.insert(index, child);
        }
        Ok(())
    }

    /// Evaluates the input of a branch or an iteration.
    fn evaluate_child_input(
        &mut self,
        id: RunId,
        run: &Run,
        state: &'a State,
        index: u64,
    ) -> Result<Value, FieldFault> {
        let Phase::Gathering(children) = &run.phase else {
            return Ok(Value::Null);
        };
        let StateKind::Map(map) = &state.kind else {
            return Ok(children.input.clone());
        };
        let item = children
            .items
            .get(index as usize)
            .cloned()
            .unwrap_or_default();
        match &map.item_selector {
            Some(selector) if !children.is_batched => {
                let extra = ExtraContext {
                    item: Some((index, &item)),
                    ..ExtraContext::default()
                };
                self.with_scope(id, run, state, extra, |scope| {
                    let seed = format!("ItemSelector {index}");
                    selector
                        .fill(&scope.with_input(&children.input).seeded_for(&seed))
                        .in_field("ItemSelector")
                })
            }
            _ => Ok(item),
        }
    }

    /// Handles the success of a branch or an iteration.
    pub(super) fn handle_child_succeeded(&mut self, parent: Parent, child: &Run, output: Value) {
        self.update_parent(parent, |walk, run, state| {
            let Phase::Gathering(children) = &mut run.phase else {
                return;
            };
            children.store_output(parent.index, output);
            let mut last = child.last_event;
            if children.kind == ChildRunsKind::Inline && !child.is_silent {
                let details = iteration_details(state, parent.index);
                last = walk.record_event(last, HistoryType::MapIterationSucceeded, details);
            }
            if !child.is_silent {
                run.last_event = last;
            }
            walk.start_more_children(parent.run, run, state, child.last_event);
        });
    }

    /// Handles the failure of a branch or an iteration. Unless it is tolerated, the
    /// siblings are stopped and the parent state fails.
    pub(super) fn handle_child_failed(
        &mut self,
        parent: Parent,
        child: &Run,
        child_state: &State,
        failure: Failure,
    ) {
        self.update_parent(parent, |walk, run, state| {
            let Phase::Gathering(children) = &mut run.phase else {
                return;
            };
            let (kind, failed_max) = (children.kind, children.failed_max);
            children.failed += 1;
            let is_tolerated = children.failed <= failed_max;
            children.store_output(parent.index, failure.error_output());
            let previous = child.last_event;
            if !child.is_silent {
                run.last_event = previous;
                if kind == ChildRunsKind::Inline {
                    let details = iteration_details(state, parent.index);
                    walk.record_event(previous, HistoryType::MapIterationFailed, details);
                }
            }
            if is_tolerated {
                return walk.start_more_children(parent.run, run, state, previous);
            }
            if let Some(kind) = aborted_event_type(&child_state.kind)
                && !child.is_silent
            {
                walk.record_event(previous, kind, Details::new());
            }
            walk.stop_children(run, previous);
            let failure = match kind {
                ChildRunsKind::Distributed => tolerance_exceeded(&failure),
                ChildRunsKind::Inline if failed_max > 0 => tolerance_exceeded(&failure),
                _ => failure,
            };
            if kind == ChildRunsKind::Distributed {
                let details = failure.details(Details::new());
                walk.record_run_event(run, HistoryType::MapRunFailed, details);
            }
            run.phase = Phase::Failing(failure);
            walk.execution.ready.push_back(parent.run);
        });
    }

    /// Calls `act` with the parent run, which is not in the map of runs meanwhile.
    fn update_parent(&mut self, parent: Parent, act: impl FnOnce(&mut Self, &mut Run, &'a State)) {
        let Some(mut run) = self.execution.runs.remove(&parent.run) else {
            return;
        };
        let Some(state) = self.find_state(&run) else {
            return self.fail_on_unknown_state(&run.state);
        };
        act(self, &mut run, state);
        if self.is_running() {
            self.execution.runs.insert(parent.run, run);
        }
    }

    /// Stops everything a run waits for: its task, its timer and its descendants.
    pub(super) fn stop_children(&mut self, run: &mut Run, previous: u64) {
        if let Some(task) = run.phase.task() {
            self.stop_task(task);
        }
        if let Some(timer) = run.phase.timer() {
            self.stop_timer(timer);
        }
        let (running, kind) = match &mut run.phase {
            Phase::Gathering(children) => (std::mem::take(&mut children.running), children.kind),
            _ => return,
        };
        for (index, id) in running {
            let Some(mut child) = self.execution.runs.remove(&id) else {
                continue;
            };
            if kind == ChildRunsKind::Inline && !child.is_silent {
                let details = Details::new()
                    .with("name", run.state.as_str())
                    .with("index", index);
                self.record_event(previous, HistoryType::MapIterationAborted, details);
            }
            let is_within = child.phase != Phase::Entering;
            // Prefer the phase: the state cannot be found while the parent
            // run is not in the map.
            let kind = match &child.phase {
                Phase::Gathering(children) if children.is_map() => {
                    Some(HistoryType::MapStateAborted)
                }
                Phase::Gathering(_) => Some(HistoryType::ParallelStateAborted),
                Phase::Waiting(_) => Some(HistoryType::WaitStateAborted),
                _ if is_within => self
                    .definition
                    .find(&child.state)
                    .and_then(|state| aborted_event_type(&state.kind)),
                _ => None,
            };
            self.stop_children(&mut child, previous);
            if let Some(kind) = kind
                && !child.is_silent
            {
                self.record_event(previous, kind, Details::new());
            }
        }
    }

    /// Records that all branches or iterations succeeded. The exit event follows
    /// the last child, not this event.
    pub(super) fn record_children_succeeded(&mut self, run: &mut Run, state: &State) {
        if run.is_silent {
            return;
        }
        let kind = match &state.kind {
            StateKind::Map(map) if is_distributed(map) => {
                self.record_run_event(run, HistoryType::MapRunSucceeded, Details::new());
                HistoryType::MapStateSucceeded
            }
            StateKind::Map(_) => HistoryType::MapStateSucceeded,
            _ => HistoryType::ParallelStateSucceeded,
        };
        self.record_event(run.last_event, kind, Details::new());
    }
}

impl ChildRuns {
    pub(super) fn new(kind: ChildRunsKind, input: Value, total: u64) -> Self {
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

    fn store_output(&mut self, index: u64, output: Value) {
        self.running.remove(&index);
        self.done += 1;
        if let Some(slot) = self.outputs.get_mut(index as usize) {
            *slot = output;
        }
    }
}

pub(super) fn is_distributed(map: &crate::language::model::MapState) -> bool {
    map.processor.mode != crate::language::model::ProcessorMode::Inline
}

fn iteration_details(state: &State, index: u64) -> Details {
    Details::new()
        .with("name", state.name.as_str())
        .with("index", index)
}

fn tolerance_exceeded(last: &Failure) -> Failure {
    let cause = format!(
        "more iterations failed than tolerated; last error: {}",
        json!(last.error_output())
    );
    Failure::new(errors::EXCEED_TOLERATED_FAILURE_THRESHOLD, cause)
}

/// The history event for an aborted state, if its kind has one.
fn aborted_event_type(kind: &StateKind) -> Option<HistoryType> {
    match kind {
        StateKind::Task(_) => Some(HistoryType::TaskStateAborted),
        StateKind::Wait(_) => Some(HistoryType::WaitStateAborted),
        StateKind::Parallel(_) => Some(HistoryType::ParallelStateAborted),
        StateKind::Map(_) => Some(HistoryType::MapStateAborted),
        _ => None,
    }
}
