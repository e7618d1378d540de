//! Which handler does the work of which resource.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::task::{Function, Typed};
use super::{Handler, Task, TaskContext, TaskError};
use crate::core::Nested;
use crate::language::model::Kind;
use crate::language::{Definition, Machine};

/// Handlers by the names of resources. A definition's `Resource` is looked up
/// as it is written; a token (`${Copy}`) also without its braces. Those that
/// start executions (`arn:aws:states:::states:startExecution`, with `.sync` or
/// `.sync:2`) are done by the engine itself and need none.
#[derive(Clone, Default)]
pub struct Registry {
    handlers: HashMap<String, Arc<dyn Handler>>,
}

impl Registry {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has a task do the work of a resource, in place of whoever did before.
    #[must_use]
    pub fn task(self, resource: impl Into<String>, task: impl Task) -> Self {
        self.handler(resource, Arc::new(Typed(task)))
    }

    /// Has a function do the work of a resource.
    #[must_use]
    pub fn function<F, I, O, R>(self, resource: impl Into<String>, function: F) -> Self
    where
        F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        R: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        self.handler(resource, Arc::new(Function::new(function)))
    }

    /// Has a handler do the work of a resource.
    #[must_use]
    pub fn handler(mut self, resource: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        self.handlers.insert(resource.into(), handler);
        self
    }

    /// Who does the work of a resource.
    #[must_use]
    pub fn find(&self, resource: &str) -> Option<&Arc<dyn Handler>> {
        self.handlers.get(resource).or_else(|| {
            let token = resource.strip_prefix("${")?.strip_suffix('}')?;
            self.handlers.get(token)
        })
    }

    /// The resources of a definition that nobody does the work of, in the
    /// order of their names.
    #[must_use]
    pub fn missing(&self, definition: &Definition) -> Vec<String> {
        let mut wanted = BTreeSet::new();
        resources(definition.machine(), &mut wanted);
        let missing = wanted
            .into_iter()
            .filter(|name| self.find(name).is_none() && Nested::of(name).is_none());
        missing.map(str::to_owned).collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<_> = self.handlers.keys().collect();
        f.debug_tuple("Registry").field(&names).finish()
    }
}

/// What work the states of a machine, and of those within it, are.
fn resources<'a>(machine: &'a Machine, found: &mut BTreeSet<&'a str>) {
    for state in machine.states() {
        match &state.kind {
            Kind::Task(task) => {
                found.insert(&task.resource);
            }
            Kind::Map(map) => {
                if let Some(reader) = &map.distributed.reader {
                    found.insert(&reader.resource);
                }
            }
            _ => {}
        }
        for inner in state.machines() {
            resources(inner, found);
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
    fn what_is_missing_is_named_wherever_it_is() {
        let text = r#"{"StartAt": "A", "States": {
            "A": {"Type": "Task", "Resource": "${Copy}", "Next": "P"},
            "P": {"Type": "Parallel", "End": true, "Branches": [
                {"StartAt": "B", "States": {"B": {"Type": "Task",
                    "Resource": "arn:aws:states:::sns:publish", "End": true}}},
                {"StartAt": "C", "States": {"C": {"Type": "Task",
                    "Resource": "${Copy}", "End": true}}}]}}}"#;
        let definition = Definition::parse(text).unwrap();
        let missing = |registry: &Registry| registry.missing(&definition);
        let none = Registry::new();
        assert_eq!(missing(&none), ["${Copy}", "arn:aws:states:::sns:publish"]);
        let one = none.function("Copy", echo);
        assert_eq!(missing(&one), ["arn:aws:states:::sns:publish"]);
        let all = one.function("arn:aws:states:::sns:publish", echo);
        assert_eq!(missing(&all), [""; 0]);
        assert!(all.find("Copy.waitForTaskToken").is_none());
        assert_eq!(
            format!("{all:?}"),
            r#"Registry({"Copy", "arn:aws:states:::sns:publish"})"#
        );
    }
}
