//! Scopes of variables: every machine is a scope. A nested machine may read but not
//! assign the variables of its outer machines; AWS rejects that too. The runs of a
//! distributed Map are isolated from outer variables. Assignments in catchers are
//! not checked, because AWS accepts them.

use std::collections::BTreeMap;

use super::DefinitionReader;
use super::object::JsonObject;
use crate::language::model::Machine;
use crate::language::pointer::Pointer;
use crate::language::problem::ProblemCode;

/// The scopes of all machines.
#[derive(Debug, Default)]
pub(super) struct VariableScopes {
    all: Vec<VariableScope>,
    /// The scope of the machine being read.
    current: Option<usize>,
}

#[derive(Debug)]
struct VariableScope {
    outer: Option<usize>,
    /// The locations where each variable is assigned.
    assigned: BTreeMap<String, Vec<Pointer>>,
}

impl VariableScopes {
    /// Records the variables of an `Assign` in the current scope.
    pub(super) fn record_assignments(&mut self, variables: &JsonObject<'_>) {
        let Some(scope) = self.current.and_then(|index| self.all.get_mut(index)) else {
            return;
        };
        for name in variables.fields.keys() {
            let bare = name.strip_suffix(".$").unwrap_or(name).to_owned();
            let places = scope.assigned.entry(bare).or_default();
            places.push(variables.pointer_to(name));
        }
    }

    /// Finds where an outer scope assigns a variable.
    fn find_outer_assignment(&self, scope: &VariableScope, name: &str) -> Option<&Pointer> {
        let mut outer = scope.outer;
        while let Some(around) = outer.and_then(|index| self.all.get(index)) {
            if let Some(place) = around.assigned.get(name).and_then(|places| places.first()) {
                return Some(place);
            }
            outer = around.outer;
        }
        None
    }
}

impl DefinitionReader {
    /// Reads a machine in a new scope, nested in the current one unless isolated.
    pub(super) fn read_scoped_machine(
        &mut self,
        object: &JsonObject<'_>,
        is_alone: bool,
    ) -> Option<Machine> {
        let around = self.scopes.current;
        self.scopes.current = Some(self.scopes.all.len());
        self.scopes.all.push(VariableScope {
            outer: around.filter(|_| !is_alone),
            assigned: BTreeMap::new(),
        });
        let machine = self.read_machine(object);
        self.scopes.current = around;
        machine
    }

    /// Reports variables that inner and outer scopes assign. Runs at the end, because
    /// outer states may follow inner ones.
    pub(super) fn check_scopes(&mut self) {
        let scopes = std::mem::take(&mut self.scopes);
        for scope in &scopes.all {
            for (name, places) in &scope.assigned {
                let Some(outer) = scopes.find_outer_assignment(scope, name) else {
                    continue;
                };
                for place in places {
                    let message = format!(
                        "the variable {name:?} is assigned in an outer machine too, at {outer}; inner machines can only read it, so use another name here"
                    );
                    self.report(place, ProblemCode::OuterVariable, message);
                }
            }
        }
    }
}
