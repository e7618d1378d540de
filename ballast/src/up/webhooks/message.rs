//! Selects and words the events for webhooks: pure.

use ballast_control_plane::migrations::WAIT_FOR_APPROVAL;
use ballast_domain::Timestamp;
use ballast_domain::registry::{RecordKind, RegistryEvent};
use serde::Serialize;
use serde_json::Value;

use crate::config::WebhookTopic;

/// The body of a webhook request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WebhookMessage {
    /// The event's number; a repetition has the same one.
    #[serde(rename = "eventID")]
    event_id: u64,
    /// What happened: `hotspot.found`, `plan.proposed`, `move.completed`, …
    event: String,
    at: Timestamp,
    /// A sentence for people.
    text: String,
    /// The record as it is now.
    record: Value,
}

/// The message for an event, if the hook subscribes to it.
pub(super) fn message(event: &RegistryEvent, only: &[WebhookTopic]) -> Option<WebhookMessage> {
    let topic = match event.key.kind {
        RecordKind::Hotspot => WebhookTopic::Hotspot,
        RecordKind::Plan => WebhookTopic::Plan,
        RecordKind::Migration => WebhookTopic::Move,
        _ => return None,
    };
    if !only.is_empty() && !only.contains(&topic) {
        return None;
    }
    let read = |body: &Option<String>| -> Value {
        let text = body.as_deref().unwrap_or("null");
        serde_json::from_str(text).unwrap_or_default()
    };
    let (before, record) = (read(&event.before), read(&event.after));
    let id = &event.key.id;
    let (name, text) = match topic {
        WebhookTopic::Hotspot => hotspot(&event.action, id, &record)?,
        WebhookTopic::Plan => needed(id, &before, &record)
            .or_else(|| changed("plan", id, &before["status"], &record["status"], &record))?,
        WebhookTopic::Move => {
            let status = |value: &Value| value["ended"]["status"].clone();
            approval(id, &before, &record)
                .or_else(|| changed("move", id, &status(&before), &status(&record), &record))?
        }
    };
    Some(WebhookMessage {
        event_id: event.sequence,
        event: name,
        at: event.at,
        text,
        record,
    })
}

