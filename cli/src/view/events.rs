//! Renders audit events: who, when, why, and what changed.

use serde_json::Value;

use crate::body::EventBody;
use crate::output::Screen;
use crate::table::{Table, moment};

/// Characters of a hash to show.
const HASH_CHARS: usize = 7;

/// Many events.
pub(crate) fn event_table(screen: &Screen, events: &[EventBody]) -> String {
    let columns = ["#event", "when", "who", "action", "what", "why", "changed"];
    let mut table = Table::new(screen, &columns);
    for event in events {
        table.add_row([
            event.event_id.to_string(),
            moment(screen, event.at),
            event.actor.to_string(),
            event.action.clone(),
            event_subject(event),
            event.reason.clone().unwrap_or_default(),
            describe_change(event),
        ]);
    }
    table.render()
}

/// The changed record; the fleet has no id.
fn event_subject(event: &EventBody) -> String {
    if event.kind == event.id {
        event.kind.clone()
    } else {
        format!("{} {}", event.kind, event.id)
    }
}

/// The changed fields. For workflows and executions, the request itself: it is unrelated to the
/// previous one.
fn describe_change(event: &EventBody) -> String {
    let text = |field: &str| event.after.get(field).and_then(Value::as_str);
    match event.kind.as_str() {
        "execution" => {
            let words = [text("asked"), text("state")];
            words.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        "workflow" => {
            let verb = event.action.rsplit('.').next().unwrap_or_default();
            let hash = text("definitionHash").unwrap_or_default();
            let short = hash.get(..HASH_CHARS).unwrap_or(hash);
            format!("{verb} {short}").trim_end().to_owned()
        }
        _ => changed_fields(&event.before, &event.after),
    }
}

/// The changed fields: `weight 1 → 2`, or only the name of a large one.
fn changed_fields(before: &Value, after: &Value) -> String {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return String::new();
    };
    let null = Value::Null;
    let mut names: Vec<&String> = before.keys().collect();
    names.extend(after.keys().filter(|name| !before.contains_key(*name)));
    let changes = names.into_iter().filter_map(|name| {
        let old = before.get(name).unwrap_or(&null);
        let new = after.get(name).unwrap_or(&null);
        match (short_value(old), short_value(new)) {
            _ if old == new => None,
            (Some(old), Some(new)) => Some(format!("{name} {old} → {new}")),
            _ => Some(name.clone()),
        }
    });
    changes.collect::<Vec<_>>().join(", ")
}

/// A value that fits a table.
fn short_value(value: &Value) -> Option<String> {
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
    fn what_was_asked_is_told_for_itself() {
        let event = |kind: &str, action: &str, after: Value| -> EventBody {
            serde_json::from_value(json!({"eventID": 1, "at": "2026-11-16T09:30:00Z",
                "actor": {"name": "ballast/up"}, "action": action, "kind": kind, "id": "x",
                "before": {"asked": "cancel", "definitionHash": "ffffffffff"}, "after": after}))
            .unwrap()
        };
        let pause = event("execution", "execution.pause", json!({"asked": "pause"}));
        assert_eq!(describe_change(&pause), "pause");
        let after = json!({"asked": "signal", "state": "Approve"});
        let signal = event("execution", "execution.signal", after);
        assert_eq!(describe_change(&signal), "signal Approve");
        let after = json!({"definitionHash": "75f44cb01d"});
        let deploy = event("workflow", "workflow.deploy", after);
        assert_eq!(describe_change(&deploy), "deploy 75f44cb");
        let weight = json!({"asked": "cancel", "definitionHash": "ffffffffff", "weight": 2});
        let shard = event("shard", "shard.update", weight);
        assert_eq!(describe_change(&shard), "weight none → 2");
    }

    #[test]
    fn what_changed_is_told_in_few_words() {
        let before = json!({"weight": 1.0, "zones": ["a"], "state": "active"});
        let after = json!({"weight": 2.5, "zones": ["b"], "state": "active", "pin": "x"});
        assert_eq!(
            changed_fields(&before, &after),
            "weight 1.0 → 2.5, zones, pin none → x"
        );
        assert_eq!(changed_fields(&Value::Null, &after), "");
    }
}
