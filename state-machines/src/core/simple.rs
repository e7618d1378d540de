//! The states that need nobody else: Pass, Choice, Wait, Succeed, Fail.

use super::execution::Wakes;
use super::look::Beside;
use super::payload::{self, InField};
use super::run::{Failure, Phase, Run};
use super::walk::{Fate, Walk};
use super::{RunId, clock, errors};
use crate::language::State;
use crate::language::model::{Choice, Fail, Kind, Next, Pass, Place, Until, Wait};

impl<'a> Walk<'a> {
    pub(super) fn try_pass(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        pass: &'a Pass,
    ) -> Fate {
        let leaving = self.look(id, run, state, Beside::default(), |scope| {
            payload::pass(state, pass, scope)
        });
        match leaving {
            Ok(leaving) => self.leave(id, run, state, leaving, &pass.next),
            Err(trouble) => self.trouble(id, run, state, trouble),
        }
    }

    pub(super) fn try_choice(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        choice: &'a Choice,
    ) -> Fate {
        let chosen = self.look(id, run, state, Beside::default(), |scope| {
            payload::choose(state, choice, scope)
        });
        match chosen {
            Ok(Some((next, leaving))) => self.leave(id, run, state, leaving, &Next::State(next)),
            Ok(None) => {
                let cause = format!("no rule of {:?} holds, and it has no Default", state.name);
                let failure = Failure::new(errors::NO_CHOICE_MATCHED, cause);
                self.fail(id, run, state, failure)
            }
            Err(trouble) => self.trouble(id, run, state, trouble),
        }
    }

    pub(super) fn try_wait(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        wait: &'a Wait,
    ) -> Fate {
        let now = self.now;
        let until = self.look(id, run, state, Beside::default(), |scope| {
            let input = payload::effective(state, scope)?;
            let scope = scope.with_input(&input);
            match &wait.until {
                Until::Seconds(seconds) => payload::whole(seconds, 0, &scope)
                    .in_field("Seconds")
                    .map(|seconds| clock::later(now, seconds)),
                Until::Timestamp(time) => payload::time(time, &scope)
                    .in_field("Timestamp")
                    .map(clock::milliseconds),
            }
        });
        match until {
            // A time that has passed is no reason to wait.
            Ok(until) if until <= now => self.pass_on(id, run, state, &wait.next),
            Ok(until) => {
                run.phase = Phase::Waiting(self.set_timer(until, Wakes::Run(id)));
                Fate::Stays
            }
            Err(trouble) => self.trouble(id, run, state, trouble),
        }
    }

    pub(super) fn try_succeed(&mut self, id: RunId, run: &mut Run, state: &'a State) -> Fate {
        self.pass_on(id, run, state, &Next::End)
    }

    pub(super) fn try_fail(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        fail: &'a Fail,
    ) -> Fate {
        let named = self.look(id, run, state, Beside::default(), |scope| {
            payload::fail(state, fail, scope)
        });
        match named {
            Ok((error, cause)) => {
                let failure = Failure {
                    error,
                    cause,
                    is_heartbeat: false,
                };
                self.fail(id, run, state, failure)
            }
            Err(trouble) => self.trouble(id, run, state, trouble),
        }
    }

    /// Leaves a state that has no result of its own.
    fn pass_on(&mut self, id: RunId, run: &mut Run, state: &'a State, next: &Next) -> Fate {
        let leaving = self.look(id, run, state, Beside::default(), |scope| {
            payload::pass_on(state, scope)
        });
        match leaving {
            Ok(leaving) => self.leave(id, run, state, leaving, next),
            Err(trouble) => self.trouble(id, run, state, trouble),
        }
    }

    /// What the state waited for is there.
    pub(super) fn finish_work(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        result: &serde_json::Value,
    ) -> Fate {
        let (selector, place, next): (_, &Place, _) = match &state.kind {
            Kind::Wait(wait) => return self.pass_on(id, run, state, &wait.next),
            Kind::Task(task) => (&task.result_selector, &task.result, &task.next),
            Kind::Parallel(parallel) => {
                self.family_succeeded(run, state);
                (&parallel.result_selector, &parallel.result, &parallel.next)
            }
            Kind::Map(map) => {
                self.family_succeeded(run, state);
                (&map.result_selector, &map.result, &map.next)
            }
            // The others wait for nothing.
            _ => return Fate::Stays,
        };
        let leaving = self.look(id, run, state, Beside::default(), |scope| {
            payload::leave(state, selector.as_ref(), place, result, scope)
        });
        match leaving {
            Ok(leaving) => self.leave(id, run, state, leaving, next),
            Err(trouble) => self.trouble(id, run, state, trouble),
        }
    }
}
