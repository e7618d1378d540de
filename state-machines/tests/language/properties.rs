//! Properties of the interpreter on random machines: executions end or wait for
//! something, continue unchanged after a serde round trip, and ignore repeated events.

use std::collections::VecDeque;

use ballast_state_machines::core::{
    Effect, EventOutcome, Execution, ExecutionEvent, ExecutionLimits, ExecutionStart,
    ExecutionStatus, HistoryEvent, HistoryType, TaskId, TimedEvent, TimerId, apply,
};
use ballast_state_machines::language::Definition;
use ballast_state_machines::testing::{case_count, random_machine, random_task_event};
use proptest::prelude::*;
use serde_json::json;

/// How a driver treats the execution.
#[derive(Debug, Clone, Copy, Default)]
struct DriveOptions {
    /// Serialise and deserialise it before every event.
    is_serialised: bool,
    /// Apply every event twice, and once more at the end.
    is_repeated: bool,
    /// Take the pending effects from the execution, as after a crash.
    is_restarted: bool,
    /// Pause before every event and resume after it.
    is_paused: bool,
    /// The limit of states per event.
    states_per_event_max: Option<u32>,
}

#[derive(Debug, PartialEq)]
struct DriveResult {
    execution: Execution,
    history: Vec<HistoryEvent>,
}

struct Driver<'a> {
    definition: &'a Definition,
    seed: u64,
    options: DriveOptions,
    execution: Execution,
    now: i64,
    history: Vec<HistoryEvent>,
    /// The pending effects, in order.
    due: VecDeque<Effect>,
    past: Vec<TimedEvent>,
}

impl Driver<'_> {
    fn apply(&mut self, event: ExecutionEvent) {
        if self.options.is_serialised {
            let text = serde_json::to_string(&self.execution).unwrap();
            let read: Execution = serde_json::from_str(&text).unwrap();
            assert_eq!(read, self.execution);
            self.execution = read;
        }
        let at = TimedEvent::new(event, self.now);
        let outcome = apply(self.definition, &mut self.execution, at.clone());
        if self.options.is_repeated {
            let before = self.execution.clone();
            let again = apply(self.definition, &mut self.execution, at.clone());
            assert_eq!(again, EventOutcome::default(), "{at:?}");
            assert_eq!(self.execution, before);
            self.past.push(at);
        }
        self.collect_effects(outcome);
    }

    fn collect_effects(&mut self, outcome: EventOutcome) {
        self.history.extend(outcome.history);
        for effect in outcome.effects {
            match effect {
                Effect::StopTask { task } => self.due.retain(|due| task_id(due) != Some(task)),
                Effect::StopTimer { timer } => self.due.retain(|due| timer_id(due) != Some(timer)),
                Effect::Ended => self.due.clear(),
                due => self.due.push_back(due),
            }
        }
        if !self.execution.status().is_ended() {
            self.check_outstanding();
        }
    }

    /// Checks that the outstanding effects equal the pending ones. Another event may have
    /// made a requested turn obsolete.
    fn check_outstanding(&mut self) {
        let outstanding = self.execution.outstanding();
        let is_paused = self.execution.is_paused();
        assert!(
            !outstanding.is_empty() || is_paused,
            "it neither ended nor waits for anything"
        );
        for effect in &outstanding {
            assert!(self.due.contains(effect), "{effect:?}");
        }
        let is_turn = |effect: &Effect| matches!(effect, Effect::Continue { .. });
        let waits = outstanding.iter().filter(|effect| !is_turn(effect));
        let due = self.due.iter().filter(|effect| !is_turn(effect));
        assert_eq!(waits.count(), due.count());
    }

    /// The next event: tasks finish before time advances.
    fn next_event(&mut self) -> ExecutionEvent {
        if self.options.is_restarted {
            let outstanding = self.execution.outstanding();
            self.due
                .make_contiguous()
                .sort_by_key(|due| outstanding.iter().position(|effect| effect == due));
        }
        let at_once = self.due.iter().position(|due| timer_id(due).is_none());
        let index = at_once.unwrap_or_else(|| {
            let times = self.due.iter().enumerate();
            let first = times.min_by_key(|(_, due)| timer_time(due)).unwrap();
            first.0
        });
        match self.due.remove(index).unwrap() {
            Effect::RunTask(order) => random_task_event(self.seed, &order),
            Effect::SetTimer { timer, at_ms } => {
                self.now = self.now.max(at_ms);
                ExecutionEvent::TimerFired { timer }
            }
            Effect::Continue { turn } => ExecutionEvent::Continued { turn },
            other => unreachable!("{other:?}"),
        }
    }
}

