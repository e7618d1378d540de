//! What is done about errors: tried again, caught, or handed up.
//!
//! ```text
//!   an error ─▶ Retry: the first retrier that names it, while it has attempts left
//!            ─▶ Catch: the first catcher that names it
//!            ─▶ the run fails: whoever waits for it has the error, or the execution ends
//! ```
//!
//! `States.Runtime` is handled by nothing: the execution ends.

use serde_json::{Value, json};

use super::execution::{Status, Wakes};
use super::history::{Details, HistoryType};
use super::look::Beside;
use super::payload::{self, Trouble};
use super::run::{Failure, Phase, Run};
use super::walk::{Fate, Walk};
use super::{RunId, errors};
use crate::data::chance::{Chance, seed_for};
use crate::data::errors::{QUERY_EVALUATION_ERROR, RUNTIME};
use crate::data::pipeline;
use crate::language::State;
use crate::language::model::{Jitter, Kind, Retrier};

/// The longest delay, in seconds: that of a Wait.
const DELAY_SECONDS_MAX: f64 = 99_999_999.0;

impl Failure {
    /// Whether a handler of these errors is for it.
    pub(super) fn is_among(&self, names: &[String]) -> bool {
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

    /// What a catcher is given.
    pub(super) fn error_output(&self) -> Value {
        json!({
            "Error": self.error.as_deref().unwrap_or_default(),
            "Cause": self.cause.as_deref().unwrap_or_default(),
        })
    }

    pub(super) fn details(&self, details: Details) -> Details {
        details
            .maybe("error", self.error.as_deref())
            .maybe("cause", self.cause.as_deref())
    }
}

impl<'a> Walk<'a> {
    /// An expression of the state could not be evaluated.
    pub(super) fn trouble(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        trouble: Trouble,
    ) -> Fate {
        let failure = self.told(run, state, trouble);
        self.fail(id, run, state, failure)
    }

    /// Writes what is to be written about a trouble, and names it.
    pub(super) fn told(&mut self, run: &mut Run, state: &State, trouble: Trouble) -> Failure {
        let Trouble { fault, field } = trouble;
        self.is_out_of_time |= fault.is_out_of_time;
        let cause = format!(
            "the state {:?} (entered at event {}) failed at {field}: {}",
            state.name, run.entered_event, fault.cause
        );
        if fault.error == QUERY_EVALUATION_ERROR {
            let details = Details::none()
                .with("error", fault.error)
                .with("cause", cause.as_str())
                .with("location", field)
                .with("state", state.name.as_str());
            // On AWS it follows what the entry follows, but for a Wait.
            if run.last_event == run.entered_event && !matches!(state.kind, Kind::Wait(_)) {
                run.last_event = run.before_event;
            }
            self.write(run, HistoryType::EvaluationFailed, details);
        }
        Failure::new(fault.error, cause)
    }

    /// Something went wrong in a state.
    pub(super) fn fail(
        &mut self,
        id: RunId,
        run: &mut Run,
        state: &'a State,
        failure: Failure,
    ) -> Fate {
        if failure.is_runtime() {
            return self.hand_up(run, state, failure);
        }
        if let Some(delay_ms) = self.delay(id, run, state, &failure) {
            let timer = self.set_timer(self.now.saturating_add(delay_ms), Wakes::Run(id));
            run.phase = Phase::BackingOff(timer);
            return Fate::Stays;
        }
        match &state.kind {
            Kind::Parallel(_) => {
                self.write(run, HistoryType::ParallelStateFailed, Details::none());
            }
            Kind::Map(_) => {
                self.write(run, HistoryType::MapStateFailed, Details::none());
            }
            _ => {}
        }
        let catchers = state.catch().iter();
        let Some(catcher) = catchers
            .into_iter()
            .find(|one| failure.is_among(&one.errors))
        else {
            return self.hand_up(run, state, failure);
        };
        let error_output = failure.error_output();
        let leaving = self.look(id, run, state, Beside::default(), |scope| {
            payload::caught(state, catcher, &error_output, scope)
        });
        match leaving {
            Ok(leaving) => {
                if let Err(fault) = pipeline::check_size(&leaving.output, "what was caught") {
                    let failure = Failure::new(fault.error, fault.cause);
                    return self.hand_up(run, state, failure);
                }
                self.exit(run, state, &leaving);
                run.state.clone_from(&catcher.next);
                run.input = leaving.output;
                run.phase = Phase::Entering;
                self.execution.ready.push_back(id);
                Fate::Stays
            }
            // A catcher that fails is not caught by its own state.
            Err(trouble) => {
                let failure = self.told(run, state, trouble);
                self.hand_up(run, state, failure)
            }
        }
    }

    /// How long to wait before the next attempt, if there is one.
    fn delay(&mut self, id: RunId, run: &mut Run, state: &State, failure: &Failure) -> Option<i64> {
        let retriers = state.retry().iter();
        let (index, retrier) = retriers
            .enumerate()
            .find(|(_, retrier)| failure.is_among(&retrier.errors))?;
        let used = run.retries.get_mut(index)?;
        if *used >= retrier.attempts_max {
            return None;
        }
        *used += 1;
        let used = *used;
        run.attempts += 1;
        let seed = format!("jitter {id} {} {}", run.states, run.attempts);
        let chance = Chance::new(seed_for(self.execution.seed, &seed));
        Some(delay_ms(retrier, used, chance.unit()))
    }

    /// A run has failed: whoever waits for it has the error.
    fn hand_up(&mut self, run: &mut Run, state: &State, failure: Failure) -> Fate {
        match run.parent {
            // Within a distributed Map it is the end of one run only.
            Some(parent) if run.is_silent || !failure.is_runtime() => {
                self.child_failed(parent, run, state, failure);
            }
            _ => self.end_badly(Status::Failed, run.last_event, failure),
        }
        Fate::Gone
    }
}

/// The delay before the `used`-th attempt again, from 1; `chance` is from 0
/// to 1.
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
            failure.is_among(&[name.to_owned()])
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
