//! Retry and Catch.

use serde_json::Value;

use super::fields::{CATCHER, RETRIER};
use super::machine::Flow;
use super::object::Object;
use super::reserved::Has;
use super::state::Site;
use super::{Reader, SECONDS_MAX};
use crate::language::model::{Catcher, Jitter, Retrier};
use crate::language::pointer::Pointer;
use crate::language::problem::Code;

/// The longest delay before something is tried again: a year and a day.
const DELAY_SECONDS_MAX: u64 = 31_622_400;

impl Reader {
    pub(super) fn retry(&mut self, site: &Site<'_, '_>) -> Vec<Retrier> {
        let retriers = self.handlers(site.object, "Retry");
        retriers
            .iter()
            .map(|retrier| self.retrier(retrier))
            .collect()
    }

    fn retrier(&mut self, object: &Object<'_>) -> Retrier {
        self.allow_only(object, RETRIER, "a retrier");
        self.text(object, "Comment");
        let errors = self.error_names(object);
        let interval = self.integer(object, "IntervalSeconds", 1, SECONDS_MAX);
        let attempts_max = self.integer(object, "MaxAttempts", 0, SECONDS_MAX);
        let backoff_rate = self.number(object, "BackoffRate", 1.0, f64::INFINITY);
        let delay_seconds_max = self.integer(object, "MaxDelaySeconds", 1, DELAY_SECONDS_MAX);
        if let (Some(delay), Some(interval)) = (delay_seconds_max, interval)
            && delay <= interval
        {
            self.report(
                &object.at("MaxDelaySeconds"),
                Code::OutOfRange,
                format!("\"MaxDelaySeconds\" is {delay}, and must be more than \"IntervalSeconds\", which is {interval}"),
            );
        }
        let jitter = match self.one_of(object, "JitterStrategy", &["FULL", "NONE"]) {
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

    pub(super) fn catch(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Vec<Catcher> {
        let catchers = self.handlers(site.object, "Catch");
        let read: Vec<Catcher> = catchers
            .iter()
            .filter_map(|catcher| self.catcher(site, catcher, flow))
            .collect();
        let written = site
            .object
            .get("Catch")
            .map(|list| list.as_array().map(Vec::len));
        if written.is_some_and(|written| written != Some(read.len())) {
            flow.broken();
        }
        read
    }

    fn catcher(
        &mut self,
        site: &Site<'_, '_>,
        object: &Object<'_>,
        flow: &mut Flow,
    ) -> Option<Catcher> {
        let language = site.language;
        self.allow(object, &CATCHER, language);
        let errors = self.error_names(object);
        let result = self.place(object, language);
        let output = self.output(object, language, Has::Error);
        let assign = self.assign(object, language, Has::Error);
        let comment = self.text(object, "Comment").map(str::to_owned);
        self.required(object, "Next");
        let next = self.text(object, "Next")?;
        flow.step(site.name, object.at("Next"), next);
        Some(Catcher {
            errors,
            next: next.to_owned(),
            result,
            output,
            assign,
            comment,
        })
    }

    /// The elements of `Retry` or `Catch`; `States.ALL` stands alone, and last.
    fn handlers<'a>(&mut self, state: &Object<'a>, name: &str) -> Vec<Object<'a>> {
        let at = state.at(name);
        let list: &[Value] = self.list(state, name).map_or(&[], Vec::as_slice);
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
                "\"States.ALL\" stands for every error, and must stand alone; remove the others"
            } else {
                "\"States.ALL\" stands for every error, so nothing after it is looked at; put it last"
            };
            self.report(&at.field("ErrorEquals"), Code::StatesAll, message);
        }
    }
}
