//! A Task.

use super::machine::Flow;
use super::object::Object;
use super::state::Site;
use super::{Durability, Reader, SECONDS_MAX};
use crate::data::Template;
use crate::language::model::{Given, QueryLanguage, Task};
use crate::language::problem::Code;

impl Reader {
    pub(super) fn task(&mut self, site: &Site<'_, '_>, flow: &mut Flow) -> Option<Task> {
        let (object, language) = (site.object, site.language);
        self.required(object, "Resource");
        let resource = self.resource(object);
        if self.durability == Durability::Express
            && let Some(resource) = resource
        {
            self.check_express(object, resource);
        }
        let seconds = (1, SECONDS_MAX);
        let timeout = self.given_integer(object, "TimeoutSeconds", language, seconds);
        let heartbeat = self.given_integer(object, "HeartbeatSeconds", language, seconds);
        self.check_heartbeat(object, timeout.as_ref(), heartbeat.as_ref());
        let task = Task {
            resource: String::new(),
            arguments: self.arguments(object, language),
            result_selector: self.result_selector(object, language),
            result: self.place(object, language),
            timeout_seconds: timeout,
            heartbeat_seconds: heartbeat,
            credentials: self.credentials(object, language),
            retry: self.retry(site),
            catch: self.catch(site, flow),
            next: self.next(site, flow)?,
        };
        Some(Task {
            resource: resource?.to_owned(),
            ..task
        })
    }

    /// `ResultSelector`, which JSONPath alone has.
    pub(super) fn result_selector(
        &mut self,
        object: &Object<'_>,
        language: QueryLanguage,
    ) -> Option<Template> {
        match language {
            QueryLanguage::JsonPath => self.template(object, "ResultSelector", language),
            QueryLanguage::Jsonata => None,
        }
    }

    /// `Resource`: any name will do, for the engine decides which it knows. A
    /// substitution in it is filled before the definition is used.
    pub(super) fn resource<'a>(&mut self, object: &Object<'a>) -> Option<&'a str> {
        let text = self.text(object, "Resource")?;
        let at = object.at("Resource");
        if text.is_empty() {
            self.report(
                &at,
                Code::Empty,
                "\"Resource\" is empty; name who does the work",
            );
        }
        if let Some(open) = text.rfind("${")
            && !text.get(open..).is_some_and(|rest| rest.contains('}'))
        {
            self.report(
                &at,
                Code::Substitution,
                "the substitution \"${\" is not closed; add a \"}\"",
            );
        }
        Some(text)
    }

    fn check_express(&mut self, object: &Object<'_>, resource: &str) {
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
                &object.at("Resource"),
                Code::Express,
                format!("an express machine cannot {wrong}; use a standard one"),
            );
        }
    }

    fn check_heartbeat(
        &mut self,
        object: &Object<'_>,
        timeout: Option<&Given<u64>>,
        heartbeat: Option<&Given<u64>>,
    ) {
        if let (Some(Given::Fixed(timeout)), Some(Given::Fixed(heartbeat))) = (timeout, heartbeat)
            && heartbeat >= timeout
        {
            self.report(
                &object.at("HeartbeatSeconds"),
                Code::OutOfRange,
                format!("\"HeartbeatSeconds\" is {heartbeat}, and must be less than \"TimeoutSeconds\", which is {timeout}"),
            );
        }
    }

    /// `Credentials`, which must name a role.
    fn credentials(&mut self, object: &Object<'_>, language: QueryLanguage) -> Option<Template> {
        let credentials = self.object(object, "Credentials")?;
        let by_path = language == QueryLanguage::JsonPath && credentials.has("RoleArn.$");
        if !by_path {
            self.required(&credentials, "RoleArn");
        }
        self.template(object, "Credentials", language)
    }
}
