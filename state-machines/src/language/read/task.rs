//! The Task state.

use super::machine::MachineFlow;
use super::object::JsonObject;
use super::state::StateSite;
use super::{DefinitionReader, Durability, SECONDS_MAX};
use crate::data::Template;
use crate::language::model::{FieldValue, QueryLanguage, TaskState};
use crate::language::problem::ProblemCode;

impl DefinitionReader {
    pub(super) fn read_task(
        &mut self,
        site: &StateSite<'_, '_>,
        flow: &mut MachineFlow,
    ) -> Option<TaskState> {
        let (object, language) = (site.object, site.language);
        self.require_field(object, "Resource");
        let resource = self.read_resource(object);
        if self.durability == Durability::Express
            && let Some(resource) = resource
        {
            self.check_express(object, resource);
        }
        let seconds = (1, SECONDS_MAX);
        let timeout = self.read_integer_value(object, "TimeoutSeconds", language, seconds);
        let heartbeat = self.read_integer_value(object, "HeartbeatSeconds", language, seconds);
        self.check_heartbeat(object, timeout.as_ref(), heartbeat.as_ref());
        let task = TaskState {
            resource: String::new(),
            arguments: self.read_arguments(object, language),
            result_selector: self.read_result_selector(object, language),
            result: self.read_result_path(object, language),
            timeout_seconds: timeout,
            heartbeat_seconds: heartbeat,
            credentials: self.read_credentials(object, language),
            retry: self.read_retry(site),
            catch: self.read_catch(site, flow),
            next: self.read_next(site, flow)?,
        };
        Some(TaskState {
            resource: resource?.to_owned(),
            ..task
        })
    }

    /// `ResultSelector` (JSONPath only).
    pub(super) fn read_result_selector(
        &mut self,
        object: &JsonObject<'_>,
        language: QueryLanguage,
    ) -> Option<Template> {
        match language {
            QueryLanguage::JsonPath => self.read_template(object, "ResultSelector", language),
            QueryLanguage::Jsonata => None,
        }
    }

    /// `Resource`: any name is valid, since the engine decides which it knows. A
    /// substitution in it is filled in before the definition is deployed.
    pub(super) fn read_resource<'a>(&mut self, object: &JsonObject<'a>) -> Option<&'a str> {
        let text = self.read_text(object, "Resource")?;
        let at = object.pointer_to("Resource");
        if text.is_empty() {
            self.report(
                &at,
                ProblemCode::Empty,
                "\"Resource\" is empty; name the resource that runs the task",
            );
        }
        if let Some(open) = text.rfind("${")
            && !text.get(open..).is_some_and(|rest| rest.contains('}'))
        {
            self.report(
                &at,
                ProblemCode::Substitution,
                "the substitution \"${\" is not closed; add a \"}\"",
            );
        }
        Some(text)
    }

    fn check_express(&mut self, object: &JsonObject<'_>, resource: &str) {
        let wrong = if resource.contains(".sync") {
            Some("wait for a job to end (\".sync\")")
        } else if resource.contains(".waitForTaskToken") {
            Some("wait for a callback (\".waitForTaskToken\")")
        } else if resource.starts_with("arn:aws:states:") && resource.contains(":activity:") {
            Some("wait for an activity")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            self.report(
                &object.pointer_to("Resource"),
                ProblemCode::Express,
                format!("an express machine cannot {wrong}; use a standard one"),
            );
        }
    }

    fn check_heartbeat(
        &mut self,
        object: &JsonObject<'_>,
        timeout: Option<&FieldValue<u64>>,
        heartbeat: Option<&FieldValue<u64>>,
    ) {
        if let (Some(FieldValue::Fixed(timeout)), Some(FieldValue::Fixed(heartbeat))) =
            (timeout, heartbeat)
            && heartbeat >= timeout
        {
            self.report(
                &object.pointer_to("HeartbeatSeconds"),
                ProblemCode::OutOfRange,
                format!("\"HeartbeatSeconds\" is {heartbeat}, and must be less than \"TimeoutSeconds\", which is {timeout}"),
            );
        }
    }

    /// `Credentials`, which must name a role.
    fn read_credentials(
        &mut self,
        object: &JsonObject<'_>,
        language: QueryLanguage,
    ) -> Option<Template> {
        let credentials = self.read_object(object, "Credentials")?;
        let by_path = language == QueryLanguage::JsonPath && credentials.has("RoleArn.$");
        if !by_path {
            self.require_field(&credentials, "RoleArn");
        }
        self.read_template(object, "Credentials", language)
    }
}
