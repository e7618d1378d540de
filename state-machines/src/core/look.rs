//! What expressions may look at: a run's input, the variables it can read, and
//! the context object.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::run::{FamilyKind, Phase, Run};
use super::walk::Walk;
use super::{RunId, clock};
use crate::data::Scope;
use crate::data::chance::seed_for;
use crate::language::State;
use crate::language::model::Kind;

/// What an expression may see besides its run's data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside<'v> {
    /// The item of a Map that is about to be run.
    pub(super) item: Option<(u64, &'v Value)>,
    /// The token of the task that is about to be run.
    pub(super) token: Option<&'v str>,
}

impl Walk<'_> {
    /// Looks at a run's data.
    pub(super) fn look<R>(
        &mut self,
        id: RunId,
        run: &Run,
        state: &State,
        beside: Beside<'_>,
        see: impl FnOnce(&Scope<'_>) -> R,
    ) -> R {
        let mut context = std::mem::take(&mut self.execution.context);
        let above = self.item_above(run);
        let item = beside
            .item
            .or(above.as_ref().map(|(index, value)| (*index, value)));
        describe(&mut context, run, state, item, beside.token);
        let context = Value::Object(context);
        let seed = format!("{id} {} {}", run.states, run.attempts);
        let seen = see(&Scope {
            input: &run.input,
            context: &context,
            variables: &self.variables(run),
            result: None,
            error_output: None,
            seed: seed_for(self.execution.seed, &seed),
            now: clock::moment(self.now),
            milliseconds_max: self.milliseconds_max,
        });
        if let Value::Object(mut context) = context {
            for passing in ["Task", "Map", "State"] {
                context.shift_remove(passing);
            }
            self.execution.context = context;
        }
        seen
    }

    /// The item of the innermost Map that a run is in.
    fn item_above(&self, run: &Run) -> Option<(u64, Value)> {
        let mut at = run;
        loop {
            let parent = at.parent?;
            at = self.execution.runs.get(&parent.run)?;
            if let Phase::Gathering(family) = &at.phase
                && family.is_map()
            {
                let item = family.items.get(parent.index as usize)?;
                return Some((parent.index, item.clone()));
            }
        }
    }

    /// The variables that a run can read: its own and those of the runs above
    /// it, up to a distributed Map, whose runs are by themselves.
    fn variables<'r>(&self, run: &'r Run) -> Cow<'r, Map<String, Value>> {
        let mut above: Vec<&Map<String, Value>> = Vec::new();
        let mut at = run;
        while let Some(parent) = at.parent
            && let Some(next) = self.execution.runs.get(&parent.run)
        {
            if matches!(&next.phase, Phase::Gathering(family) if family.kind == FamilyKind::Distributed)
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

/// The part of the context object that changes: the state, the item of the
/// Map, the token of the task.
fn describe(
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
        json!(clock::written(run.entered_at_ms)),
    );
    if matches!(state.kind, Kind::Task(_) | Kind::Map(_) | Kind::Parallel(_)) {
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
