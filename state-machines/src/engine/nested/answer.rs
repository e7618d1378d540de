//! What a Task that starts an execution is answered, in the shape of Step
//! Functions. Its times are milliseconds since 1970, as theirs are.

use serde_json::{Value, json};

use crate::core::{Event, Nested, Status, TaskId, errors};
use crate::engine::Description;

/// That a child was started.
pub(super) fn started(id: &str, at_ms: i64) -> Value {
    json!({"ExecutionArn": id, "StartDate": at_ms})
}

/// The child that such an answer names.
pub(super) fn child_of(output: &Value) -> Option<&str> {
    output.get("ExecutionArn")?.as_str()
}

/// How a child ended, as its parent's task. Nothing, if it has not.
pub(in crate::engine) fn ended(nested: Nested, task: TaskId, child: &Description) -> Option<Event> {
    if !child.is_ended() {
        return None;
    }
    let output = described(nested, child);
    if child.summary.status == Status::Succeeded {
        return Some(Event::TaskSucceeded { task, output });
    }
    Some(failed(task, output.to_string()))
}

/// There is no such child any more.
pub(in crate::engine) fn gone(task: TaskId, child: &str) -> Event {
    let cause = format!("the execution {child} was forgotten before its end was seen");
    failed(task, cause)
}

fn failed(task: TaskId, cause: String) -> Event {
    Event::TaskFailed {
        task,
        error: errors::TASK_FAILED.to_owned(),
        cause,
    }
}

/// A description as `DescribeExecution` gives it.
fn described(nested: Nested, child: &Description) -> Value {
    let shown = |value: &Value| match nested {
        Nested::EndAsJson => value.clone(),
        Nested::EndAsText | Nested::Start => json!(value.to_string()),
    };
    let summary = &child.summary;
    let name = summary.id.rsplit(':').next().unwrap_or_default();
    let mut described = json!({
        "ExecutionArn": summary.id,
        "Input": shown(&child.input),
        "InputDetails": {"Included": true},
        "Name": name,
        "StartDate": summary.started_at_ms,
        "StateMachineArn": summary.workflow,
        "Status": summary.status.as_str(),
        "StopDate": summary.ended_at_ms,
    });
    if let Some(output) = &child.output {
        described["Output"] = shown(output);
        described["OutputDetails"] = json!({"Included": true});
    }
    for (field, text) in [("Error", &child.error), ("Cause", &child.cause)] {
        if let Some(text) = text {
            described[field] = json!(text);
        }
    }
    described
}
