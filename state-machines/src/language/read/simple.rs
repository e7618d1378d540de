//! Wait, Pass, Fail.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::machine::Flow;
use super::object::Object;
use super::state::Site;
use super::tokens::is_unfilled;
use super::{Reader, SECONDS_MAX};
use crate::language::model::{Fail, Given, Pass, Place, QueryLanguage, Until, Wait};
use crate::language::problem::Code;

impl Reader {
    pub(super) fn wait(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Wait> {
        let next = self.next(site, flow);
        let until = self.until(site);
        Some(Wait {
            until: until?,
            next: next?,
        })
    }

    fn until(&mut self, site: &Site<'_, '_>) -> Option<Until> {
        let (object, language) = (site.object, site.language);
        let names: &[&str] = match language {
            QueryLanguage::JsonPath => &["Seconds", "SecondsPath", "Timestamp", "TimestampPath"],
            QueryLanguage::Jsonata => &["Seconds", "Timestamp"],
        };
        let there: Vec<&str> = names.iter().copied().filter(|n| object.has(n)).collect();
        match there.as_slice() {
            [] => {
                let message = format!("a Wait needs one of: {}", names.join(", "));
                self.report(&object.at, Code::MissingField, message);
                None
            }
            [name] => {
                let read = match *name {
                    "Seconds" | "SecondsPath" => self
                        .given_integer(object, "Seconds", language, (0, SECONDS_MAX))
                        .map(Until::Seconds),
                    _ => self.timestamp(object, language).map(Until::Timestamp),
                };
                // A token in its place is no reason not to draw it.
                let unfilled = is_unfilled(object.get(name));
                read.or_else(|| unfilled.then_some(Until::Seconds(Given::Fixed(0))))
            }
            _ => {
                self.only_one(object, names);
                None
            }
        }
    }

    fn timestamp(
        &mut self,
        object: &Object<'_>,
        language: QueryLanguage,
    ) -> Option<Given<OffsetDateTime>> {
        if let Some(found) = self.found(object, "Timestamp", language) {
            return found;
        }
        let text = self.text(object, "Timestamp")?;
        let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) else {
            self.report(
                &object.at("Timestamp"),
                Code::Timestamp,
                format!("{text:?} is not a time; write it as 2016-03-14T01:59:00Z"),
            );
            return None;
        };
        Some(Given::Fixed(time))
    }

    pub(super) fn pass(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Pass> {
        let (object, language) = (site.object, site.language);
        let next = self.next(site, flow);
        let (result, parameters, result_place) = match language {
            QueryLanguage::Jsonata => (None, None, Place::Whole),
            QueryLanguage::JsonPath => (
                object.get("Result").cloned(),
                self.template(object, "Parameters", language),
                self.place(object, language),
            ),
        };
        Some(Pass {
            result,
            parameters,
            result_place,
            next: next?,
        })
    }

    pub(super) fn fail(&mut self, site: &Site<'_, '_>) -> Fail {
        Fail {
            error: self.given_text(site.object, "Error", site.language),
            cause: self.given_text(site.object, "Cause", site.language),
        }
    }
}
