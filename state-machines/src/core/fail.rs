//! Error handling: Retry, Catch, and propagation to the parent.
//!
//! ```text
//!   an error ─▶ Retry: the first retrier that matches it, while it has attempts left
//!            ─▶ Catch: the first catcher that matches it
//!            ─▶ the run fails: its parent gets the error, or the execution ends
//! ```
//!
//! `States.Runtime` cannot be handled: it ends the execution.

use serde_json::{Value, json};

use super::execution::{ExecutionStatus, TimerTarget};
use super::history::{Details, HistoryType};
use super::interpreter::{Interpreter, TurnOutcome};
use super::payload::{self, FieldFault};
use super::run::{Failure, Phase, Run};
use super::scope::ExtraContext;
use super::{RunId, errors};
use crate::data::errors::{QUERY_EVALUATION_ERROR, RUNTIME};
use crate::data::pipeline;
use crate::data::random::{SeededRandom, seed_for};
use crate::language::State;
use crate::language::model::{Jitter, Retrier, StateKind};

/// The maximum delay, in seconds; the same as for a Wait.
const DELAY_SECONDS_MAX: f64 = 99_999_999.0;

impl Failure {
    /// Whether a handler with these error names matches.
    pub(super) fn matches_any(&self, names: &[String]) -> bool {
        let error = self.error.as_deref();
        names.iter().any(|name| match name.as_str() {
            errors::ALL => true,
            errors::TASK_FAILED => error != Some(errors::TIMEOUT),
            errors::HEARTBEAT_TIMEOUT if self.is_heartbeat => true,
            name => error == Some(name),
        })
    }

    fn is_runtime(&self) -> bool {
        self.error.as_deref() == Some(RUNTIME)
    }

    /// The error output for catchers.
    pub(super) fn error_output(&self) -> Value {
        json!({
            "Error": self.error.as_deref().unwrap_or_default(),
            "Cause": self.cause.as_deref().unwrap_or_default(),
        })
    }

    pub(super) fn details(&self, details: Details) -> Details {
        details
            .with_optional("error", self.error.as_deref())
            .with_optional("cause", self.cause.as_deref())
    }
}

impl<'a> Interpreter<'a> {
    /// Fails a state because a field could not be evaluated.
    pub(super) fn fail_with_fault(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        field_fault: FieldFault,
    ) -> TurnOutcome {
        let failure = self.record_fault(run, state, field_fault);
        self.handle_failure(id, run, state, failure)
    }

    /// Records a fault in the history and converts it to a failure.
    pub(super) fn record_fault(
        &mut self,
        run: &mut Run,
        state: &State,
        field_fault: FieldFault,
    ) -> Failure {
        let FieldFault { fault, field } = field_fault;
        self.is_out_of_time |= fault.is_out_of_time;
        let cause = format!(
            "the state {:?} (entered at event {}) failed at {field}: {}",
            state.name, run.entered_event, fault.cause
        );
        if fault.error == QUERY_EVALUATION_ERROR {
            let details = Details::new()
                .with("error", fault.error)
                .with("cause", cause.as_str())
                .with("location", field)
                .with("state", state.name.as_str());
            // As on AWS, it has the same previous event as the entry of the
            // state, except in a Wait.
            if run.last_event == run.entered_event && !matches!(state.kind, StateKind::Wait(_)) {
                run.last_event = run.before_event;
            }
            self.record_run_event(run, HistoryType::EvaluationFailed, details);
        }
        Failure::new(fault.error, cause)
    }

    /// Handles a failure in a state: retries, catches or propagates it.
    pub(super) fn handle_failure(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        failure: Failure,
    ) -> TurnOutcome {
        if failure.is_runtime() {
            return self.propagate(run, state, failure);
        }
        if let Some(delay_ms) = self.next_retry_delay(id, run, state, &failure) {
            let timer = self.set_timer(self.now.saturating_add(delay_ms), TimerTarget::Run(id));
            run.phase = Phase::BackingOff(timer);
            return TurnOutcome::Continues;
        }
        match &state.kind {
            StateKind::Parallel(_) => {
                self.record_run_event(run, HistoryType::ParallelStateFailed, Details::new());
            }
            StateKind::Map(_) => {
                self.record_run_event(run, HistoryType::MapStateFailed, Details::new());
            }
            _ => {}
        }
        let catchers = state.catch().iter();
        let Some(catcher) = catchers
            .into_iter()
            .find(|one| failure.matches_any(&one.errors))
        else {
            return self.propagate(run, state, failure);
        };
        let error_output = failure.error_output();
        let state_output = self.with_scope(id, run, state, ExtraContext::default(), |scope| {
            payload::leave_by_catcher(state, catcher, &error_output, scope)
        });
        match state_output {
            Ok(state_output) => {
                if let Err(fault) =
                    pipeline::check_size(&state_output.output, "the output of the catcher")
                {
                    let failure = Failure::new(fault.error, fault.cause);
                    return self.propagate(run, state, failure);
                }
                self.record_exit(run, state, &state_output);
                run.state.clone_from(&catcher.next);
                run.input = state_output.output;
                run.phase = Phase::Entering;
                self.execution.ready.push_back(id);
                TurnOutcome::Continues
            }
            // A state does not catch the failure of its own catcher.
            Err(field_fault) => {
                let failure = self.record_fault(run, state, field_fault);
                self.propagate(run, state, failure)
            }
        }
    }

