//! The workflows that come with Ballast, as documents. What their resources do
//! is registered by whoever runs them.

use crate::language::{Definition, Problem, model::Kind};

/// A workflow that comes with Ballast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name: that of the file.
    pub name: &'static str,
    /// The document.
    pub text: &'static str,
}

/// All of them.
pub const ALL: [BuiltIn; 3] = [
    BuiltIn {
        name: "drain-shard",
        text: include_str!("../definitions/drain-shard.asl.json"),
    },
    BuiltIn {
        name: "move-tenant",
        text: include_str!("../definitions/move-tenant.asl.json"),
    },
    BuiltIn {
        name: "rebalance",
        text: include_str!("../definitions/rebalance.asl.json"),
    },
];

impl BuiltIn {
    /// The one of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        ALL.into_iter().find(|known| known.name == name)
    }

    /// The document, read.
    pub fn definition(self) -> Result<Definition, Vec<Problem>> {
        Definition::parse(self.text)
    }
}

/// Whether a state only leads from one step to the next: such states are drawn
/// folded.
#[must_use]
pub fn is_helper(kind: &Kind) -> bool {
    matches!(kind, Kind::Choice(_) | Kind::Wait(_) | Kind::Fail(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::check;

    #[test]
    fn all_of_them_are_valid_and_nothing_warns() {
        for known in ALL {
            let checked = check(known.text);
            let told: Vec<_> = checked.problems.iter().map(ToString::to_string).collect();
            assert_eq!(told, Vec::<String>::new(), "{}", known.name);
        }
    }

    #[test]
    fn the_move_has_the_steps_of_the_diagram_in_their_order() {
        let definition = BuiltIn::find("move-tenant").unwrap().definition().unwrap();
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
