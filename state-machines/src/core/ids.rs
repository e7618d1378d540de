//! The ids of what an execution creates. They count up, so that a replay gives
//! the same ids.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A task. With the execution's id it is the idempotency key of the work:
    /// after a crash the task runs again under the same id; a retry has a new one.
    TaskId,
    /// A timer of an execution.
    TimerId,
    /// A running machine: the whole definition, a branch of a Parallel or an
    /// iteration of a Map.
    RunId
}

/// The token for callbacks to a task. It authorises the caller, so it cannot be
/// guessed without the seed of the execution.
pub(super) fn make_token(execution: &str, task: TaskId, seed: u64) -> String {
    let proof = crate::data::random::seed_for(seed, &format!("token {execution} {task}"));
    format!("{execution}#{task}#{proof:016x}")
}

/// The execution and the task in a token. Compare the token with the one of the
/// task to verify it.
#[must_use]
pub fn parse_token(token: &str) -> Option<(&str, TaskId)> {
    let (rest, _) = token.rsplit_once('#')?;
    let (execution, task) = rest.rsplit_once('#')?;
    Some((execution, TaskId(task.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_task_and_depends_on_the_seed() {
        let one = make_token("run#1", TaskId(7), 1);
        assert_eq!(parse_token(&one), Some(("run#1", TaskId(7))));
        assert_ne!(one, make_token("run#1", TaskId(7), 2));
        assert_eq!(parse_token("nonsense"), None);
    }
}
