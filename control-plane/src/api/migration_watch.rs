//! `/migrations/{migrationID}/watch`: a move as it changes, as server-sent
//! events. Its record is in the registry, its progress in an execution: both
//! are listened to.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use ballast_domain::moving::MoveId;
use ballast_state_machines::engine::Watch;
use ballast_web::ApiError;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::caller::Caller;
use super::migrations::Named;
use super::request::Id;
use super::watch::{BREATH, SIGN_OF_LIFE, STILL_HERE, event, streamed, told_to_go};
use crate::migrations::body::{MigrationBody, move_id};
use crate::migrations::show;
use crate::plane::ControlPlane;
use crate::tokens;
use crate::workflows::running;

/// Executions that are not there yet are looked for so often.
const AGAIN: Duration = Duration::from_millis(500);

/// Watch a move.
///
/// An event `migration` comes at once and whenever its record or its progress
/// has changed, a few times a second at the most; its data is what
/// `GET /migrations/{migrationID}` answers. The event `end` is the last one.
#[utoipa::path(get, path = "/migrations/{migrationID}/watch", tag = "migrations",
    params(("migrationID" = String, Path)),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub(super) async fn watch(
    caller: Caller,
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
) -> Result<Response, ApiError> {
    let id = move_id(&id)?;
    // It is refused before anything is sent if there is none.
    show(&plane, &id).await?;
    let (place, ending) = running(&plane)?.watcher()?;
    let watcher = Watcher {
        plane: plane.clone(),
        id,
        execution: None,
        last: None,
        secret: caller.secret.expose().to_owned(),
        ending,
        _place: place,
    };
    Ok(streamed(watcher, Watcher::next))
}

/// Somebody who watches a move.
struct Watcher {
    plane: ControlPlane,
    id: MoveId,
    /// The execution that works on it: a later one may take over.
    execution: Option<(String, Watch)>,
    last: Option<MigrationBody>,
    secret: String,
    ending: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

impl Watcher {
    /// The next event, and whoever waits for the one after it.
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        let over = |last: &mut MigrationBody| last.migration.value.is_over();
        if let Some(last) = self.last.take_if(over) {
            return Some((event("end", &last), None));
        }
        let mut ending = self.ending.clone();
        let quiet = tokio::time::sleep(SIGN_OF_LIFE);
        tokio::pin!(quiet);
        let mut pause = self.last.is_some();
        loop {
            if std::mem::replace(&mut pause, true) {
                tokio::time::sleep(BREATH).await;
            }
            // Whoever asks again is told why it cannot be read.
            let revision = self.plane.registry().revision().await.ok()?;
            let now = show(&self.plane, &self.id).await.ok()?;
            if self.last.as_ref() != Some(&now) {
                self.listen_to(&now.execution_id)?;
                let told = event("migration", &now);
                self.last = Some(now);
                return Some((told, Some(self)));
            }
            tokio::select! {
                () = self.changed(revision) => {}
                () = &mut quiet => {
                    let known = tokens::authenticate(&self.plane, &self.secret).await;
                    // That it cannot be judged right now is no reason to go.
                    if matches!(known, Ok(None)) {
                        return None;
                    }
                    return Some((Bytes::from_static(STILL_HERE), Some(self)));
                }
                () = told_to_go(&mut ending) => return None,
            }
        }
    }

    fn listen_to(&mut self, execution: &str) -> Option<()> {
        if self
            .execution
            .as_ref()
            .is_none_or(|(id, _)| id != execution)
        {
            let watch = running(&self.plane).ok()?.engine().watch(execution);
            self.execution = Some((execution.to_owned(), watch));
        }
        Some(())
    }

    /// Returns when something may have changed.
    async fn changed(&mut self, revision: u64) {
        let execution = &mut self.execution;
        let worked_on = async {
            let changed = match execution {
                Some((_, watch)) => watch.next().await,
                None => Ok(None),
            };
            // It is not there yet, is over, or cannot be read right now.
            if !matches!(changed, Ok(Some(_))) {
                tokio::time::sleep(AGAIN).await;
            }
        };
        let written = async {
            if self.plane.registry().wait_past(revision).await.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::select! {
            () = worked_on => {}
            () = written => {}
        }
    }
}
