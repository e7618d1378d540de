//! Renders the history of an execution.

use ballast_domain::Timestamp;
use serde_json::Value;

use crate::execution::body::HistoryEvent;
use crate::execution::state_history::StateHistory;
use crate::output::Screen;
use crate::table::Table;

/// Characters of a detail to show.
const DETAIL_CHARS_MAX: usize = 60;

/// Events, in the order given. On a terminal the times are those since the
/// start.
pub(crate) fn history_table(
    screen: &Screen,
    started: Timestamp,
    events: &[HistoryEvent],
) -> String {
    let mut in_order: Vec<&HistoryEvent> = events.iter().collect();
    in_order.sort_by_key(|event| event.id);
    let mut story = StateHistory::default();
    for event in in_order {
        story.apply(event);
    }
    let mut table = Table::new(screen, &["#event", "#when", "type", "state", "detail"]);
    for event in events {
        let named = event.detail("name").map(str::to_owned);
        table.add_row([
            event.id.to_string(),
            event_time(screen, started, event.timestamp),
            event.kind.clone(),
            named
                .or_else(|| story.find_state(event.id))
                .unwrap_or_default(),
            truncate(&event_detail(event)),
        ]);
    }
    table.render()
}

/// `+1.234 s`.
fn event_time(screen: &Screen, started: Timestamp, at: Timestamp) -> String {
    if !screen.terminal {
        return at.to_string();
    }
    let ms = at.unix_ms().saturating_sub(started.unix_ms()).max(0);
    format!("+{}.{:03} s", ms / 1_000, ms % 1_000)
}

/// The most important detail.
fn event_detail(event: &HistoryEvent) -> String {
    let error = event.detail("error");
    match (error, event.detail("cause")) {
        (Some(error), Some(cause)) => return format!("{error}: {cause}"),
        (Some(error), None) => return error.to_owned(),
        (None, Some(cause)) => return cause.to_owned(),
        (None, None) => {}
    }
    let index = event.details().and_then(|details| details.get("index"));
    if let Some(index) = index.and_then(Value::as_u64) {
        return format!("item {index}");
    }
    ["output", "input", "parameters", "resource"]
        .iter()
        .find_map(|name| event.detail(name))
        .unwrap_or_default()
        .to_owned()
}

fn truncate(text: &str) -> String {
    if text.chars().count() <= DETAIL_CHARS_MAX {
        return text.to_owned();
    }
    let kept: String = text.chars().take(DETAIL_CHARS_MAX - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::execution::state_history::tests::history_events;

    #[test]
    fn a_history_is_a_table_in_which_every_event_has_its_state() {
        let mut events = history_events(&[
            ("ExecutionStarted", 0, json!({"input": "{\"n\":1}"})),
            (
                "TaskStateEntered",
                1,
                json!({"name": "Copy", "input": "{}"}),
            ),
            ("TaskScheduled", 2, json!({"resource": "ballast:work"})),
            ("TaskFailed", 3, json!({"error": "Disk", "cause": "full"})),
            (
                "TaskStateExited",
                4,
                json!({"name": "Copy", "output": "x".repeat(100)}),
            ),
            ("ExecutionSucceeded", 5, json!({"output": "{}"})),
        ]);
        let mut screen = Screen::plain();
        let started = screen.now.plus_seconds(-2);
        insta::assert_snapshot!(
            "a_history_in_a_pipe",
            history_table(&screen, started, &events)
        );
        screen.terminal = true;
        screen.width = 100;
        events.reverse();
        insta::assert_snapshot!(
            "a_history_on_a_terminal_newest_first",
            history_table(&screen, started, &events)
        );
    }
}
