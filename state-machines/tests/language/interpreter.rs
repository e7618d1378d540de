//! Tests of the interpreter, event by event: ignored events, pauses, effects.

use ballast_state_machines::core::{
    Effect, EventOutcome, Execution, ExecutionEvent, ExecutionLimits, ExecutionStart,
    ExecutionStatus, RunActivity, RunTask, TaskId, TimedEvent, TimerId, apply, parse_token,
};
use ballast_state_machines::language::Definition;
use serde_json::{Value, json};

/// An execution and its definition.
struct TestExecution {
    definition: Definition,
    execution: Execution,
    now: i64,
}

impl TestExecution {
    fn begin(definition: &Value, input: Value, limits: ExecutionLimits) -> (Self, EventOutcome) {
        let definition = Definition::parse(&definition.to_string()).unwrap();
        let mut running = Self {
            definition,
            execution: Execution::default(),
            now: 1_000,
        };
        let outcome = running.apply(ExecutionEvent::Begun(Box::new(begin(input, limits))));
        (running, outcome)
    }

    fn apply(&mut self, event: ExecutionEvent) -> EventOutcome {
        let at = TimedEvent::new(event, self.now);
        apply(&self.definition, &mut self.execution, at)
    }
}

fn begin(input: Value, limits: ExecutionLimits) -> ExecutionStart {
    ExecutionStart {
        execution_id: "run-1".to_owned(),
        name: "first".to_owned(),
        machine: "arn:aws:states:local:0:stateMachine:copying".to_owned(),
        role: String::new(),
        input,
        at_ms: 1_000,
        seed: 7,
        limits,
        origin: None,
    }
}

fn task() -> Value {
    json!({"StartAt": "T", "States": {
        "T": {"Type": "Task", "Resource": "test:work", "TimeoutSeconds": 60, "Next": "W"},
        "W": {"Type": "Wait", "Seconds": 10, "End": true}}})
}

fn order(outcome: &EventOutcome) -> &RunTask {
    match outcome.effects.as_slice() {
        [Effect::RunTask(order)] => order,
        other => panic!("{other:?}"),
    }
}

fn succeeded(task: TaskId) -> ExecutionEvent {
    let output = json!("done");
    ExecutionEvent::TaskSucceeded { task, output }
}

#[test]
fn events_before_the_start_are_ignored() {
    let definition = Definition::parse(&task().to_string()).unwrap();
    let mut execution = Execution::default();
    let at = TimedEvent::new(succeeded(TaskId(1)), 0);
    assert_eq!(
        apply(&definition, &mut execution, at),
        EventOutcome::default()
    );
    assert_eq!(execution, Execution::default());
    assert_eq!(execution.status(), ExecutionStatus::Pending);
}

#[test]
fn a_task_effect_has_all_data_for_its_driver() {
    let (running, outcome) =
        TestExecution::begin(&task(), json!({"a": 1}), ExecutionLimits::default());
    let order = order(&outcome);
    assert_eq!(order.task, TaskId(1));
    assert_eq!(order.input, json!({"a": 1}));
    assert_eq!((order.attempt, order.state.as_str()), (0, "T"));
    assert_eq!((order.timeout_ms, order.heartbeat_ms), (Some(60_000), None));
    assert_eq!(parse_token(&order.token), Some(("run-1", TaskId(1))));
    assert_eq!(running.execution.outstanding(), outcome.effects);
    let position = running.execution.position();
    assert_eq!(position[0].doing, RunActivity::Working);
    assert_eq!(position[0].task, Some(TaskId(1)));
}

/// The history shows a running task, and its start time.
#[test]
fn a_task_is_recorded_as_started_when_it_is_scheduled() {
    let (mut running, outcome) =
        TestExecution::begin(&task(), json!({}), ExecutionLimits::default());
    let recorded = |outcome: &EventOutcome| -> Vec<(&'static str, i64)> {
        let events = outcome.history.iter();
        events
            .map(|event| (event.kind.as_str(), event.at_ms))
            .collect()
    };
    assert_eq!(
        recorded(&outcome),
        [
            ("ExecutionStarted", 1_000),
            ("TaskStateEntered", 1_000),
            ("TaskScheduled", 1_000),
            ("TaskStarted", 1_000)
        ]
    );
    running.now = 9_000;
    let outcome = running.apply(succeeded(TaskId(1)));
    assert_eq!(recorded(&outcome)[0], ("TaskSucceeded", 9_000));
}

