//! Executions, for people.

use serde_json::Value;

use super::watch::bar::percent;
use super::watch::position::{doing, place};
use crate::execution::body::{Execution, Progress, Status};
use crate::output::Screen;
use crate::table::{self, Table, clean, moment, moment_long, number};
use crate::time::span;

/// How much of a value is shown before `--json` is the better way to read it.
const VALUE_CHARS_MAX: usize = 160;
/// Positions that are told one by one.
const POSITIONS_MAX: usize = 10;

/// A value on one line, its end left out if it is long.
pub(crate) fn short(value: &Value, chars_max: usize) -> String {
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
        Status::Running | Status::Unknown if execution.paused => {
            format!("{name}, {}", screen.yellow("paused"))
        }
        Status::Running | Status::Unknown => screen.cyan(name),
        Status::Succeeded => screen.green(name),
        Status::Failed | Status::TimedOut | Status::Aborted => screen.red(name),
    }
}

/// The states it is in, in few words.
fn places(execution: &Execution) -> String {
    let places: Vec<String> = execution.position.iter().map(place).collect();
    match places.as_slice() {
        [] => "–".to_owned(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
    }
}

/// The ID of an execution that was started.
pub(crate) fn started(_: &Screen, execution: &Execution) -> String {
    clean(&execution.id)
}

/// One line on an execution of which something was wished.
pub(crate) fn line(screen: &Screen, execution: &Execution) -> String {
    let mut line = format!("{} is {}", clean(&execution.id), status(screen, execution));
    if !execution.position.is_empty() {
        line.push_str(&format!(", in {}", clean(&places(execution))));
    }
    line
}

/// Many executions.
pub(crate) fn table(screen: &Screen, executions: &[Execution]) -> String {
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
            places(execution),
            moment(screen, execution.started_at),
            span(execution.elapsed_ms(screen.now)),
        ];
        if execution.status.is_ended() {
            table.faint(row);
        } else {
            table.row(row);
        }
    }
    table.text()
}

/// How far a task is, in words.
fn progress(told: &Progress) -> String {
    let total = told.total.filter(|total| *total > 0);
    let mut words = vec![format!("{}:", told.state)];
    if let Some(total) = total {
        let share = (told.done as f64 / total as f64).min(1.0);
        words.push(format!("{},", percent(share).trim_start()));
        words.push(format!("{} of {}", number(told.done), number(total)));
    } else {
        words.push(number(told.done));
    }
    words.push(told.unit.clone());
    words.extend(told.note.as_ref().map(|note| format!("({note})")));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// All about one execution.
pub(crate) fn facts(screen: &Screen, execution: &Execution) -> String {
    let took = span(execution.elapsed_ms(screen.now));
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
        let doing = doing(at, execution.paused, screen.now);
        let told = format!("{}: {doing}", place(at));
        facts.push(("where", Some(told)));
    }
    let more = execution.position.len().saturating_sub(POSITIONS_MAX);
    facts.push(("", (more > 0).then(|| format!("and {more} more"))));
    for told in execution.progress.iter().take(POSITIONS_MAX) {
        facts.push(("progress", Some(progress(told))));
    }
    let value = |value: &Value| short(value, VALUE_CHARS_MAX);
    facts.extend([
        ("input", Some(value(&execution.input))),
        ("output", execution.output.as_ref().map(value)),
        ("error", execution.error.clone()),
        ("cause", execution.cause.clone()),
        (
            "history",
            Some(format!("{} events", number(execution.history_length))),
        ),
        ("worker", execution.worker.clone()),
        ("definition", Some(execution.definition_hash.clone())),
    ]);
    // The one that has colours of its own, which would be taken for dirt.
    let text = table::facts(screen, &facts);
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let label = screen.dim(&format!("{:width$}", "status"));
    let status = format!("{label}  {}", status(screen, execution));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(3.min(lines.len()), &status);
    lines.join("\n")
}

/// The output of an execution that succeeded: for a person with line breaks.
pub(crate) fn output(screen: &Screen, execution: &Execution) -> String {
    let output = execution.output.as_ref().unwrap_or(&Value::Null);
    let pretty = if screen.terminal {
        serde_json::to_string_pretty(output).ok()
    } else {
        None
    };
    pretty.unwrap_or_else(|| output.to_string())
}

/// What came of an execution: its output, or its error and cause.
pub(crate) fn result(screen: &Screen, execution: &Execution) -> String {
    if execution.status == Status::Succeeded {
        return output(screen, execution);
    }
    let error = execution.error.clone().filter(|text| !text.is_empty());
    let cause = execution.cause.clone().filter(|text| !text.is_empty());
    if error.is_none() && cause.is_none() {
        return screen.dim("it left no error and no cause");
    }
    table::facts(screen, &[("error", error), ("cause", cause)])
}

/// How an execution ended, and what came of it.
pub(crate) fn ended(screen: &Screen, execution: &Execution) -> String {
    let took = span(execution.elapsed_ms(screen.now));
    let (id, status) = (clean(&execution.id), status(screen, execution));
    let result = result(screen, execution);
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
            status: Status::Failed,
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
        let shown = [facts(&screen, &running()), facts(&screen, &failed())];
        insta::assert_snapshot!(shown.join("\n\n"));
    }

    #[test]
    fn many_of_them_and_what_became_of_one() {
        let screen = Screen::plain();
        let good = Execution {
            status: Status::Succeeded,
            output: Some(json!({"rows": 1000})),
            ..failed()
        };
        let shown = [
            table(&screen, &[running(), failed()]),
            line(&screen, &running()),
            ended(&screen, &failed()),
            ended(&screen, &good),
        ];
        insta::assert_snapshot!(shown.join("\n\n"));
    }
}