fn hotspot(action: &str, id: &str, record: &Value) -> Option<(String, String)> {
    let shards: Vec<_> = record["shardIDs"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let shards = shards.join(", ");
    let (cause, cure) = (record["cause"].as_str()?, record["cure"].as_str()?);
    match action {
        "hotspot.find" => Some((
            "hotspot.found".to_owned(),
            format!("{shards} is hot ({cause}); cure: {cure}. ballast hotspot show {id}"),
        )),
        "hotspot.end" => Some((
            "hotspot.over".to_owned(),
            format!("the hotspot of {shards} ({cause}) is over. ballast hotspot show {id}"),
        )),
        _ => None,
    }
}

/// A migration began to wait for approval.
fn approval(id: &str, before: &Value, record: &Value) -> Option<(String, String)> {
    let waits = |value: &Value| {
        let waits = value["waitingFor"].as_str().unwrap_or_default();
        waits == WAIT_FOR_APPROVAL
    };
    (waits(record) && !waits(before)).then(|| {
        let text = format!("migration {id} waits for approval: ballast migration approve {id}");
        ("move.awaits-approval".to_owned(), text)
    })
}

/// A plan needs more shards.
fn needed(id: &str, before: &Value, record: &Value) -> Option<(String, String)> {
    let needed = record.get("shardsNeeded").filter(|it| !it.is_null())?;
    if before.get("shardsNeeded").is_some() {
        return None;
    }
    let (count, region) = (needed["count"].as_u64()?, needed["region"].as_str()?);
    let shards = if count == 1 { "shard" } else { "shards" };
    let text = format!(
        "{region} is full: {count} {shards} more to be made and added (ballast shard add). ballast \
         plan show {id}"
    );
    Some(("plan.shards-needed".to_owned(), text))
}

/// A status changed.
fn changed(
    noun: &str,
    id: &str,
    before: &Value,
    after: &Value,
    record: &Value,
) -> Option<(String, String)> {
    let status = after.as_str().filter(|_| before != after)?;
    let note = record["note"]
        .as_str()
        .map_or_else(String::new, |note| format!(" ({note})"));
    let text = match (noun, status) {
        ("plan", "proposed") => {
            format!("{id} waits for approval: ballast plan show {id}, ballast plan approve {id}")
        }
        ("plan", status) => format!("{id} is {status}{note}: ballast plan show {id}"),
        (_, status) => format!("{noun} {id} is {status}: ballast migration show {id}"),
    };
    Some((format!("{noun}.{status}"), text))
}

#[cfg(test)]
mod tests {
    use ballast_domain::Actor;
    use ballast_domain::registry::RecordKey;
    use serde_json::json;

    use super::*;

    fn event(kind: RecordKind, action: &str, before: Value, after: Value) -> RegistryEvent {
        RegistryEvent {
            sequence: 7,
            revision: 3,
            at: Timestamp::from_unix_ms(0),
            actor: Actor::ballast("test"),
            action: action.to_owned(),
            reason: None,
            key: RecordKey::new(kind, "x-1"),
            version: 1,
            before: Some(before.to_string()),
            after: Some(after.to_string()),
        }
    }

    #[test]
    fn what_somebody_should_know_is_told_once() {
        let topic =
            |event: &RegistryEvent, only: &[WebhookTopic]| message(event, only).map(|it| it.event);
        let plan = |before: &str, after: &str| {
            let (before, after) = (json!({"status": before}), json!({"status": after}));
            event(RecordKind::Plan, "plan.x", before, after)
        };
        assert_eq!(topic(&plan("", "proposed"), &[]).unwrap(), "plan.proposed");
        assert_eq!(topic(&plan("running", "running"), &[]), None);
        assert_eq!(
            topic(&plan("judging", "done"), &[WebhookTopic::Hotspot]),
            None
        );
        let waits = |why: &str| json!({ "waitingFor": why });
        let approval = WAIT_FOR_APPROVAL;
        let (turn, asked) = (waits("a turn"), waits(approval));
        let wait = event(RecordKind::Migration, "migration.wait", turn, asked.clone());
        assert_eq!(topic(&wait, &[]).unwrap(), "move.awaits-approval");
        let again = event(RecordKind::Migration, "migration.x", asked.clone(), asked);
        assert_eq!(topic(&again, &[]), None);
        let asked = json!({"status": "running", "shardsNeeded": {"count": 2, "region": "eu"}});
        let approved = json!({"status": "approved"});
        let request = event(RecordKind::Plan, "plan.request", approved, asked.clone());
        let request = message(&request, &[]).unwrap();
        assert_eq!(request.event, "plan.shards-needed");
        assert!(request.text.contains("2 shards more"), "{}", request.text);
        let mut done = asked.clone();
        done["status"] = json!("judging");
        let done = event(RecordKind::Plan, "plan.done", asked, done);
        assert_eq!(topic(&done, &[]).unwrap(), "plan.judging");
        let hot = json!({"shardIDs": ["shard-1"], "cause": "hot tenant", "cure": "move"});
        let found = event(
            RecordKind::Hotspot,
            "hotspot.find",
            Value::Null,
            hot.clone(),
        );
        assert_eq!(topic(&found, &[]).unwrap(), "hotspot.found");
        assert_eq!(
            topic(
                &event(RecordKind::Hotspot, "hotspot.update", hot.clone(), hot),
                &[]
            ),
            None
        );
        let ended = event(
            RecordKind::Migration,
            "x",
            json!({}),
            json!({"ended": {"status": "completed"}}),
        );
        assert_eq!(
            topic(&ended, &[WebhookTopic::Move]).unwrap(),
            "move.completed"
        );
        assert_eq!(
            topic(&event(RecordKind::Tenant, "x", json!({}), json!({})), &[]),
            None
        );
    }
}
