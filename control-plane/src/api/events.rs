//! `/events`

use axum::Json;
use axum::extract::State;
use ballast_domain::error::suggest_nearest;
use ballast_domain::registry::{EventQuery, RecordKind};
use ballast_domain::{Error, Result, Timestamp};
use ballast_web::ApiError;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::caller::Viewer;
use crate::events::{self, EventBody, kind_names};
use crate::plane::ControlPlane;

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventFilter {
    /// Only events of this kind: tenant, shard, key, token, fleet, workflow,
    /// execution, migration, hotspot, plan, settings or share.
    kind: Option<String>,
    /// Only events of this record (requires `kind`).
    #[param(max_length = 63)]
    id: Option<String>,
    /// Only at or after this moment.
    since: Option<Timestamp>,
    /// Only at or before this moment.
    until: Option<Timestamp>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List changes, newest first: who, when, why, before and after.
#[utoipa::path(get, path = "/events", operation_id = "listEvents",
    tag = "events", params(EventFilter),
    responses((status = 200, description = "A page of events", body = Page<EventBody>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<EventFilter>,
) -> Result<Json<Page<EventBody>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let kind = filter.kind.as_deref().map(kind).transpose()?;
    if filter.id.is_some() && kind.is_none() {
        return Err(Error::invalid_field("?id", "requires kind").into());
    }
    let before = page::parse_cursor(filter.cursor.as_deref())?;
    let query = EventQuery {
        // The fleet record changes with every shard: hide it unless requested.
        hidden: kind.is_none().then_some(RecordKind::Fleet),
        kind,
        id: filter.id,
        before,
        since: filter.since,
        until: filter.until,
        limit: limit + 1,
    };
    let found = events::list(&plane, &query).await?;
    Ok(Json(Page::from_items(found, limit, |event| {
        event.event_id.to_string()
    })))
}

fn kind(name: &str) -> Result<RecordKind> {
    RecordKind::from_name(name).ok_or_else(|| {
        let near = suggest_nearest(name, kind_names());
        let kinds = kind_names().join(", ");
        Error::invalid_field("?kind", format!("{name:?} is not one of {kinds}{near}"))
    })
}
