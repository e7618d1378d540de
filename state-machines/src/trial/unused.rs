//! Reports parts of a case that had no effect: likely mistakes that a passing case
//! would hide.

use super::case::{TaskMock, TestCase};
use crate::language::model::StateKind;
use crate::language::{Definition, State};

/// Lists unused task mocks and an unknown type.
pub(super) fn list_unused_parts(
    case: &TestCase,
    definition: &Definition,
    used: &[bool],
) -> Vec<String> {
    let mut unused = Vec::new();
    if let Some(kind) = case.kind.as_deref()
        && !["STANDARD", "EXPRESS"].contains(&kind)
    {
        unused.push(format!(
            "the type {kind:?} is neither STANDARD nor EXPRESS; it was run as STANDARD"
        ));
    }
    let mut states = Vec::new();
    collect_states(definition.states(), &mut states);
    for (place, (answer, used)) in case.tasks.iter().zip(used).enumerate() {
        if !used {
            let why = explain_mismatch(answer, &states);
            let never = why.map_or_else(
                || "was not used".to_owned(),
                |why| format!("can never be used: {why}"),
            );
            unused.push(format!("/tasks/{place} {never}"));
        }
    }
    unused
}

fn collect_states<'a>(states: &'a [State], all: &mut Vec<&'a State>) {
    for state in states {
        all.push(state);
        for machine in state.machines() {
            collect_states(machine.states(), all);
        }
    }
}

/// Explains why a mock matches no task of the definition; none if it may match one.
fn explain_mismatch(answer: &TaskMock, states: &[&State]) -> Option<String> {
    let find = |name: &str| states.iter().find(|state| state.name == name);
    if let Some(name) = answer.state.as_deref() {
        let Some(state) = find(name) else {
            return Some(format!("there is no state named {name:?}"));
        };
        let asks = match &state.kind {
            StateKind::Task(_) => true,
            StateKind::Map(map) => map.distributed.reader.is_some(),
            _ => false,
        };
        if !asks {
            let kind = state.kind.as_str();
            return Some(format!("{name:?} is a {kind}, which runs no task"));
        }
    }
    let is_map =
        |name: &str| find(name).is_some_and(|state| matches!(state.kind, StateKind::Map(_)));
    let mut maps = answer.iteration.iter().map(|(map, _)| map);
    let unknown = maps.find(|map| !is_map(map))?;
    Some(format!("there is no Map named {unknown:?}"))
}
