//! The names of what an execution makes: counted, so that a replay gives the
//! same ones.

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
    /// A piece of work that was handed out, once. With the execution's id it is
    /// the idempotency key of the work: after a crash it is handed out again
    /// under the same id, and a retry has another.
    TaskId,
    /// A time at which the execution wants to be woken.
    TimerId,
    /// A machine that is running: the whole definition, a branch of a Parallel
    /// or an iteration of a Map.
    RunId
}

/// The token by which a task that waits for a callback is answered. Whoever
/// has it may answer, so it cannot be guessed without the execution's seed.
pub(super) fn token(execution: &str, task: TaskId, seed: u64) -> String {
    let proof = crate::data::chance::seed_for(seed, &format!("token {execution} {task}"));
    format!("{execution}#{task}#{proof:016x}")
}

/// The execution and the task that a token names; whether the token is the
/// right one, the execution knows.
#[must_use]
pub fn token_names(token: &str) -> Option<(&str, TaskId)> {
    let (rest, _) = token.rsplit_once('#')?;
    let (execution, task) = rest.rsplit_once('#')?;
    Some((execution, TaskId(task.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_task_and_depends_on_the_seed() {
        let one = token("run#1", TaskId(7), 1);
        assert_eq!(token_names(&one), Some(("run#1", TaskId(7))));
        assert_ne!(one, token("run#1", TaskId(7), 2));
        assert_eq!(token_names("nonsense"), None);
    }
}
