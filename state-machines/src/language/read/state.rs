//! A state: what all of them have, and where it leads.

use super::Reader;
use super::fields::STATES;
use super::machine::Flow;
use super::object::Object;
use super::reserved::Has;
use super::tokens::is_unfilled;
use crate::language::model::{Kind, Next, Part, QueryLanguage, State};
use crate::language::problem::Code;

/// A state while it is read.
pub(super) struct Site<'a, 'b> {
    pub(super) name: &'b str,
    pub(super) object: &'b Object<'a>,
    pub(super) language: QueryLanguage,
}

impl Reader {
    pub(super) fn state(
        &mut self,
        name: &str,
        object: &Object<'_>,
        flow: &mut Flow,
    ) -> Option<State> {
        let language = self.state_language(object);
        let types: Vec<&str> = STATES.iter().map(|(name, _)| *name).collect();
        self.required(object, "Type");
        let Some(written) = self.one_of(object, "Type", &types) else {
            flow.broken();
            return None;
        };
        let (_, fields) = STATES.iter().find(|(name, _)| *name == written)?;
        self.allow(object, fields, language);
        let comment = self.text(object, "Comment").map(str::to_owned);
        let (input, output_path) = match language {
            QueryLanguage::JsonPath => (
                self.part(object, "InputPath"),
                self.part(object, "OutputPath"),
            ),
            QueryLanguage::Jsonata => (Part::Whole, Part::Whole),
        };
        let has = match written {
            "Task" | "Parallel" | "Map" => Has::Result,
            _ => Has::Neither,
        };
        let output = self.output(object, language, has);
        let assign = self.assign(object, language, has);
        let site = Site {
            name,
            object,
            language,
        };
        let kind = match written {
            "Task" => self
                .task(&site, flow)
                .map(|task| Kind::Task(Box::new(task))),
            "Choice" => self.choice(&site, flow).map(Kind::Choice),
            "Wait" => self.wait(&site, flow).map(Kind::Wait),
            "Pass" => self.pass(&site, flow).map(Kind::Pass),
            "Parallel" => self
                .parallel(&site, flow)
                .map(|parallel| Kind::Parallel(Box::new(parallel))),
            "Map" => self.map(&site, flow).map(|map| Kind::Map(Box::new(map))),
            "Fail" => {
                flow.end(name);
                Some(Kind::Fail(self.fail(&site)))
            }
            _ => {
                flow.end(name);
                Some(Kind::Succeed)
            }
        };
        Some(State {
            name: name.to_owned(),
            path: object.at.as_str().to_owned(),
            comment,
            query_language: language,
            input,
            output_path,
            output,
            assign,
            kind: kind?,
        })
    }

    /// The query language of a state: its own, else that of the definition.
    /// What is around it does not count: a state in a Map in JSONata is in
    /// JSONPath if the definition is.
    fn state_language(&mut self, object: &Object<'_>) -> QueryLanguage {
        let own = self.query_language(object);
        if self.language == QueryLanguage::Jsonata && own == Some(QueryLanguage::JsonPath) {
            self.report(
                &object.at("QueryLanguage"),
                Code::LanguageDowngrade,
                "the definition is in JSONata, so a state cannot be in JSONPath; remove this, or the \"QueryLanguage\" of the definition",
            );
            return QueryLanguage::JsonPath;
        }
        own.unwrap_or(self.language)
    }

    /// `Next` or `End`, of which a state has exactly one.
    pub(super) fn next(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Next> {
        let next = self.next_or_end(site, flow);
        if next.is_none() {
            flow.broken();
        }
        next
    }

    fn next_or_end(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Next> {
        let object = site.object;
        let end = self.boolean(object, "End");
        if object.has("Next") {
            if end == Some(true) {
                self.report(
                    &object.at,
                    Code::NextAndEnd,
                    "a state has either \"Next\" or \"End\", not both; remove one",
                );
            }
            let next = self.text(object, "Next")?;
            flow.step(site.name, object.at("Next"), next);
            return Some(Next::State(next.to_owned()));
        }
        if end == Some(true) {
            flow.end(site.name);
            return Some(Next::End);
        }
        if is_unfilled(object.get("End")) {
            flow.broken();
            return Some(Next::End);
        }
        if end.is_some() || !object.has("End") {
            self.report(
                &object.at,
                Code::MissingField,
                "a state must lead somewhere: add \"Next\", or \"End\": true",
            );
        }
        None
    }
}
