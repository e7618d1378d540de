//! Handlers by resource.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::task::{FunctionHandler, TypedTaskHandler};
use super::{Handler, TaskContext, TaskError, TypedTask};
use crate::core::NestedStart;
use crate::language::model::StateKind;
use crate::language::{Definition, Machine};

/// Handlers by resource name. A definition's `Resource` is looked up as written,
/// and a substitution token (`${Copy}`) also without its braces. Resources that
/// start executions (`arn:aws:states:::states:startExecution`, with `.sync` or
/// `.sync:2`) need no handler: the engine runs them.
#[derive(Clone, Default)]
pub struct HandlerRegistry {
    handlers: HashMap<String, Arc<dyn Handler>>,
}

impl HandlerRegistry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a typed task for a resource, replacing any earlier handler.
    #[must_use]
    pub fn with_task(self, resource: impl Into<String>, task: impl TypedTask) -> Self {
        self.with_handler(resource, Arc::new(TypedTaskHandler(task)))
    }

    /// Registers a function for a resource.
    #[must_use]
    pub fn with_function<F, I, O, R>(self, resource: impl Into<String>, function: F) -> Self
    where
        F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        R: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        self.with_handler(resource, Arc::new(FunctionHandler::new(function)))
    }

    /// Registers a handler for a resource.
    #[must_use]
    pub fn with_handler(mut self, resource: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        self.handlers.insert(resource.into(), handler);
        self
    }

    /// The handler of a resource.
    #[must_use]
    pub fn find(&self, resource: &str) -> Option<&Arc<dyn Handler>> {
        self.handlers.get(resource).or_else(|| {
            let token = resource.strip_prefix("${")?.strip_suffix('}')?;
            self.handlers.get(token)
        })
    }

    /// The resources of a definition that have no handler, ordered by name.
    #[must_use]
    pub fn missing(&self, definition: &Definition) -> Vec<String> {
        let mut wanted = BTreeSet::new();
        collect_resources(definition.machine(), &mut wanted);
        let missing = wanted
            .into_iter()
            .filter(|name| self.find(name).is_none() && NestedStart::from_resource(name).is_none());
        missing.map(str::to_owned).collect()
    }
}

impl fmt::Debug for HandlerRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<_> = self.handlers.keys().collect();
        f.debug_tuple("Registry").field(&names).finish()
    }
}

/// Collects the resources of a machine and of the machines inside it.
fn collect_resources<'a>(machine: &'a Machine, found: &mut BTreeSet<&'a str>) {
    for state in machine.states() {
        match &state.kind {
            StateKind::Task(task) => {
                found.insert(&task.resource);
            }
            StateKind::Map(map) => {
                if let Some(reader) = &map.distributed.reader {
                    found.insert(&reader.resource);
                }
            }
            _ => {}
        }
        for inner in state.machines() {
            collect_resources(inner, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    async fn echo(input: Value, _: TaskContext) -> Result<Value, TaskError> {
        Ok(input)
    }

    #[test]
    fn missing_handlers_are_found_in_nested_machines() {
        let text = r#"{"StartAt": "A", "States": {
            "A": {"Type": "Task", "Resource": "${Copy}", "Next": "P"},
            "P": {"Type": "Parallel", "End": true, "Branches": [
                {"StartAt": "B", "States": {"B": {"Type": "Task",
                    "Resource": "arn:aws:states:::sns:publish", "End": true}}},
                {"StartAt": "C", "States": {"C": {"Type": "Task",
                    "Resource": "${Copy}", "End": true}}}]}}}"#;
        let definition = Definition::parse(text).unwrap();
        let missing = |registry: &HandlerRegistry| registry.missing(&definition);
        let none = HandlerRegistry::new();
        assert_eq!(missing(&none), ["${Copy}", "arn:aws:states:::sns:publish"]);
        let one = none.with_function("Copy", echo);
        assert_eq!(missing(&one), ["arn:aws:states:::sns:publish"]);
        let all = one.with_function("arn:aws:states:::sns:publish", echo);
        assert_eq!(missing(&all), [""; 0]);
        assert!(all.find("Copy.waitForTaskToken").is_none());
        assert_eq!(
            format!("{all:?}"),
            r#"Registry({"Copy", "arn:aws:states:::sns:publish"})"#
        );
    }
}
