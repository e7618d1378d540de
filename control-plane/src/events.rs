//! The audit log: every change with who, when, why, before and after.

use ballast_domain::registry::{EventQuery, RecordKind, RegistryEvent};
use ballast_domain::{Actor, Result, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::plane::ControlPlane;

/// One change of one record.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventBody {
    /// Position in the order of all events.
    #[serde(rename = "eventID")]
    pub event_id: u64,
    /// The commit it belongs to. Events of one commit happened atomically.
    pub revision: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Who made the change.
    pub actor: Actor,
    /// What was done.
    #[schema(example = "tenant.create")]
    pub action: String,
    /// Why, if a reason was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Kind of the changed record: tenant, shard, key, token, fleet, workflow or
    /// execution.
    pub kind: String,
    /// Id of the changed record.
    pub id: String,
    /// Its version after the change.
    pub version: u64,
    /// The record before the change; `null` when it was created.
    pub before: Value,
    /// The record after the change; `null` when it was removed.
    pub after: Value,
}

/// A page of events, newest first.
pub async fn list(plane: &ControlPlane, query: &EventQuery) -> Result<Vec<EventBody>> {
    let events = plane.registry().events(query).await?;
    Ok(events.into_iter().map(body).collect())
}

fn body(event: RegistryEvent) -> EventBody {
    let read = |body: Option<String>| {
        body.and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or(Value::Null)
    };
    EventBody {
        event_id: event.sequence,
        revision: event.revision,
        at: event.at,
        actor: event.actor,
        action: event.action,
        reason: event.reason,
        kind: event.key.kind.name().to_owned(),
        id: event.key.id,
        version: event.version,
        before: read(event.before),
        after: read(event.after),
    }
}

/// The kinds that a caller may filter by.
pub fn kind_names() -> Vec<&'static str> {
    RecordKind::ALL.iter().map(|kind| kind.name()).collect()
}