    /// The delay before the next attempt; none if no retrier has attempts left.
    fn next_retry_delay(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &State,
        failure: &Failure,
    ) -> Option<i64> {
        let retriers = state.retry().iter();
        let (index, retrier) = retriers
            .enumerate()
            .find(|(_, retrier)| failure.matches_any(&retrier.errors))?;
        let used = run.retries.get_mut(index)?;
        if *used >= retrier.attempts_max {
            return None;
        }
        *used += 1;
        let used = *used;
        run.attempts += 1;
        let seed = format!("jitter {id} {} {}", run.states, run.attempts);
        let chance = SeededRandom::new(seed_for(self.execution.seed, &seed));
        Some(delay_ms(retrier, used, chance.next_unit()))
    }

    /// Fails the run: passes the error to its parent, or ends the execution.
    fn propagate(&mut self, run: &mut Run, state: &State, failure: Failure) -> TurnOutcome {
        match run.parent {
            // Within a distributed Map the error ends only one run.
            Some(parent) if run.is_silent || !failure.is_runtime() => {
                self.handle_child_failed(parent, run, state, failure);
            }
            _ => self.end_with_failure(ExecutionStatus::Failed, run.last_event, failure),
        }
        TurnOutcome::Ended
    }
}

/// The delay before the `used`-th retry, from 1. `chance` is a random number from
/// 0 to 1 for the jitter.
fn delay_ms(retrier: &Retrier, used: u64, chance: f64) -> i64 {
    let exponent = i32::try_from(used.saturating_sub(1)).unwrap_or(i32::MAX);
    let grown = retrier.interval_seconds as f64 * retrier.backoff_rate.powi(exponent);
    let most = retrier
        .delay_seconds_max
        .map_or(DELAY_SECONDS_MAX, |most| most as f64);
    let seconds = grown.min(most);
    let seconds = match retrier.jitter {
        Jitter::None => seconds,
        Jitter::Full => seconds * chance,
    };
    (seconds * 1_000.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retrier(delay_seconds_max: Option<u64>, jitter: Jitter) -> Retrier {
        Retrier {
            errors: vec!["States.ALL".to_owned()],
            interval_seconds: 3,
            attempts_max: 5,
            backoff_rate: 2.0,
            delay_seconds_max,
            jitter,
        }
    }

    #[test]
    fn delays_grow_up_to_their_limit_and_chance_shortens_them() {
        let plain = retrier(None, Jitter::None);
        let delays: Vec<i64> = (1..=4).map(|used| delay_ms(&plain, used, 0.5)).collect();
        assert_eq!(delays, [3_000, 6_000, 12_000, 24_000]);
        assert_eq!(delay_ms(&retrier(Some(10), Jitter::None), 3, 0.5), 10_000);
        assert_eq!(delay_ms(&retrier(Some(10), Jitter::Full), 3, 0.5), 5_000);
        assert_eq!(delay_ms(&plain, u64::MAX, 0.5), 99_999_999_000);
    }

    #[test]
    fn errors_are_matched_as_the_specification_says() {
        let among = |error: Option<&str>, is_heartbeat, name: &str| {
            let failure = Failure {
                error: error.map(str::to_owned),
                cause: None,
                is_heartbeat,
            };
            failure.matches_any(&[name.to_owned()])
        };
        assert!(among(Some("Mine"), false, "Mine"));
        assert!(!among(Some("Mine"), false, "Other"));
        assert!(among(Some("Mine"), false, "States.ALL"));
        assert!(among(None, false, "States.ALL"));
        assert!(among(Some("Mine"), false, "States.TaskFailed"));
        assert!(!among(Some("States.Timeout"), false, "States.TaskFailed"));
        assert!(among(Some("States.Timeout"), true, "States.Timeout"));
        assert!(among(
            Some("States.Timeout"),
            true,
            "States.HeartbeatTimeout"
        ));
        assert!(!among(
            Some("States.Timeout"),
            false,
            "States.HeartbeatTimeout"
        ));
    }
}
