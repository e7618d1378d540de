//! Scopes of variables: every machine is one. What an outer machine assigns, a
//! machine within it may read and not assign; AWS refuses it too. The runs of a
//! distributed Map see nothing of what is around them, and are by themselves.
//! What a catcher assigns does not count: AWS was seen to accept it.

use std::collections::BTreeMap;

use super::Reader;
use super::object::Object;
use crate::language::model::Machine;
use crate::language::pointer::Pointer;
use crate::language::problem::Code;

/// The machines that were read, and what their states assign.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    all: Vec<Scope>,
    /// That of the machine that is being read.
    current: Option<usize>,
}

#[derive(Debug)]
struct Scope {
    outer: Option<usize>,
    /// The variables, and where each is assigned.
    assigned: BTreeMap<String, Vec<Pointer>>,
}

impl Scopes {
    /// These variables are assigned here.
    pub(super) fn assign(&mut self, variables: &Object<'_>) {
        let Some(scope) = self.current.and_then(|index| self.all.get_mut(index)) else {
            return;
        };
        for name in variables.fields.keys() {
            let bare = name.strip_suffix(".$").unwrap_or(name).to_owned();
            let places = scope.assigned.entry(bare).or_default();
            places.push(variables.at(name));
        }
    }

    /// Where a scope around this one assigns a variable.
    fn outer_place(&self, scope: &Scope, name: &str) -> Option<&Pointer> {
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

impl Reader {
    /// Reads a machine as a scope within the one around it, or by itself.
    pub(super) fn scope(&mut self, object: &Object<'_>, is_alone: bool) -> Option<Machine> {
        let around = self.scopes.current;
        self.scopes.current = Some(self.scopes.all.len());
        self.scopes.all.push(Scope {
            outer: around.filter(|_| !is_alone),
            assigned: BTreeMap::new(),
        });
        let machine = self.machine(object);
        self.scopes.current = around;
        machine
    }

    /// Notes what is assigned within and without. It is known only at the end:
    /// the outer states may come after.
    pub(super) fn check_scopes(&mut self) {
        let scopes = std::mem::take(&mut self.scopes);
        for scope in &scopes.all {
            for (name, places) in &scope.assigned {
                let Some(outer) = scopes.outer_place(scope, name) else {
                    continue;
                };
                for place in places {
                    let message = format!(
                        "the variable {name:?} is assigned outside too, at {outer}; in here it can only be read, so give this one another name"
                    );
                    self.report(place, Code::OuterVariable, message);
                }
            }
        }
    }
}
