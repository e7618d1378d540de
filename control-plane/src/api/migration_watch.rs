//! `/migrations/{migrationID}/watch`: a migration's changes as server-sent events.
//! Follows both its record in the registry and the progress of its execution.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use ballast_domain::moving::MigrationId;
use ballast_state_machines::engine::ExecutionWatch;
use ballast_web::ApiError;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::caller::Caller;
use super::migrations::RecordName;
use super::request::Id;
use super::watch::{
    BATCH_DELAY, KEEPALIVE, KEEPALIVE_INTERVAL, format_event, shutdown_requested, stream_events,
};
use crate::migrations::body::{MigrationBody, parse_migration_id};
use crate::migrations::show;
use crate::plane::ControlPlane;
use crate::tokens;
use crate::workflows::workflows;

/// Retry interval while the execution does not exist yet.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Watch a migration.
///
/// Sends an event `migration` immediately and after every change of its record or
/// progress, at most a few times a second. The data is the response of
/// `GET /migrations/{migrationID}`. The last event is `end`.
#[utoipa::path(get, path = "/migrations/{migrationID}/watch", operation_id = "watchMigration",
    tag = "migrations",
    params(("migrationID" = String, Path)),
    responses((status = 200, description = "Server-sent events, until the migration ends",
        body = String, content_type = "text/event-stream")))]
pub(super) async fn watch(
    caller: Caller,
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
) -> Result<Response, ApiError> {
    let id = parse_migration_id(&id)?;
    // Return an error for an unknown id before the stream begins.
    show(&plane, &id).await?;
    let (place, ending) = workflows(&plane)?.subscribe()?;
    let watcher = MigrationWatcher {
        plane: plane.clone(),
        id,
        execution: None,
        last: None,
        secret: caller.secret.expose().to_owned(),
        ending,
        _place: place,
    };
    Ok(stream_events(watcher, MigrationWatcher::next_event))
}

/// A client that watches a migration.
struct MigrationWatcher {
    plane: ControlPlane,
    id: MigrationId,
    /// The execution that runs it; a later one may take over.
    execution: Option<(String, ExecutionWatch)>,
    last: Option<MigrationBody>,
    secret: String,
    ending: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

impl MigrationWatcher {
    /// The next event, and the watcher for the one after it.
    async fn next_event(mut self) -> Option<(Bytes, Option<Self>)> {
        let over = |last: &mut MigrationBody| last.migration.value.is_over();
        if let Some(last) = self.last.take_if(over) {
            return Some((format_event("end", &last), None));
        }
        let mut ending = self.ending.clone();
        let quiet = tokio::time::sleep(KEEPALIVE_INTERVAL);
        tokio::pin!(quiet);
        let mut pause = self.last.is_some();
        loop {
            if std::mem::replace(&mut pause, true) {
                tokio::time::sleep(BATCH_DELAY).await;
            }
            // On errors, end the stream: a new request returns the reason.
            let revision = self.plane.registry().revision().await.ok()?;
            let now = show(&self.plane, &self.id).await.ok()?;
            if self.last.as_ref() != Some(&now) {
                self.watch_execution(&now.execution_id)?;
                let event = format_event("migration", &now);
                self.last = Some(now);
                return Some((event, Some(self)));
            }
            tokio::select! {
                () = self.wait_for_change(revision) => {}
                () = &mut quiet => {
                    let known = tokens::authenticate(&self.plane, &self.secret).await;
                    // A failed check does not end the stream; an inactive token does.
                    if matches!(known, Ok(None)) {
                        return None;
                    }
                    return Some((Bytes::from_static(KEEPALIVE), Some(self)));
                }
                () = shutdown_requested(&mut ending) => return None,
            }
        }
    }

    fn watch_execution(&mut self, execution: &str) -> Option<()> {
        if self
            .execution
            .as_ref()
            .is_none_or(|(id, _)| id != execution)
        {
            let watch = workflows(&self.plane).ok()?.engine().watch(execution);
            self.execution = Some((execution.to_owned(), watch));
        }
        Some(())
    }

    /// Waits until something may have changed.
    async fn wait_for_change(&mut self, revision: u64) {
        let execution = &mut self.execution;
        let worked_on = async {
            let changed = match execution {
                Some((_, watch)) => watch.next().await,
                None => Ok(None),
            };
            // It does not exist yet, has ended, or cannot be read right now.
            if !matches!(changed, Ok(Some(_))) {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        };
        let written = async {
            if self.plane.registry().wait_past(revision).await.is_err() {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        };
        tokio::select! {
            () = worked_on => {}
            () = written => {}
        }
    }
}
