//! The scope of expressions: a run's input, the variables it can read, and the
//! context object.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::interpreter::Interpreter;
use super::run::{ChildRunsKind, Phase, Run};
use super::{RunId, clock};
use crate::data::EvaluationScope;
use crate::data::random::seed_for;
use crate::language::State;
use crate::language::model::StateKind;

/// Additional data in the context object of an expression.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExtraContext<'v> {
    /// The item of the Map iteration to start.
    pub(super) item: Option<(u64, &'v Value)>,
    /// The token of the task to start.
    pub(super) token: Option<&'v str>,
}

impl Interpreter<'_> {
    /// Calls `see` with the scope of a run.
    pub(super) fn with_scope<R>(
        &mut self,
        id: RunId,
        run: &Run,
        state: &State,
        extra: ExtraContext<'_>,
        see: impl FnOnce(&EvaluationScope<'_>) -> R,
    ) -> R {
        let mut context = std::mem::take(&mut self.execution.context);
        let above = self.enclosing_item(run);
        let item = extra
            .item
            .or(above.as_ref().map(|(index, value)| (*index, value)));
        fill_context(&mut context, run, state, item, extra.token);
        let context = Value::Object(context);
        let seed = format!("{id} {} {}", run.states, run.attempts);
        let seen = see(&EvaluationScope {
            input: &run.input,
            context: &context,
            variables: &self.variables(run),
            result: None,
            error_output: None,
            seed: seed_for(self.execution.seed, &seed),
            now: clock::to_datetime(self.now),
            milliseconds_max: self.milliseconds_max,
        });
        if let Value::Object(mut context) = context {
            for changing in ["Task", "Map", "State"] {
                context.shift_remove(changing);
            }
            self.execution.context = context;
        }
        seen
    }

    /// The item of the innermost Map that a run is in.
    fn enclosing_item(&self, run: &Run) -> Option<(u64, Value)> {
        let mut at = run;
        loop {
            let parent = at.parent?;
            at = self.execution.runs.get(&parent.run)?;
            if let Phase::Gathering(children) = &at.phase
                && children.is_map()
            {
                let item = children.items.get(parent.index as usize)?;
                return Some((parent.index, item.clone()));
            }
        }
    }

    /// The variables that a run can read: its own and those of its ancestors, up to
    /// a distributed Map, whose runs are isolated.
    fn variables<'r>(&self, run: &'r Run) -> Cow<'r, Map<String, Value>> {
        let mut above: Vec<&Map<String, Value>> = Vec::new();
        let mut at = run;
        while let Some(parent) = at.parent
            && let Some(next) = self.execution.runs.get(&parent.run)
        {
            if matches!(&next.phase, Phase::Gathering(children) if children.kind == ChildRunsKind::Distributed)
            {
                break;
            }
            above.push(&next.variables);
            at = next;
        }
        if above.iter().all(|variables| variables.is_empty()) {
            return Cow::Borrowed(&run.variables);
        }
        let mut all = Map::new();
        let inwards = above.into_iter().rev().chain([&run.variables]);
        for (name, value) in inwards.flatten() {
            all.insert(name.clone(), value.clone());
        }
        Cow::Owned(all)
    }
}

/// Adds the changing part of the context object: the state, the item of the Map,
/// the token of the task.
fn fill_context(
    context: &mut Map<String, Value>,
    run: &Run,
    state: &State,
    item: Option<(u64, &Value)>,
    token: Option<&str>,
) {
    let mut about = Map::new();
    about.insert("Name".to_owned(), json!(state.name));
    about.insert(
        "EnteredTime".to_owned(),
        json!(clock::to_iso8601(run.entered_at_ms)),
    );
    if matches!(
        state.kind,
        StateKind::Task(_) | StateKind::Map(_) | StateKind::Parallel(_)
    ) {
        about.insert("RetryCount".to_owned(), json!(run.attempts));
    }
    context.insert("State".to_owned(), Value::Object(about));
    if let Some((index, value)) = item {
        let item = json!({"Item": {"Index": index, "Value": value}});
        context.insert("Map".to_owned(), item);
    }
    if let Some(token) = token {
        context.insert("Task".to_owned(), json!({ "Token": token }));
    }
}
