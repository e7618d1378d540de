//! The workflows that come with Ballast, as documents. The caller registers
//! the handlers of their resources.

use crate::language::{Definition, DefinitionProblem, model::StateKind};

/// A workflow definition that is compiled into Ballast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltInWorkflow {
    /// The workflow's name, which is also the file's.
    pub name: &'static str,
    /// The definition as JSON text.
    pub text: &'static str,
}

/// All built-in workflows.
pub const ALL: [BuiltInWorkflow; 3] = [
    BuiltInWorkflow {
        name: "drain-shard",
        text: include_str!("../definitions/drain-shard.asl.json"),
    },
    BuiltInWorkflow {
        name: "move-tenant",
        text: include_str!("../definitions/move-tenant.asl.json"),
    },
    BuiltInWorkflow {
        name: "rebalance",
        text: include_str!("../definitions/rebalance.asl.json"),
    },
];

impl BuiltInWorkflow {
    /// The built-in workflow with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        ALL.into_iter().find(|known| known.name == name)
    }

    /// Parses the document.
    pub fn definition(self) -> Result<Definition, Vec<DefinitionProblem>> {
        Definition::parse(self.text)
    }
}

/// Whether a state only connects steps: drawings fold such states.
#[must_use]
pub fn is_helper(kind: &StateKind) -> bool {
    matches!(
        kind,
        StateKind::Choice(_) | StateKind::Wait(_) | StateKind::Fail(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::check;

    #[test]
    fn all_of_them_are_valid_and_nothing_warns() {
        for known in ALL {
            let checked = check(known.text);
            let messages: Vec<_> = checked.problems.iter().map(ToString::to_string).collect();
            assert_eq!(messages, Vec::<String>::new(), "{}", known.name);
        }
    }

    #[test]
    fn the_move_has_the_steps_of_the_diagram_in_their_order() {
        let definition = BuiltInWorkflow::find("move-tenant")
            .unwrap()
            .definition()
            .unwrap();
        let steps: Vec<_> = definition
            .states()
            .iter()
            .filter(|state| !is_helper(&state.kind))
            .map(|state| state.name.as_str())
            .collect();
        assert_eq!(
            steps,
            [
                "DetectHotspot",
                "PlanMove",
                "EnsureParquetBackfill",
                "CreateDataSyncTask",
                "WaitForSync",
                "VerifyConsistency",
                "UpdateTenantRouting",
                "EnableDualRead",
                "MonitorDualRead",
                "CleanupOldShard",
                "Rollback",
            ]
        );
    }
}
