//! Retry and Catch.

use serde_json::Value;

use super::fields::{CATCHER, RETRIER};
use super::machine::MachineFlow;
use super::object::JsonObject;
use super::reserved::StatesValue;
use super::state::StateSite;
use super::{DefinitionReader, SECONDS_MAX};
use crate::language::model::{Catcher, Jitter, Retrier};
use crate::language::pointer::Pointer;
use crate::language::problem::ProblemCode;

/// The maximum delay of a retry: 366 days.
const DELAY_SECONDS_MAX: u64 = 31_622_400;

impl DefinitionReader {
    pub(super) fn read_retry(&mut self, site: &StateSite<'_, '_>) -> Vec<Retrier> {
        let retriers = self.read_handlers(site.object, "Retry");
        retriers
            .iter()
            .map(|retrier| self.read_retrier(retrier))
            .collect()
    }

    fn read_retrier(&mut self, object: &JsonObject<'_>) -> Retrier {
        self.check_field_names(object, RETRIER, "a retrier");
        self.read_text(object, "Comment");
        let errors = self.read_error_names(object);
        let interval = self.read_integer(object, "IntervalSeconds", 1, SECONDS_MAX);
        let attempts_max = self.read_integer(object, "MaxAttempts", 0, SECONDS_MAX);
        let backoff_rate = self.read_number(object, "BackoffRate", 1.0, f64::INFINITY);
        let delay_seconds_max = self.read_integer(object, "MaxDelaySeconds", 1, DELAY_SECONDS_MAX);
        if let (Some(delay), Some(interval)) = (delay_seconds_max, interval)
            && delay <= interval
        {
            self.report(
                &object.pointer_to("MaxDelaySeconds"),
                ProblemCode::OutOfRange,
                format!("\"MaxDelaySeconds\" is {delay}, and must be more than \"IntervalSeconds\", which is {interval}"),
            );
        }
        let jitter = match self.read_one_of(object, "JitterStrategy", &["FULL", "NONE"]) {
            Some("FULL") => Jitter::Full,
            _ => Jitter::None,
        };
        Retrier {
            errors,
            interval_seconds: interval.unwrap_or(1),
            attempts_max: attempts_max.unwrap_or(3),
            backoff_rate: backoff_rate.unwrap_or(2.0),
            delay_seconds_max,
            jitter,
        }
    }

    pub(super) fn read_catch(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Vec<Catcher> {
        let catchers = self.read_handlers(site.object, "Catch");
        let read: Vec<Catcher> = catchers
            .iter()
            .filter_map(|catcher| self.read_catcher(site, catcher, flow))
            .collect();
        let written = site
            .object
            .get("Catch")
            .map(|list| list.as_array().map(Vec::len));
        if written.is_some_and(|written| written != Some(read.len())) {
            flow.mark_unreadable();
        }
        read
    }

    fn read_catcher(
        &mut self,
        site: &StateSite<'_, '_>,
        object: &JsonObject<'_>,
        flow: &mut MachineFlow,
    ) -> Option<Catcher> {
        let language = site.language;
        self.check_fields(object, &CATCHER, language);
        let errors = self.read_error_names(object);
        let result = self.read_result_path(object, language);
        let output = self.read_output(object, language, StatesValue::Error);
        let assign = self.read_assign(object, language, StatesValue::Error);
        let comment = self.read_text(object, "Comment").map(str::to_owned);
        self.require_field(object, "Next");
        let next = self.read_text(object, "Next")?;
        flow.add_transition(site.name, object.pointer_to("Next"), next);
        Some(Catcher {
            errors,
            next: next.to_owned(),
            result,
            output,
            assign,
            comment,
        })
    }

    /// The elements of `Retry` or `Catch`. Checks that `States.ALL` is alone and last.
    fn read_handlers<'a>(&mut self, state: &JsonObject<'a>, name: &str) -> Vec<JsonObject<'a>> {
        let at = state.pointer_to(name);
        let list: &[Value] = self.read_list(state, name).map_or(&[], Vec::as_slice);
        for (index, value) in list.iter().enumerate() {
            self.check_states_all(&at.item(index), value, index + 1 == list.len());
        }
        list.iter()
            .enumerate()
            .filter_map(|(index, value)| self.as_object(at.item(index), value))
            .collect()
    }

    fn check_states_all(&mut self, at: &Pointer, handler: &Value, is_last: bool) {
        let Some(errors) = handler.get("ErrorEquals").and_then(Value::as_array) else {
            return;
        };
        let all = errors.iter().any(|error| error == "States.ALL");
        if all && (errors.len() > 1 || !is_last) {
            let message = if errors.len() > 1 {
                "\"States.ALL\" matches every error and must be alone; remove the others"
            } else {
                "\"States.ALL\" matches every error, so later handlers never apply; put it last"
            };
            self.report(&at.field("ErrorEquals"), ProblemCode::StatesAll, message);
        }
    }
}
