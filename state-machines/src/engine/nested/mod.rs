//! Tasks that start child executions. The engine runs them itself, and waiting for a
//! child uses neither a task permit nor memory.
//!
//! ```text
//!   parent: order the Task ─▶ starter: create the child ─▶ submitted, parked
//!   child:  … ends ─▶ post a hint to the parent's inbox
//!   parent: woken by the hint or by its next check ─▶ read how the child ended
//! ```
//!
//! A hint may be lost, so the parent also checks the child itself, less often the
//! longer it has waited. A parent that no longer waits notifies the child, and the
//! child checks in the same way whether its parent still waits. So no child keeps
//! running after a crash when no parent wants its result.
//!
//! - `arguments`: the Task's input
//! - `response`: the Task's result, in the shape of Step Functions
//! - `child_starter`: creates the child
//! - `child_link`: messages between parent and child

mod arguments;
mod child_link;
mod child_starter;
mod response;

pub(super) use child_link::{ChildLink, is_parent_waiting, notify_child_abandoned, notify_parent};
pub(super) use child_starter::ChildStarter;
pub(super) use response::{child_missing_event, end_event};

use crate::core::Execution;

/// How deep executions may be nested. Stops a workflow that starts itself.
const DEPTH_MAX: u32 = 10;
/// The bounds of the time between two checks of a child.
const CHECK_MS_MIN: i64 = 5_000;
const CHECK_MS_MAX: i64 = 300_000;

/// When to check a child next that a parent has waited for since `since_ms`.
pub(super) fn next_child_check_ms(since_ms: i64, now_ms: i64) -> i64 {
    let waited = now_ms.saturating_sub(since_ms);
    now_ms.saturating_add((waited / 4).clamp(CHECK_MS_MIN, CHECK_MS_MAX))
}

/// When an execution checks next whether its parent still waits; `None` without
/// such a parent.
pub(super) fn next_parent_check_ms(execution: &Execution, now_ms: i64) -> Option<i64> {
    execution.origin()?.token.as_ref()?;
    Some(next_child_check_ms(execution.begun_at_ms(), now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_rarer_the_longer_a_child_takes() {
        for (waited, next) in [(0, 5_000), (40_000, 10_000), (86_400_000, 300_000)] {
            assert_eq!(
                next_child_check_ms(1_000, 1_000 + waited),
                1_000 + waited + next
            );
        }
    }
}
