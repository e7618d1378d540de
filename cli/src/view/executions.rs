//! Renders executions.

use serde_json::Value;

use super::watch::bar::format_percent;
use super::watch::position::{describe_activity, describe_place};
use crate::execution::body::{Execution, ExecutionStatus, TaskProgress};
use crate::output::Screen;
use crate::table::{self, Table, count_noun, format_number, moment, moment_long, sanitize};
use crate::time::format_duration;

/// Characters of a value to show.
const VALUE_CHARS_MAX: usize = 160;
/// Positions to list one by one.
const POSITIONS_MAX: usize = 10;

/// A value on one line, truncated if it is long.
pub(crate) fn truncate_json(value: &Value, chars_max: usize) -> String {
    let text = value.to_string();
    if text.chars().count() <= chars_max {
        return text;
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn status(screen: &Screen, execution: &Execution) -> String {
    let name = execution.status.as_str();
    match execution.status {
        ExecutionStatus::Running | ExecutionStatus::Unknown if execution.paused => {
            format!("{name}, {}", screen.yellow("paused"))
        }
        ExecutionStatus::Running | ExecutionStatus::Unknown => screen.cyan(name),
        ExecutionStatus::Succeeded => screen.green(name),
        ExecutionStatus::Failed | ExecutionStatus::TimedOut | ExecutionStatus::Aborted => {
            screen.red(name)
        }
    }
}

/// Its current states, in few words.
fn describe_positions(execution: &Execution) -> String {
    let places: Vec<String> = execution.position.iter().map(describe_place).collect();
    match places.as_slice() {
        [] => "–".to_owned(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
    }
}

/// The ID of an execution that was started.
pub(crate) fn started_id(_: &Screen, execution: &Execution) -> String {
    sanitize(&execution.id)
}

/// One line on a changed execution.
pub(crate) fn summary_line(screen: &Screen, execution: &Execution) -> String {
    let mut line = format!(
        "{} is {}",
        sanitize(&execution.id),
        status(screen, execution)
    );
    if !execution.position.is_empty() {
        line.push_str(&format!(
            ", in {}",
            sanitize(&describe_positions(execution))
        ));
    }
    line
}

/// Many executions.
pub(crate) fn execution_table(screen: &Screen, executions: &[Execution]) -> String {
    let columns = ["execution", "status", "where", "started", "#took"];
    let mut table = Table::new(screen, &columns);
    for execution in executions {
        let mut status = execution.status.as_str().to_owned();
        if execution.paused {
            status.push_str(", paused");
        }
        let row = [
            execution.id.clone(),
            status,
            describe_positions(execution),
            moment(screen, execution.started_at),
            format_duration(execution.elapsed_ms(screen.now)),
        ];
        if execution.status.is_ended() {
            table.add_dimmed_row(row);
        } else {
            table.add_row(row);
        }
    }
    table.render()
}

/// How far a task is, in words.
fn describe_progress(item: &TaskProgress) -> String {
    let total = item.total.filter(|total| *total > 0);
    let mut words = vec![format!("{}:", item.state)];
    if let Some(total) = total {
        let share = (item.done as f64 / total as f64).min(1.0);
        words.push(format!("{},", format_percent(share).trim_start()));
        words.push(format!(
            "{} of {}",
            format_number(item.done),
            format_number(total)
        ));
    } else {
        words.push(format_number(item.done));
    }
    words.push(item.unit.clone());
    words.extend(item.note.as_ref().map(|note| format!("({note})")));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// All about one execution.
pub(crate) fn execution_facts(screen: &Screen, execution: &Execution) -> String {
    let took = format_duration(execution.elapsed_ms(screen.now));
    let (ran, running) = if execution.status.is_ended() {
        (Some(took), None)
    } else {
        (None, Some(took))
    };
    let mut facts: Vec<(&str, Option<String>)> = vec![
        ("execution", Some(execution.id.clone())),
        ("workflow", Some(execution.workflow.clone())),
        ("name", Some(execution.name.clone())),
        ("status", None),
        ("started", Some(moment_long(screen, execution.started_at))),
        ("running for", running),
        (
            "ended",
            execution.ended_at.map(|at| moment_long(screen, at)),
        ),
        ("took", ran),
    ];
    for at in execution.position.iter().take(POSITIONS_MAX) {
        let doing = describe_activity(at, execution.paused, screen.now);
        let item = format!("{}: {doing}", describe_place(at));
        facts.push(("where", Some(item)));
    }
    let more = execution.position.len().saturating_sub(POSITIONS_MAX);
    facts.push(("", (more > 0).then(|| format!("and {more} more"))));
    for item in execution.progress.iter().take(POSITIONS_MAX) {
        facts.push(("progress", Some(describe_progress(item))));
    }
    let value = |value: &Value| truncate_json(value, VALUE_CHARS_MAX);
    facts.extend([
        ("input", Some(value(&execution.input))),
        ("output", execution.output.as_ref().map(value)),
        ("error", execution.error.clone()),
        ("cause", execution.cause.clone()),
        (
            "history",
            Some(count_noun(execution.history_length, "event")),
        ),
        ("worker", execution.worker.clone()),
        ("definition", Some(execution.definition_hash.clone())),
    ]);
    // Insert the status afterwards: `fact_list` would strip its colours.
    let text = table::fact_list(screen, &facts);
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let label = screen.dim(&format!("{:width$}", "status"));
    let status = format!("{label}  {}", status(screen, execution));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(3.min(lines.len()), &status);
    lines.join("\n")
}

/// The output of an execution that succeeded: for a person with line breaks.
pub(crate) fn render_output(screen: &Screen, execution: &Execution) -> String {
    let output = execution.output.as_ref().unwrap_or(&Value::Null);
    let pretty = if screen.terminal {
        serde_json::to_string_pretty(output).ok()
    } else {
        None
    };
    pretty.unwrap_or_else(|| output.to_string())
}

/// The result of an execution: its output, or its error and cause.
pub(crate) fn describe_result(screen: &Screen, execution: &Execution) -> String {
    if execution.status == ExecutionStatus::Succeeded {
        return render_output(screen, execution);
    }
    let error = execution.error.clone().filter(|text| !text.is_empty());
    let cause = execution.cause.clone().filter(|text| !text.is_empty());
    if error.is_none() && cause.is_none() {
        return screen.dim("no error or cause recorded");
    }
    table::fact_list(screen, &[("error", error), ("cause", cause)])
}

/// How an execution ended, and its result.
pub(crate) fn describe_end(screen: &Screen, execution: &Execution) -> String {
    let took = format_duration(execution.elapsed_ms(screen.now));
    let (id, status) = (sanitize(&execution.id), status(screen, execution));
    let result = describe_result(screen, execution);
    format!("{id} {status} after {took}\n{result}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn running() -> Execution {
        serde_json::from_value(json!({
            "executionID": "order:4711", "workflow": "order", "name": "4711",
            "status": "RUNNING", "paused": true, "startedAt": "2026-11-16T09:27:47Z",
            "definitionHash": "ab12", "historyLength": 1234, "worker": "w-1",
            "position": [
                {"state": "Each", "doing": "gathering", "done": 1, "total": 2, "attempt": 0,
                 "enteredAt": "2026-11-16T09:29:48Z", "iterations": []},
                {"state": "Copy", "doing": "working", "attempt": 1,
                 "enteredAt": "2026-11-16T09:29:48Z",
                 "iterations": [{"map": "Each", "index": 1}]},
            ],
            "input": {"note": "long ".repeat(50)},
            "progress": [{"state": "Copy", "task": 3, "begunAt": "2026-11-16T09:29:50Z",
                "at": "2026-11-16T09:29:59Z", "done": 410, "total": 1000, "unit": "rows",
                "note": "partition 7"}],
        }))
        .unwrap()
    }

    fn failed() -> Execution {
        Execution {
            status: ExecutionStatus::Failed,
            paused: false,
            ended_at: Some(Screen::plain().now),
            position: Vec::new(),
            progress: Vec::new(),
            error: Some("Disk".to_owned()),
            cause: Some("it is full\u{1b}[2J".to_owned()),
            ..running()
        }
    }

    #[test]
    fn all_about_an_execution() {
        let screen = Screen::plain();
        let shown = [
            execution_facts(&screen, &running()),
            execution_facts(&screen, &failed()),
        ];
        insta::assert_snapshot!(shown.join("\n\n"));
    }

    #[test]
    fn many_of_them_and_what_became_of_one() {
        let screen = Screen::plain();
        let good = Execution {
            status: ExecutionStatus::Succeeded,
            output: Some(json!({"rows": 1000})),
            ..failed()
        };
        let shown = [
            execution_table(&screen, &[running(), failed()]),
            summary_line(&screen, &running()),
            describe_end(&screen, &failed()),
            describe_end(&screen, &good),
        ];
        insta::assert_snapshot!(shown.join("\n\n"));
    }
}
