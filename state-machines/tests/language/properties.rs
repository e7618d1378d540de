//! What holds for every machine: executions end or wait for something, go on
//! as before when they were written down in between, and do not mind an event
//! that comes twice.

use std::collections::VecDeque;

use ballast_state_machines::core::{
    Effect, EventOutcome, Execution, ExecutionEvent, ExecutionLimits, ExecutionStart,
    ExecutionStatus, HistoryEvent, HistoryType, TaskId, TimedEvent, TimerId, apply,
};
use ballast_state_machines::language::Definition;
use ballast_state_machines::testing::{case_count, random_machine, random_task_event};
use proptest::prelude::*;
use serde_json::json;

/// How an execution is driven.
#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    /// It is written down and read before every event.
    is_written: bool,
    /// Every event comes twice, and once more at the end.
    is_doubled: bool,
    /// What is outstanding is taken from the execution, as after a crash.
    is_restarted: bool,
    /// It is paused and resumed before every event.
    is_paused: bool,
    /// How many states are gone through for one event.
    states_per_event_max: Option<u32>,
}

#[derive(Debug, PartialEq)]
struct Ending {
    execution: Execution,
    history: Vec<HistoryEvent>,
}

struct Driver<'a> {
    definition: &'a Definition,
    seed: u64,
    manner: Manner,
    execution: Execution,
    now: i64,
    history: Vec<HistoryEvent>,
    /// What was ordered and not answered yet, in order.
    due: VecDeque<Effect>,
    past: Vec<TimedEvent>,
}

