//! Runs a machine with the core alone, which keeps nothing. Gives the expected
//! outcome, unless the order of task results decides it.

use ballast_state_machines::core::{
    Effect, Execution, ExecutionEvent, ExecutionLimits, ExecutionStart, ExecutionStatus,
    TimedEvent, apply,
};
use ballast_state_machines::language::Definition;
use ballast_state_machines::testing::random_task_event;
use serde_json::{Value, json};

use crate::paused::START_MS;

/// How many random orders are tried in addition to the plain ones.
const ORDERS: usize = 5;

/// The outcome of an execution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReferenceOutcome {
    pub(crate) status: ExecutionStatus,
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<String>,
}

/// Runs a machine with the core alone. `pick` chooses the next event among those
/// due within `late_ms` of the earliest.
fn reference(
    definition: &Definition,
    seed: u64,
    late_ms: i64,
    mut pick: impl FnMut(usize) -> usize,
) -> ReferenceOutcome {
    let mut execution = Execution::default();
    let mut now = START_MS;
    let mut due: Vec<(i64, ExecutionEvent)> =
        vec![(now, ExecutionEvent::Begun(Box::new(begin(seed))))];
    while !execution.status().is_ended() {
        let first = due.iter().map(|(at, _)| *at).min().unwrap();
        let together: Vec<usize> = (0..due.len())
            .filter(|at| due[*at].0 - first <= late_ms)
            .collect();
        let (at_ms, event) = due.remove(together[pick(together.len())]);
        now = now.max(at_ms);
        let outcome = apply(definition, &mut execution, TimedEvent::new(event, now));
        for effect in outcome.effects {
            match effect {
                Effect::RunTask(order) => {
                    let event = random_task_event(seed, &order);
                    let waits = match &event {
                        ExecutionEvent::TaskTimedOut { .. } => {
                            order.timeout_ms.or(order.heartbeat_ms)
                        }
                        _ => None,
                    };
                    due.push((now + waits.unwrap_or(0), event));
                }
                Effect::SetTimer { timer, at_ms } => {
                    due.push((at_ms, ExecutionEvent::TimerFired { timer }))
                }
                Effect::Continue { turn } => due.push((now, ExecutionEvent::Continued { turn })),
                // These need no action here.
                Effect::StopTask { .. } | Effect::StopTimer { .. } | Effect::Ended => {}
            }
        }
    }
    ReferenceOutcome {
        status: execution.status(),
        output: execution.output().cloned(),
        error: execution.error().map(str::to_owned),
    }
}

fn begin(seed: u64) -> ExecutionStart {
    ExecutionStart {
        execution_id: "w:1".to_owned(),
        name: "1".to_owned(),
        machine: "w".to_owned(),
        role: String::new(),
        input: json!({"v": seed % 10}),
        at_ms: START_MS,
        seed,
        limits: ExecutionLimits::default(),
        origin: None,
    }
}

/// The outcome, if it does not depend on the order of what is due within `late_ms`:
/// during a store outage one branch may be delayed longer than another.
pub(crate) fn only_outcome(
    definition: &Definition,
    seed: u64,
    late_ms: i64,
) -> Option<ReferenceOutcome> {
    // Tasks that run again take their time again, so a timeout of the machine may
    // hit.
    if definition.timeout_seconds().is_some() {
        return None;
    }
    let mut drawn = seed;
    let mut by_chance = |count: usize| {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(drawn >> 33).unwrap() % count
    };
    let in_time = reference(definition, seed, 0, |_| 0);
    // Delays may happen every time or only sometimes.
    let is_always_so = [0, late_ms / 16, late_ms].into_iter().all(|late_ms| {
        let is_so = |pick: &mut dyn FnMut(usize) -> usize| {
            reference(definition, seed, late_ms, pick) == in_time
        };
        is_so(&mut |_| 0)
            && is_so(&mut |count| count - 1)
            && is_so(&mut |count| count / 2)
            && (0..ORDERS).all(|_| is_so(&mut by_chance))
    });
    is_always_so.then_some(in_time)
}