#[test]
fn late_and_unknown_events_are_ignored() {
    let (mut running, outcome) =
        TestExecution::begin(&task(), json!({}), ExecutionLimits::default());
    let task = order(&outcome).task;
    let before = running.execution.clone();
    for ignored in [
        succeeded(TaskId(99)),
        ExecutionEvent::TaskStarted { task: TaskId(99) },
        ExecutionEvent::TimerFired { timer: TimerId(1) },
        ExecutionEvent::Continued { turn: 1 },
        ExecutionEvent::Resumed,
        ExecutionEvent::Begun(Box::new(begin(json!({}), ExecutionLimits::default()))),
    ] {
        assert_eq!(running.apply(ignored), EventOutcome::default());
    }
    assert_eq!(running.execution, before);
    assert!(
        running
            .apply(ExecutionEvent::TaskTimedOut {
                task,
                heartbeat: false
            })
            .accepted
    );
    assert_eq!(running.execution.status(), ExecutionStatus::Failed);
    assert_eq!(running.apply(succeeded(task)), EventOutcome::default());
    let cancelled = ExecutionEvent::Cancelled {
        error: None,
        cause: None,
    };
    assert_eq!(running.apply(cancelled), EventOutcome::default());
    assert_eq!(running.execution.error(), Some("States.Timeout"));
}

#[test]
fn a_pause_accepts_results_and_starts_nothing() {
    let (mut running, outcome) =
        TestExecution::begin(&task(), json!({}), ExecutionLimits::default());
    let task = order(&outcome).task;
    assert!(running.apply(ExecutionEvent::Paused).accepted);
    assert!(!running.apply(ExecutionEvent::Paused).accepted);
    let answered = running.apply(succeeded(task));
    assert!(answered.accepted);
    assert_eq!(answered.effects, []);
    assert_eq!(answered.history.len(), 1, "succeeded");
    assert_eq!(running.execution.outstanding(), []);
    running.now += 60_000;
    let resumed = running.apply(ExecutionEvent::Resumed);
    // The wait starts at the resume, not at the result of the task.
    let [Effect::SetTimer { timer, at_ms }] = resumed.effects.as_slice() else {
        panic!("{:?}", resumed.effects);
    };
    assert_eq!(*at_ms, 1_000 + 60_000 + 10_000);
    running.now = *at_ms;
    let ended = running.apply(ExecutionEvent::TimerFired { timer: *timer });
    assert_eq!(ended.effects, [Effect::Ended]);
    assert_eq!(running.execution.output(), Some(&json!("done")));
    assert_eq!(running.execution.changed_at_ms(), running.now);
}

#[test]
fn the_time_of_an_execution_never_goes_back() {
    let (mut running, outcome) =
        TestExecution::begin(&task(), json!({}), ExecutionLimits::default());
    running.now = -5_000;
    let outcome = running.apply(succeeded(order(&outcome).task));
    assert!(outcome.history.iter().all(|event| event.at_ms == 1_000));
}

