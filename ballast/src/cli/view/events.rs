//! What was changed, for people: who, when, why, and from what to what.

use serde_json::Value;

use crate::cli::body::Event;
use crate::cli::output::Screen;
use crate::cli::table::{Table, moment};

/// Many events.
pub(crate) fn table(screen: &Screen, events: &[Event]) -> String {
    let columns = ["#event", "when", "who", "action", "what", "why", "changed"];
    let mut table = Table::new(screen, &columns);
    for event in events {
        table.row([
            event.event_id.to_string(),
            moment(screen, event.at),
            event.actor.to_string(),
            event.action.clone(),
            what(event),
            event.reason.clone().unwrap_or_default(),
            changed(&event.before, &event.after),
        ]);
    }
    table.text()
}

/// What it happened to; there is only one fleet.
fn what(event: &Event) -> String {
    if event.kind == event.id {
        event.kind.clone()
    } else {
        format!("{} {}", event.kind, event.id)
    }
}

/// The fields that differ: `weight 1 → 2`, or only the name of a larger one.
fn changed(before: &Value, after: &Value) -> String {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return String::new();
    };
    let null = Value::Null;
    let mut names: Vec<&String> = before.keys().collect();
    names.extend(after.keys().filter(|name| !before.contains_key(*name)));
    let told = names.into_iter().filter_map(|name| {
        let old = before.get(name).unwrap_or(&null);
        let new = after.get(name).unwrap_or(&null);
        match (short(old), short(new)) {
            _ if old == new => None,
            (Some(old), Some(new)) => Some(format!("{name} {old} → {new}")),
            _ => Some(name.clone()),
        }
    });
    told.collect::<Vec<_>>().join(", ")
}

/// A value that fits a table.
fn short(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("none".to_owned()),
        Value::String(text) if text.len() <= 24 => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_changed_is_told_in_few_words() {
        let before = json!({"weight": 1.0, "zones": ["a"], "state": "active"});
        let after = json!({"weight": 2.5, "zones": ["b"], "state": "active", "pin": "x"});
        assert_eq!(
            changed(&before, &after),
            "weight 1.0 → 2.5, zones, pin none → x"
        );
        assert_eq!(changed(&Value::Null, &after), "");
    }
}
