//! The states without tasks and children: Pass, Choice, Wait, Succeed, Fail.

use super::execution::TimerTarget;
use super::interpreter::{Interpreter, TurnOutcome};
use super::payload::{self, InField};
use super::run::{Failure, Phase, Run};
use super::scope::ExtraContext;
use super::{RunId, clock, errors};
use crate::language::State;
use crate::language::model::{
    ChoiceState, FailState, NextState, PassState, ResultTarget, StateKind, WaitState, WaitUntil,
};

impl<'a> Interpreter<'a> {
    pub(super) fn try_pass(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        pass: &'a PassState,
    ) -> TurnOutcome {
        let state_output = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::leave_pass(state, pass, scope)
        });
        match state_output {
            Ok(state_output) => self.leave_state(id, run, state, state_output, &pass.next),
            Err(field_fault) => self.fail_with_fault(id, run, state, field_fault),
        }
    }

    pub(super) fn try_choice(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        choice: &'a ChoiceState,
    ) -> TurnOutcome {
        let chosen = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::choose_rule(state, choice, scope)
        });
        match chosen {
            Ok(Some((next, state_output))) => {
                self.leave_state(id, run, state, state_output, &NextState::State(next))
            }
            Ok(None) => {
                let cause = format!("no rule of {:?} holds, and it has no Default", state.name);
                let failure = Failure::new(errors::NO_CHOICE_MATCHED, cause);
                self.handle_failure(id, run, state, failure)
            }
            Err(field_fault) => self.fail_with_fault(id, run, state, field_fault),
        }
    }

    pub(super) fn try_wait(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        wait: &'a WaitState,
    ) -> TurnOutcome {
        let now = self.now;
        let until = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            let input = payload::effective_input(state, scope)?;
            let scope = scope.with_input(&input);
            match &wait.until {
                WaitUntil::Seconds(seconds) => payload::resolve_whole(seconds, 0, &scope)
                    .in_field("Seconds")
                    .map(|seconds| clock::add_seconds(now, seconds)),
                WaitUntil::Timestamp(time) => payload::resolve_time(time, &scope)
                    .in_field("Timestamp")
                    .map(clock::to_milliseconds),
            }
        });
        match until {
            // The time has passed already: do not wait.
            Ok(until) if until <= now => self.leave_without_result(id, run, state, &wait.next),
            Ok(until) => {
                run.phase = Phase::Waiting(self.set_timer(until, TimerTarget::Run(id)));
                TurnOutcome::Continues
            }
            Err(field_fault) => self.fail_with_fault(id, run, state, field_fault),
        }
    }

    pub(super) fn try_succeed(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
    ) -> TurnOutcome {
        self.leave_without_result(id, run, state, &NextState::End)
    }

    pub(super) fn try_fail(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        fail: &'a FailState,
    ) -> TurnOutcome {
        let named = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::evaluate_fail(state, fail, scope)
        });
        match named {
            Ok((error, cause)) => {
                let failure = Failure {
                    error,
                    cause,
                    is_heartbeat: false,
                };
                self.handle_failure(id, run, state, failure)
            }
            Err(field_fault) => self.fail_with_fault(id, run, state, field_fault),
        }
    }

    /// Leaves a state that has no result of its own.
    fn leave_without_result(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        next: &NextState,
    ) -> TurnOutcome {
        let state_output = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::leave_without_result(state, scope)
        });
        match state_output {
            Ok(state_output) => self.leave_state(id, run, state, state_output, next),
            Err(field_fault) => self.fail_with_fault(id, run, state, field_fault),
        }
    }

    /// Finishes a state whose work has a result.
    pub(super) fn finish_state(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        result: &serde_json::Value,
    ) -> TurnOutcome {
        let (selector, place, next): (_, &ResultTarget, _) = match &state.kind {
            StateKind::Wait(wait) => return self.leave_without_result(id, run, state, &wait.next),
            StateKind::Task(task) => (&task.result_selector, &task.result, &task.next),
            StateKind::Parallel(parallel) => {
                self.record_children_succeeded(run, state);
                (&parallel.result_selector, &parallel.result, &parallel.next)
            }
            StateKind::Map(map) => {
                self.record_children_succeeded(run, state);
                (&map.result_selector, &map.result, &map.next)
            }
            // The other states do not wait.
            _ => return TurnOutcome::Continues,
        };
        let state_output = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::leave_with_result(state, selector.as_ref(), place, result, scope)
        });
        match state_output {
            Ok(state_output) => self.leave_state(id, run, state, state_output, next),
            Err(field_fault) => self.fail_with_fault(id, run, state, field_fault),
        }
    }
}