#[test]
fn a_retry_is_another_task() {
    let definition = json!({"StartAt": "T", "States": {"T": {
        "Type": "Task", "Resource": "test:work", "End": true,
        "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 4}]}}});
    let (mut running, outcome) =
        TestExecution::begin(&definition, json!({}), ExecutionLimits::default());
    let first = order(&outcome).clone();
    let failed = ExecutionEvent::TaskFailed {
        task: first.task,
        error: "E".to_owned(),
        cause: String::new(),
    };
    let outcome = running.apply(failed);
    let [
        Effect::SetTimer {
            timer,
            at_ms: 5_000,
        },
    ] = outcome.effects.as_slice()
    else {
        panic!("{:?}", outcome.effects);
    };
    running.now = 5_000;
    let outcome = running.apply(ExecutionEvent::TimerFired { timer: *timer });
    let second = order(&outcome);
    assert_ne!(second.task, first.task);
    assert_ne!(second.token, first.token);
    assert_eq!((first.attempt, second.attempt), (0, 1));
}

#[test]
fn an_endless_loop_runs_in_turns_and_fails() {
    let definition = json!({"StartAt": "A", "States": {
        "A": {"Type": "Pass", "Next": "C"},
        "C": {"Type": "Choice", "Choices": [{"Variable": "$", "IsPresent": true, "Next": "A"}],
              "Default": "E"},
        "E": {"Type": "Succeed"}}});
    let limits = ExecutionLimits {
        history_max: 1_000,
        states_per_event_max: 100,
        ..ExecutionLimits::default()
    };
    let (mut running, mut outcome) = TestExecution::begin(&definition, json!({}), limits);
    let mut turns = 0;
    while let [Effect::Continue { turn }] = outcome.effects.as_slice() {
        turns += 1;
        assert!(outcome.history.len() <= 201);
        outcome = running.apply(ExecutionEvent::Continued { turn: *turn });
    }
    assert_eq!(turns, 4);
    assert_eq!(outcome.effects, [Effect::Ended]);
    assert_eq!(running.execution.status(), ExecutionStatus::Failed);
    assert!(running.execution.history_len() <= 1_000);
    assert!(running.execution.cause().unwrap().contains("1000 events"));
}

#[test]
fn large_payloads_fail_the_execution() {
    let large = json!("x".repeat(262_144));
    let (running, outcome) =
        TestExecution::begin(&task(), large.clone(), ExecutionLimits::default());
    assert_eq!(running.execution.error(), Some("States.DataLimitExceeded"));
    assert_eq!(outcome.effects, [Effect::Ended]);
    let (mut running, outcome) =
        TestExecution::begin(&task(), json!({}), ExecutionLimits::default());
    let task = order(&outcome).task;
    let outcome = running.apply(ExecutionEvent::TaskSucceeded {
        task,
        output: large,
    });
    assert_eq!(running.execution.error(), Some("States.DataLimitExceeded"));
    let kinds: Vec<&str> = outcome
        .history
        .iter()
        .map(|event| event.kind.as_str())
        .collect();
    assert_eq!(kinds, ["TaskFailed", "ExecutionFailed"]);
}

#[test]
fn siblings_of_a_failed_branch_are_stopped() {
    let definition = json!({"StartAt": "P", "States": {"P": {
        "Type": "Parallel", "End": true, "Branches": [
            {"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "a", "End": true}}},
            {"StartAt": "B", "States": {"B": {"Type": "Task", "Resource": "b", "End": true}}},
            {"StartAt": "C", "States": {"C": {"Type": "Wait", "Seconds": 9, "End": true}}}]}}});
    let (mut running, outcome) =
        TestExecution::begin(&definition, json!({}), ExecutionLimits::default());
    assert_eq!(outcome.effects.len(), 3);
    let outcome = running.apply(ExecutionEvent::TaskFailed {
        task: TaskId(1),
        error: "E".to_owned(),
        cause: String::new(),
    });
    let stops = [
        Effect::StopTask { task: TaskId(2) },
        Effect::StopTimer { timer: TimerId(1) },
        Effect::Ended,
    ];
    assert_eq!(outcome.effects, stops);
}

/// The JSON of events in journals: a change here is a change of the stored format.
#[test]
fn the_stored_format_of_events_is_stable() {
    let task = TaskId(3);
    let events = [
        (
            ExecutionEvent::TaskStarted { task },
            json!({"TaskStarted": {"task": 3}}),
        ),
        (
            succeeded(task),
            json!({"TaskSucceeded": {"task": 3, "output": "done"}}),
        ),
        (
            ExecutionEvent::TaskFailed {
                task,
                error: "E".to_owned(),
                cause: "C".to_owned(),
            },
            json!({"TaskFailed": {"task": 3, "error": "E", "cause": "C"}}),
        ),
        (
            ExecutionEvent::TaskTimedOut {
                task,
                heartbeat: true,
            },
            json!({"TaskTimedOut": {"task": 3, "heartbeat": true}}),
        ),
        (
            ExecutionEvent::TaskSubmitted {
                task,
                output: json!({}),
            },
            json!({"TaskSubmitted": {"task": 3, "output": {}}}),
        ),
        (
            ExecutionEvent::TimerFired { timer: TimerId(2) },
            json!({"TimerFired": {"timer": 2}}),
        ),
        (
            ExecutionEvent::Continued { turn: 1 },
            json!({"Continued": {"turn": 1}}),
        ),
        (ExecutionEvent::Paused, json!("Paused")),
        (ExecutionEvent::Resumed, json!("Resumed")),
        (
            ExecutionEvent::Cancelled {
                error: None,
                cause: Some("why".to_owned()),
            },
            json!({"Cancelled": {"error": null, "cause": "why"}}),
        ),
        (
            ExecutionEvent::Begun(Box::new(begin(json!(1), ExecutionLimits::default()))),
            json!({"Begun": {
                "execution_id": "run-1", "name": "first",
                "machine": "arn:aws:states:local:0:stateMachine:copying", "role": "",
                "input": 1, "at_ms": 1000, "seed": 7,
                "limits": {"history_max": 25000, "states_per_event_max": 1000,
                    "iterations_at_once_max": 40, "distributed_at_once_max": 1000}}}),
        ),
    ];
    for (event, written) in events {
        assert_eq!(serde_json::to_value(&event).unwrap(), written);
        assert_eq!(
            serde_json::from_value::<ExecutionEvent>(written).unwrap(),
            event
        );
    }
}