fn task_id(effect: &Effect) -> Option<TaskId> {
    match effect {
        Effect::RunTask(order) => Some(order.task),
        _ => None,
    }
}

fn timer_id(effect: &Effect) -> Option<TimerId> {
    match effect {
        Effect::SetTimer { timer, .. } => Some(*timer),
        _ => None,
    }
}

fn timer_time(effect: &Effect) -> i64 {
    match effect {
        Effect::SetTimer { at_ms, .. } => *at_ms,
        _ => 0,
    }
}

fn drive(definition: &Definition, seed: u64, options: DriveOptions) -> DriveResult {
    let mut driver = Driver {
        definition,
        seed,
        options,
        execution: Execution::default(),
        now: 1_700_000_000_000,
        history: Vec::new(),
        due: VecDeque::new(),
        past: Vec::new(),
    };
    let mut limits = ExecutionLimits::default();
    if let Some(most) = options.states_per_event_max {
        limits.states_per_event_max = most;
    }
    let begin = ExecutionStart {
        execution_id: format!("run-{seed}"),
        name: "run".to_owned(),
        machine: "random".to_owned(),
        role: String::new(),
        input: json!({"v": seed % 10}),
        at_ms: driver.now,
        seed,
        limits,
        origin: None,
    };
    driver.apply(ExecutionEvent::Begun(Box::new(begin)));
    while !driver.execution.status().is_ended() {
        if options.is_paused {
            driver.apply(ExecutionEvent::Paused);
            driver.now += 1;
            let event = driver.next_event();
            driver.apply(event);
            driver.apply(ExecutionEvent::Resumed);
        } else {
            let event = driver.next_event();
            driver.apply(event);
        }
    }
    for at in std::mem::take(&mut driver.past) {
        let again = apply(definition, &mut driver.execution, at);
        assert_eq!(again, EventOutcome::default());
    }
    DriveResult {
        execution: driver.execution,
        history: driver.history,
    }
}

fn random_definition(seed: u64) -> Definition {
    let text = random_machine(seed).to_string();
    Definition::parse(&text).unwrap_or_else(|problems| unreachable!("{problems:?}\n{text}"))
}

