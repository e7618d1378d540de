//! Tasks that start executions. The engine does them itself, and waiting for
//! such an execution costs neither a task's place nor memory.
//!
//! ```text
//!   parent: the Task is ordered ─▶ starter: the child is created ─▶ submitted, parked
//!   child:  … ends ─▶ a hint to the parent's inbox
//!   parent: woken by the hint, or by the time to look ─▶ reads how the child ended
//! ```
//!
//! A hint may be lost, so the parent looks by itself as well: ever more rarely,
//! the longer it has waited. A parent that no longer waits tells the child, and
//! in the same way the child looks whether it is still waited for: so none goes
//! on for nobody after a crash.
//!
//! - `arguments`: what the Task says
//! - `answer`: what it is answered, in the shape of Step Functions
//! - `starter`: creates the child
//! - `bond`: what parent and child tell each other

mod answer;
mod arguments;
mod bond;
mod starter;

pub(super) use answer::{ended, gone};
pub(super) use bond::{Bond, disown, is_wanted, tell_ended};
pub(super) use starter::Starter;

use crate::core::Execution;

/// How deep executions may be nested: a workflow that starts itself ends here.
const DEPTH_MAX: u32 = 10;
/// A parent looks after its child at least this long after the last time, and
/// at most.
const LOOK_MS_MIN: i64 = 5_000;
const LOOK_MS_MAX: i64 = 300_000;

/// When a child that is waited for since a time is looked at again.
pub(super) fn next_look_ms(since_ms: i64, now_ms: i64) -> i64 {
    let waited = now_ms.saturating_sub(since_ms);
    now_ms.saturating_add((waited / 4).clamp(LOOK_MS_MIN, LOOK_MS_MAX))
}

/// When an execution that another waits for looks whether that is still so.
pub(super) fn next_origin_look_ms(execution: &Execution, now_ms: i64) -> Option<i64> {
    execution.origin()?.token.as_ref()?;
    Some(next_look_ms(execution.begun_at_ms(), now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_child_takes_the_more_rarely_it_is_looked_at() {
        for (waited, next) in [(0, 5_000), (40_000, 10_000), (86_400_000, 300_000)] {
            assert_eq!(next_look_ms(1_000, 1_000 + waited), 1_000 + waited + next);
        }
    }
}
