//! The common fields of states, and their transitions.

use super::DefinitionReader;
use super::fields::STATES;
use super::machine::MachineFlow;
use super::object::JsonObject;
use super::reserved::StatesValue;
use super::tokens::is_unfilled;
use crate::language::model::{NextState, PathSelection, QueryLanguage, State, StateKind};
use crate::language::problem::ProblemCode;

/// A state while it is read.
pub(super) struct StateSite<'a, 'b> {
    pub(super) name: &'b str,
    pub(super) object: &'b JsonObject<'a>,
    pub(super) language: QueryLanguage,
}

impl DefinitionReader {
    pub(super) fn read_state(
        &mut self,
        name: &str,
        object: &JsonObject<'_>,
        flow: &mut MachineFlow,
    ) -> Option<State> {
        let language = self.read_state_language(object);
        let types: Vec<&str> = STATES.iter().map(|(name, _)| *name).collect();
        self.require_field(object, "Type");
        let Some(written) = self.read_one_of(object, "Type", &types) else {
            flow.mark_unreadable();
            return None;
        };
        let (_, fields) = STATES.iter().find(|(name, _)| *name == written)?;
        self.check_fields(object, fields, language);
        let comment = self.read_text(object, "Comment").map(str::to_owned);
        let (input, output_path) = match language {
            QueryLanguage::JsonPath => (
                self.read_path_selection(object, "InputPath"),
                self.read_path_selection(object, "OutputPath"),
            ),
            QueryLanguage::Jsonata => (PathSelection::Whole, PathSelection::Whole),
        };
        let has = match written {
            "Task" | "Parallel" | "Map" => StatesValue::Result,
            _ => StatesValue::Neither,
        };
        let output = self.read_output(object, language, has);
        let assign = self.read_assign(object, language, has);
        let site = StateSite {
            name,
            object,
            language,
        };
        let kind = match written {
            "Task" => self
                .read_task(&site, flow)
                .map(|task| StateKind::Task(Box::new(task))),
            "Choice" => self.read_choice(&site, flow).map(StateKind::Choice),
            "Wait" => self.read_wait(&site, flow).map(StateKind::Wait),
            "Pass" => self.read_pass(&site, flow).map(StateKind::Pass),
            "Parallel" => self
                .read_parallel(&site, flow)
                .map(|parallel| StateKind::Parallel(Box::new(parallel))),
            "Map" => self
                .read_map(&site, flow)
                .map(|map| StateKind::Map(Box::new(map))),
            "Fail" => {
                flow.add_end(name);
                Some(StateKind::Fail(self.read_fail(&site)))
            }
            _ => {
                flow.add_end(name);
                Some(StateKind::Succeed)
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
    /// Enclosing states do not matter: a state in a JSONata Map uses JSONPath if the
    /// definition does.
    fn read_state_language(&mut self, object: &JsonObject<'_>) -> QueryLanguage {
        let own = self.read_query_language(object);
        if self.language == QueryLanguage::Jsonata && own == Some(QueryLanguage::JsonPath) {
            self.report(
                &object.pointer_to("QueryLanguage"),
                ProblemCode::LanguageDowngrade,
                "the definition is in JSONata, so a state cannot be in JSONPath; remove this, or the \"QueryLanguage\" of the definition",
            );
            return QueryLanguage::JsonPath;
        }
        own.unwrap_or(self.language)
    }

    /// `Next` or `End`; a state has exactly one of them.
    pub(super) fn read_next(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<NextState> {
        let next = self.read_next_or_end(site, flow);
        if next.is_none() {
            flow.mark_unreadable();
        }
        next
    }

    fn read_next_or_end(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<NextState> {
        let object = site.object;
        let end = self.read_boolean(object, "End");
        if object.has("Next") {
            if end == Some(true) {
                self.report(
                    &object.at,
                    ProblemCode::NextAndEnd,
                    "a state has either \"Next\" or \"End\", not both; remove one",
                );
            }
            let next = self.read_text(object, "Next")?;
            flow.add_transition(site.name, object.pointer_to("Next"), next);
            return Some(NextState::State(next.to_owned()));
        }
        if end == Some(true) {
            flow.add_end(site.name);
            return Some(NextState::End);
        }
        if is_unfilled(object.get("End")) {
            flow.mark_unreadable();
            return Some(NextState::End);
        }
        if end.is_some() || !object.has("End") {
            self.report(
                &object.at,
                ProblemCode::MissingField,
                "a state needs a transition: add \"Next\", or \"End\": true",
            );
        }
        None
    }
}