/// Checks that a history is consistent.
fn check_history(result: &DriveResult) {
    let history = &result.history;
    for (index, event) in history.iter().enumerate() {
        assert_eq!(event.id, index as u64 + 1);
        assert!(event.previous_event_id < event.id);
        if index > 0 {
            assert!(event.at_ms >= history[index - 1].at_ms);
        }
    }
    assert_eq!(history[0].kind, HistoryType::ExecutionStarted);
    let ends = [
        HistoryType::ExecutionSucceeded,
        HistoryType::ExecutionFailed,
        HistoryType::ExecutionTimedOut,
    ];
    let last = history.last().unwrap();
    assert!(ends.contains(&last.kind));
    let ended = history.iter().filter(|event| ends.contains(&event.kind));
    assert_eq!(ended.count(), 1);
    assert_eq!(result.execution.history_len(), history.len() as u64);
    for event in history {
        let text = serde_json::to_string(event).unwrap();
        assert_eq!(serde_json::from_str::<HistoryEvent>(&text).unwrap(), *event);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count(300)))]

    #[test]
    fn executions_end_or_wait_for_something(seed: u64) {
        let definition = random_definition(seed);
        let result = drive(&definition, seed, DriveOptions::default());
        check_history(&result);
        prop_assert!(result.execution.outstanding().is_empty());
        prop_assert!(result.execution.position().is_empty());
    }

    #[test]
    fn a_serde_round_trip_changes_nothing(seed: u64) {
        let definition = random_definition(seed);
        let plain = drive(&definition, seed, DriveOptions::default());
        let options = DriveOptions { is_serialised: true, ..DriveOptions::default() };
        prop_assert_eq!(drive(&definition, seed, options), plain);
    }

    #[test]
    fn repeated_events_are_ignored(seed: u64) {
        let definition = random_definition(seed);
        let plain = drive(&definition, seed, DriveOptions::default());
        let options = DriveOptions { is_repeated: true, ..DriveOptions::default() };
        prop_assert_eq!(drive(&definition, seed, options), plain);
    }

    #[test]
    fn executions_continue_from_their_outstanding_effects(seed: u64) {
        let definition = random_definition(seed);
        let options = DriveOptions { is_restarted: true, ..DriveOptions::default() };
        check_history(&drive(&definition, seed, options));
    }

    #[test]
    fn executions_end_with_a_small_limit_per_event(seed: u64, most in 1u32..4) {
        let definition = random_definition(seed);
        let options = DriveOptions {
            states_per_event_max: Some(most),
            is_serialised: true,
            is_repeated: true,
            ..DriveOptions::default()
        };
        check_history(&drive(&definition, seed, options));
    }

    #[test]
    fn pauses_lose_no_results(seed: u64) {
        let definition = random_definition(seed);
        let options = DriveOptions { is_paused: true, ..DriveOptions::default() };
        check_history(&drive(&definition, seed, options));
    }

    #[test]
    fn executions_can_be_cancelled_at_any_time(seed: u64, after in 0usize..20) {
        let definition = random_definition(seed);
        let mut execution = Execution::default();
        let begin = ExecutionStart {
            execution_id: "run".to_owned(),
            name: "run".to_owned(),
            machine: "random".to_owned(),
            role: String::new(),
            input: json!({}),
            at_ms: 0,
            seed,
            limits: ExecutionLimits::default(),
            origin: None,
        };
        let mut due: VecDeque<Effect> =
            apply(&definition, &mut execution, TimedEvent::new(ExecutionEvent::Begun(Box::new(begin)), 0)).effects.into();
        for _ in 0..after {
            let event = match due.pop_front() {
                Some(Effect::RunTask(order)) => random_task_event(seed, &order),
                Some(Effect::SetTimer { timer, .. }) => ExecutionEvent::TimerFired { timer },
                Some(Effect::Continue { turn }) => ExecutionEvent::Continued { turn },
                Some(_) => continue,
                None => break,
            };
            due.extend(apply(&definition, &mut execution, TimedEvent::new(event, 0)).effects);
        }
        if !execution.status().is_ended() {
            let outstanding = execution.outstanding().len();
            let cancelled = ExecutionEvent::Cancelled { error: None, cause: Some("enough".to_owned()) };
            let outcome = apply(&definition, &mut execution, TimedEvent::new(cancelled, 0));
            prop_assert_eq!(execution.status(), ExecutionStatus::Aborted);
            prop_assert_eq!(execution.cause(), Some("enough"));
            let stopped = outcome.effects.iter().filter(|effect| matches!(
                effect, Effect::StopTask { .. } | Effect::StopTimer { .. }));
            prop_assert_eq!(stopped.count(), outstanding);
            prop_assert_eq!(outcome.effects.last(), Some(&Effect::Ended));
        }
        prop_assert!(execution.outstanding().is_empty());
    }
}
