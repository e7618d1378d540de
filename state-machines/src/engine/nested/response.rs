//! The result of a Task that starts an execution, in the shape of Step Functions.
//! Times are milliseconds since 1970, as there.

use serde_json::{Value, json};

use crate::core::{ExecutionEvent, ExecutionStatus, NestedStart, TaskId, errors};
use crate::engine::ExecutionDetails;

/// The response to starting a child.
pub(super) fn start_response(id: &str, at_ms: i64) -> Value {
    json!({"ExecutionArn": id, "StartDate": at_ms})
}

/// The child's id in such a response.
pub(super) fn child_id(output: &Value) -> Option<&str> {
    output.get("ExecutionArn")?.as_str()
}

/// The parent's event for a child that has ended; `None` while it runs.
pub(in crate::engine) fn end_event(
    nested: NestedStart,
    task: TaskId,
    child: &ExecutionDetails,
) -> Option<ExecutionEvent> {
    if !child.is_ended() {
        return None;
    }
    let output = describe_child(nested, child);
    if child.summary.status == ExecutionStatus::Succeeded {
        return Some(ExecutionEvent::TaskSucceeded { task, output });
    }
    Some(failure_event(task, output.to_string()))
}

/// The parent's event for a child that no longer exists.
pub(in crate::engine) fn child_missing_event(task: TaskId, child: &str) -> ExecutionEvent {
    let cause = format!("the execution {child} was deleted before its parent saw its end");
    failure_event(task, cause)
}

fn failure_event(task: TaskId, cause: String) -> ExecutionEvent {
    ExecutionEvent::TaskFailed {
        task,
        error: errors::TASK_FAILED.to_owned(),
        cause,
    }
}

/// The child as `DescribeExecution` shows it.
fn describe_child(nested: NestedStart, child: &ExecutionDetails) -> Value {
    let shown = |value: &Value| match nested {
        NestedStart::EndAsJson => value.clone(),
        NestedStart::EndAsText | NestedStart::Start => json!(value.to_string()),
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
