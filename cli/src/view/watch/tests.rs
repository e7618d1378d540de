//! The live view and the lines of a pipe, as they are read.

use ballast_domain::Timestamp;
use ballast_state_machines::definitions::BuiltInWorkflow;
use ballast_state_machines::language::Definition;
use serde_json::{Value, json};

use super::line::StyledLine;
use super::log::ExecutionLog;
use super::{Connection, ExecutionScene, frame};
use crate::execution::body::{Execution, HistoryEvent};
use crate::execution::state_history::StateHistory;
use crate::execution::state_history::tests::history_events;

/// 2026-11-16T09:30:00Z.
const NOW: Timestamp = Timestamp::from_unix_ms(1_794_821_400_000);

fn ago(seconds: i64) -> Timestamp {
    NOW.plus_seconds(-seconds)
}

fn execution(more: Value) -> Execution {
    let mut body = json!({
        "executionID": "order:4711", "workflow": "order", "name": "4711",
        "status": "RUNNING", "paused": false, "startedAt": ago(133),
        "definitionHash": "ab", "position": [], "historyLength": 9, "input": {},
        "progress": [],
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

fn at(state: &str, doing: &str, more: Value) -> Value {
    let mut body = json!({"state": state, "doing": doing, "attempt": 0,
        "enteredAt": ago(12), "iterations": []});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn order() -> Definition {
    let task = |resource: &str, next: &str| {
        json!({"Type": "Task", "Resource": resource, "Next": next,
            "Retry": [{"ErrorEquals": ["States.ALL"]}],
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Give up"}]})
    };
    let text = json!({"StartAt": "Prepare", "States": {
        "Prepare": {"Type": "Pass", "Next": "Copy"},
        "Copy": task("ballast:work", "Settle"),
        "Settle": {"Type": "Wait", "Seconds": 600, "Next": "Approve"},
        "Approve": task("ballast:approval.waitForTaskToken", "Done"),
        "Give up": {"Type": "Fail", "Error": "GaveUp"},
        "Done": {"Type": "Succeed"},
    }});
    Definition::parse(&text.to_string()).unwrap()
}

fn wide() -> Definition {
    let work = json!({"Type": "Task", "Resource": "ballast:work", "End": true});
    let text = json!({"StartAt": "Each", "States": {
        "Each": {"Type": "Map", "Next": "Both",
            "ItemProcessor": {"StartAt": "Copy", "States": {"Copy": work}}},
        "Both": {"Type": "Parallel", "End": true, "Branches": [
            {"StartAt": "Left", "States": {"Left": work}},
            {"StartAt": "Right", "States": {"Right": {"Type": "Wait", "Seconds": 60, "End": true}}},
        ]},
    }});
    Definition::parse(&text.to_string()).unwrap()
}

/// What is drawn in so many columns and rows.
struct TestView {
    definition: Definition,
    events: Vec<HistoryEvent>,
    link: Connection,
    columns: usize,
    rows: usize,
}

impl TestView {
    fn new(definition: Definition, events: &[(&str, u64, Value)]) -> Self {
        Self {
            definition,
            events: history_events(events),
            link: Connection::Up,
            columns: 80,
            rows: 30,
        }
    }

    fn see(&self, execution: &Execution) -> String {
        let mut story = StateHistory::default();
        for event in &self.events {
            story.apply(event);
        }
        let scene = ExecutionScene {
            execution,
            definition: &self.definition,
            story: &story,
            link: self.link,
            now: NOW,
        };
        let lines = frame(&scene, self.columns, self.rows);
        assert!(lines.len() < self.rows, "{} lines", lines.len());
        assert!(lines.iter().all(|line| line.width() <= self.columns));
        let texts: Vec<String> = lines.iter().map(StyledLine::text).collect();
        texts.join("\n")
    }
}

/// The states that were left, one after the other.
fn left(states: &[&str]) -> Vec<(&'static str, u64, Value)> {
    let mut events = vec![("ExecutionStarted", 0, json!({}))];
    for state in states {
        let last = events.len() as u64;
        events.push(("PassStateEntered", last, json!({ "name": state })));
        events.push(("PassStateExited", last + 1, json!({ "name": state })));
    }
    events
}

fn copying() -> Execution {
    execution(json!({
        "position": [at("Copy", "working", json!({"attempt": 1}))],
        "progress": [{"state": "Copy", "task": 3, "begunAt": ago(42), "at": ago(1),
            "done": 41_000, "total": 100_000, "unit": "rows", "perSecond": 1_000.0,
            "note": "partition 7 of 16"}],
    }))
}

#[test]
fn a_task_with_progress() {
    let look = TestView::new(order(), &left(&["Prepare"]));
    insta::assert_snapshot!(look.see(&copying()));
}

#[test]
fn a_wait() {
    let waiting = at(
        "Settle",
        "waiting",
        json!({"wakesAt": NOW.plus_seconds(250)}),
    );
    let look = TestView::new(order(), &left(&["Prepare", "Copy"]));
    insta::assert_snapshot!(look.see(&execution(json!({ "position": [waiting] }))));
}

#[test]
fn backing_off_before_the_third_attempt() {
    let off = at(
        "Copy",
        "backingOff",
        json!({"attempt": 2, "wakesAt": NOW.plus_seconds(4)}),
    );
    let mut events = left(&["Prepare"]);
    events.push(("TaskStateEntered", 3, json!({"name": "Copy"})));
    events.push((
        "TaskFailed",
        4,
        json!({"error": "Disk.Full", "cause": "no room on /var"}),
    ));
    let look = TestView::new(order(), &events);
    insta::assert_snapshot!(look.see(&execution(json!({ "position": [off] }))));
}

#[test]
fn an_approval_while_paused() {
    let asked = at("Approve", "awaitingCallback", json!({"enteredAt": ago(75)}));
    let look = TestView::new(order(), &left(&["Prepare", "Copy", "Settle"]));
    let execution = execution(json!({"position": [asked], "paused": true}));
    insta::assert_snapshot!(look.see(&execution));
}

fn many() -> Execution {
    let copy = |index: u64| {
        at(
            "Copy",
            "working",
            json!({"iterations": [{"map": "Each", "index": index}]}),
        )
    };
    let far = |task: u64, done: u64| {
        json!({"state": "Copy", "task": task, "begunAt": ago(10), "at": NOW, "done": done,
            "total": 60, "unit": "files", "perSecond": done as f64 / 10.0})
    };
    execution(json!({
        "executionID": "wide:1", "workflow": "wide",
        "position": [at("Each", "gathering", json!({"done": 5, "total": 8})), copy(5), copy(6),
            copy(7)],
        "progress": [far(9, 45), far(7, 30), far(8, 12)],
    }))
}

#[test]
fn the_items_of_a_map() {
    insta::assert_snapshot!(TestView::new(wide(), &[]).see(&many()));
}

#[test]
fn the_branches_of_a_parallel() {
    let positions = [
        at("Both", "gathering", json!({"done": 0, "total": 2})),
        at("Left", "working", json!({})),
        at("Right", "waiting", json!({"wakesAt": NOW.plus_seconds(48)})),
    ];
    let look = TestView::new(wide(), &left(&["Each"]));
    insta::assert_snapshot!(look.see(&execution(json!({ "position": positions }))));
}

#[test]
fn failed() {
    let mut events = left(&["Prepare"]);
    events.extend([
        ("TaskStateEntered", 3, json!({"name": "Copy"})),
        ("TaskFailed", 4, json!({"error": "Disk"})),
        ("TaskStateExited", 5, json!({"name": "Copy"})),
        ("FailStateEntered", 6, json!({"name": "Give up"})),
        ("ExecutionFailed", 7, json!({"error": "GaveUp"})),
    ]);
    let ended = execution(json!({"status": "FAILED", "endedAt": ago(100), "error": "GaveUp"}));
    insta::assert_snapshot!(TestView::new(order(), &events).see(&ended));
}

#[test]
fn succeeded() {
    let events = left(&["Prepare", "Copy", "Settle", "Approve", "Done"]);
    let ended = execution(json!({"status": "SUCCEEDED", "endedAt": ago(3), "output": {}}));
    insta::assert_snapshot!(TestView::new(order(), &events).see(&ended));
}

#[test]
fn a_lost_connection_and_one_that_is_back() {
    let mut look = TestView::new(order(), &left(&["Prepare"]));
    look.rows = 9;
    look.link = Connection::Up.lose(ago(12)).lose(ago(2));
    let lost = look.see(&copying());
    look.link = look.link.restore(ago(2));
    let back = look.see(&copying());
    look.link = look.link.restore(NOW.plus_seconds(10));
    assert_eq!(look.link, Connection::Up);
    insta::assert_snapshot!(format!("{lost}\n\n--- and then\n\n{back}"));
}

#[test]
fn a_narrow_terminal() {
    let mut look = TestView::new(order(), &left(&["Prepare"]));
    look.columns = 60;
    insta::assert_snapshot!(look.see(&copying()));
}

#[test]
fn a_low_terminal_shows_where_it_stands() {
    let definition = BuiltInWorkflow::find("move-tenant")
        .unwrap()
        .definition()
        .unwrap();
    let mut look = TestView::new(definition, &left(&["DetectHotspot", "PlanMove"]));
    look.rows = 12;
    let execution = execution(json!({
        "executionID": "move-tenant:acme-1", "workflow": "move-tenant",
        "position": [at("VerifyConsistency", "working", json!({}))],
    }));
    insta::assert_snapshot!(look.see(&execution));
}

#[test]
fn no_size_is_too_small() {
    for rows in [2, 3, 4, 5, 6, 7, 8, 9, 12, 20, 40] {
        for columns in [2, 3, 8, 20, 60, 81, 300] {
            for execution in [copying(), many(), execution(json!({"paused": true}))] {
                let mut look = TestView::new(order(), &left(&["Prepare"]));
                (look.rows, look.columns) = (rows, columns);
                look.see(&execution);
            }
        }
    }
}

#[test]
fn a_pipe_is_told_each_change_once() {
    let mut teller = ExecutionLog::new(true);
    let mut events = left(&["Prepare"]);
    events.push(("TaskStateEntered", 3, json!({"name": "Copy"})));
    let mut lines = teller.log_changes(&copying(), &history_events(&events), NOW);
    lines.extend(teller.log_changes(&copying(), &[], NOW));
    let mut further = copying();
    for done in [42_000, 45_999, 46_000, 47_000, 100_000, 100_000] {
        further.progress[0].done = done;
        lines.extend(teller.log_changes(&further, &[], NOW));
    }
    lines.push(teller.log_disconnected(NOW));
    let waiting = at(
        "Settle",
        "waiting",
        json!({"wakesAt": NOW.plus_seconds(250)}),
    );
    let waiting = execution(json!({"position": [waiting], "paused": true}));
    events.push(("TaskSucceeded", 4, json!({})));
    events.push(("TaskStateExited", 5, json!({"name": "Copy"})));
    lines.extend(teller.log_changes(&waiting, &history_events(&events), NOW.plus_seconds(3)));
    lines.extend(teller.log_changes(&waiting, &[], NOW.plus_seconds(9)));
    let asked = at("Approve", "awaitingCallback", json!({}));
    let asked = execution(json!({ "position": [asked] }));
    lines.extend(teller.log_changes(&asked, &[], NOW.plus_seconds(10)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn no_line_is_before_the_first() {
    for from_start in [true, false] {
        let mut events = left(&["Prepare"]);
        events.push(("TaskStateEntered", 3, json!({"name": "Copy"})));
        let mut copying = copying();
        copying.progress[0].at = ago(3);
        let waits = at("Settle", "waiting", json!({"wakesAt": NOW}));
        copying
            .position
            .push(serde_json::from_value(waits).unwrap());
        let mut events = history_events(&events);
        for event in &mut events {
            event.timestamp = ago(5);
        }
        let lines = ExecutionLog::new(from_start).log_changes(&copying, &events, NOW);
        let times: Vec<&str> = lines.iter().map(|line| &line[..20]).collect();
        assert!(times.len() > 2, "{lines:?}");
        assert!(times.is_sorted(), "{lines:#?}");
    }
}

#[test]
fn who_joins_later_is_told_where_it_stands() {
    let mut teller = ExecutionLog::new(false);
    let first = teller.log_changes(
        &execution(json!({})),
        &history_events(&left(&["Prepare"])),
        NOW,
    );
    assert_eq!(first, [format!("{NOW} order:4711 is RUNNING")]);
    let paused = execution(json!({"paused": true}));
    let again = teller.log_changes(&paused, &[], NOW);
    assert_eq!(again, [format!("{NOW} paused")]);
    let first = ExecutionLog::new(false).log_changes(&paused, &[], NOW);
    assert_eq!(first, [format!("{NOW} order:4711 is RUNNING, paused")]);
}