impl Driver<'_> {
    fn apply(&mut self, event: ExecutionEvent) {
        if self.manner.is_written {
            let text = serde_json::to_string(&self.execution).unwrap();
            let read: Execution = serde_json::from_str(&text).unwrap();
            assert_eq!(read, self.execution);
            self.execution = read;
        }
        let at = TimedEvent::new(event, self.now);
        let outcome = apply(self.definition, &mut self.execution, at.clone());
        if self.manner.is_doubled {
            let before = self.execution.clone();
            let again = apply(self.definition, &mut self.execution, at.clone());
            assert_eq!(again, EventOutcome::default(), "{at:?}");
            assert_eq!(self.execution, before);
            self.past.push(at);
        }
        self.take(outcome);
    }

    fn take(&mut self, outcome: EventOutcome) {
        self.history.extend(outcome.history);
        for effect in outcome.effects {
            match effect {
                Effect::StopTask { task } => self.due.retain(|due| task_of(due) != Some(task)),
                Effect::StopTimer { timer } => self.due.retain(|due| timer_of(due) != Some(timer)),
                Effect::Ended => self.due.clear(),
                due => self.due.push_back(due),
            }
        }
        if !self.execution.status().is_ended() {
            self.check_outstanding();
        }
    }

    /// What is outstanding is what was ordered and not answered. A turn that
    /// was asked for may have been overtaken by another event.
    fn check_outstanding(&mut self) {
        let outstanding = self.execution.outstanding();
        let is_paused = self.execution.is_paused();
        assert!(
            !outstanding.is_empty() || is_paused,
            "it neither ended nor waits"
        );
        for effect in &outstanding {
            assert!(self.due.contains(effect), "{effect:?}");
        }
        let is_turn = |effect: &Effect| matches!(effect, Effect::Continue { .. });
        let waits = outstanding.iter().filter(|effect| !is_turn(effect));
        let due = self.due.iter().filter(|effect| !is_turn(effect));
        assert_eq!(waits.count(), due.count());
    }

    /// The next event: tasks answer before time goes on.
    fn next(&mut self) -> ExecutionEvent {
        if self.manner.is_restarted {
            let outstanding = self.execution.outstanding();
            self.due
                .make_contiguous()
                .sort_by_key(|due| outstanding.iter().position(|effect| effect == due));
        }
        let at_once = self.due.iter().position(|due| timer_of(due).is_none());
        let index = at_once.unwrap_or_else(|| {
            let times = self.due.iter().enumerate();
            let first = times.min_by_key(|(_, due)| time_of(due)).unwrap();
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

fn task_of(effect: &Effect) -> Option<TaskId> {
    match effect {
        Effect::RunTask(order) => Some(order.task),
        _ => None,
    }
}

fn timer_of(effect: &Effect) -> Option<TimerId> {
    match effect {
        Effect::SetTimer { timer, .. } => Some(*timer),
        _ => None,
    }
}

fn time_of(effect: &Effect) -> i64 {
    match effect {
        Effect::SetTimer { at_ms, .. } => *at_ms,
        _ => 0,
    }
}

fn drive(definition: &Definition, seed: u64, manner: Manner) -> Ending {
    let mut driver = Driver {
        definition,
        seed,
        manner,
        execution: Execution::default(),
        now: 1_700_000_000_000,
        history: Vec::new(),
        due: VecDeque::new(),
        past: Vec::new(),
    };
    let mut limits = ExecutionLimits::default();
    if let Some(most) = manner.states_per_event_max {
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
        if manner.is_paused {
            driver.apply(ExecutionEvent::Paused);
            driver.now += 1;
            let event = driver.next();
            driver.apply(event);
            driver.apply(ExecutionEvent::Resumed);
        } else {
            let event = driver.next();
            driver.apply(event);
        }
    }
    for at in std::mem::take(&mut driver.past) {
        let again = apply(definition, &mut driver.execution, at);
        assert_eq!(again, EventOutcome::default());
    }
    Ending {
        execution: driver.execution,
        history: driver.history,
    }
}

fn random(seed: u64) -> Definition {
    let text = random_machine(seed).to_string();
    Definition::parse(&text).unwrap_or_else(|problems| unreachable!("{problems:?}\n{text}"))
}

/// Whether a history could have happened.
fn check_history(ending: &Ending) {
    let history = &ending.history;
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
    assert_eq!(ending.execution.history_len(), history.len() as u64);
    for event in history {
        let text = serde_json::to_string(event).unwrap();
        assert_eq!(serde_json::from_str::<HistoryEvent>(&text).unwrap(), *event);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count(300)))]

    #[test]
    fn executions_end_or_wait_for_something(seed: u64) {
        let definition = random(seed);
        let ending = drive(&definition, seed, Manner::default());
        check_history(&ending);
        prop_assert!(ending.execution.outstanding().is_empty());
        prop_assert!(ending.execution.position().is_empty());
    }

    #[test]
    fn what_was_written_down_goes_on_as_before(seed: u64) {
        let definition = random(seed);
        let plain = drive(&definition, seed, Manner::default());
        let manner = Manner { is_written: true, ..Manner::default() };
        prop_assert_eq!(drive(&definition, seed, manner), plain);
    }

    #[test]
    fn an_event_that_comes_twice_does_nothing(seed: u64) {
        let definition = random(seed);
        let plain = drive(&definition, seed, Manner::default());
        let manner = Manner { is_doubled: true, ..Manner::default() };
        prop_assert_eq!(drive(&definition, seed, manner), plain);
    }

    #[test]
    fn what_is_outstanding_is_enough_to_go_on(seed: u64) {
        let definition = random(seed);
        let manner = Manner { is_restarted: true, ..Manner::default() };
        check_history(&drive(&definition, seed, manner));
    }

    #[test]
    fn small_steps_lead_to_an_end(seed: u64, most in 1u32..4) {
        let definition = random(seed);
        let manner = Manner {
            states_per_event_max: Some(most),
            is_written: true,
            is_doubled: true,
            ..Manner::default()
        };
        check_history(&drive(&definition, seed, manner));
    }

    #[test]
    fn a_pause_keeps_what_was_answered(seed: u64) {
        let definition = random(seed);
        let manner = Manner { is_paused: true, ..Manner::default() };
        check_history(&drive(&definition, seed, manner));
    }

    #[test]
    fn it_may_be_cancelled_at_any_time(seed: u64, after in 0usize..20) {
        let definition = random(seed);
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
