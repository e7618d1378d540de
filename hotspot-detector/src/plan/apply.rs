//! The fleet after a plan: for what-if simulations, and to check that planning again finds
//! nothing to do.

use std::collections::HashMap;

use ballast_domain::tenant::SliceId;

use super::input::FleetSnapshot;
use super::report::Plan;

impl Plan {
    /// The fleet after every migration has ended.
    #[must_use]
    pub fn applied_to(&self, fleet: &FleetSnapshot) -> FleetSnapshot {
        let mut after = fleet.clone();
        let last: HashMap<&SliceId, &super::report::PlannedMigration> =
            self.moves.iter().map(|step| (&step.slice, step)).collect();
        for slice in &mut after.slices {
            if let Some(step) = last.get(&slice.id) {
                slice.shard_id = step.to.clone();
                slice.passed_over = step.passed_over.clone();
                slice.placed_at = self.made_at;
            }
        }
        after
    }

    /// Whether there is nothing to do, no shard missing and no slice blocked.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.moves.is_empty()
            && self.missing.is_empty()
            && self.unhelped.is_empty()
            && self.waiting.is_empty()
    }
}
