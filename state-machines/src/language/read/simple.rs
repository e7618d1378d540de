//! Wait, Pass, Fail.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::machine::MachineFlow;
use super::object::JsonObject;
use super::state::StateSite;
use super::tokens::is_unfilled;
use super::{DefinitionReader, SECONDS_MAX};
use crate::language::model::{
    FailState, FieldValue, PassState, QueryLanguage, ResultTarget, WaitState, WaitUntil,
};
use crate::language::problem::ProblemCode;

impl DefinitionReader {
    pub(super) fn read_wait(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<WaitState> {
        let next = self.read_next(site, flow);
        let until = self.read_until(site);
        Some(WaitState {
            until: until?,
            next: next?,
        })
    }

    fn read_until(&mut self, site: &StateSite<'_, '_>) -> Option<WaitUntil> {
        let (object, language) = (site.object, site.language);
        let names: &[&str] = match language {
            QueryLanguage::JsonPath => &["Seconds", "SecondsPath", "Timestamp", "TimestampPath"],
            QueryLanguage::Jsonata => &["Seconds", "Timestamp"],
        };
        let there: Vec<&str> = names.iter().copied().filter(|n| object.has(n)).collect();
        match there.as_slice() {
            [] => {
                let message = format!("a Wait needs one of: {}", names.join(", "));
                self.report(&object.at, ProblemCode::MissingField, message);
                None
            }
            [name] => {
                let read = match *name {
                    "Seconds" | "SecondsPath" => self
                        .read_integer_value(object, "Seconds", language, (0, SECONDS_MAX))
                        .map(WaitUntil::Seconds),
                    _ => self
                        .read_timestamp(object, language)
                        .map(WaitUntil::Timestamp),
                };
                // An unfilled substitution must not prevent drawing.
                let unfilled = is_unfilled(object.get(name));
                read.or_else(|| unfilled.then_some(WaitUntil::Seconds(FieldValue::Fixed(0))))
            }
            _ => {
                self.check_only_one(object, names);
                None
            }
        }
    }

    fn read_timestamp(
        &mut self,
        object: &JsonObject<'_>,
        language: QueryLanguage,
    ) -> Option<FieldValue<OffsetDateTime>> {
        if let Some(found) = self.read_dynamic_value(object, "Timestamp", language) {
            return found;
        }
        let text = self.read_text(object, "Timestamp")?;
        let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) else {
            self.report(
                &object.pointer_to("Timestamp"),
                ProblemCode::Timestamp,
                format!("{text:?} is not a time; write it as 2016-03-14T01:59:00Z"),
            );
            return None;
        };
        Some(FieldValue::Fixed(time))
    }

    pub(super) fn read_pass(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<PassState> {
        let (object, language) = (site.object, site.language);
        let next = self.read_next(site, flow);
        let (result, parameters, result_place) = match language {
            QueryLanguage::Jsonata => (None, None, ResultTarget::Whole),
            QueryLanguage::JsonPath => (
                object.get("Result").cloned(),
                self.read_template(object, "Parameters", language),
                self.read_result_path(object, language),
            ),
        };
        Some(PassState {
            result,
            parameters,
            result_place,
            next: next?,
        })
    }

    pub(super) fn read_fail(&mut self, site: &StateSite<'_, '_>) -> FailState {
        FailState {
            error: self.read_text_value(site.object, "Error", site.language),
            cause: self.read_text_value(site.object, "Cause", site.language),
        }
    }
}
