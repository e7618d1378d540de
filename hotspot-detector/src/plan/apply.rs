//! A fleet after a plan: for what-if questions, and to see that planning again
//! finds nothing to do.

use std::collections::HashMap;

use ballast_domain::tenant::SliceId;

use super::input::Fleet;
use super::report::Plan;

impl Plan {
    /// The fleet as it is when every move has ended.
    #[must_use]
    pub fn applied_to(&self, fleet: &Fleet) -> Fleet {
        let mut after = fleet.clone();
        let last: HashMap<&SliceId, &super::report::Move> =
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

    /// Whether there is nothing to do, nothing missing and nothing waiting.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.moves.is_empty()
            && self.missing.is_empty()
            && self.unhelped.is_empty()
            && self.waiting.is_empty()
    }
}
