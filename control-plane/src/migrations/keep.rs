//! The moves' own records, for those who work on them.

use async_trait::async_trait;
use ballast_domain::certificate::{Certificate, Signed};
use ballast_domain::migration::Migration;
use ballast_domain::moving::MoveId;
use ballast_domain::registry::{CommitError, StoreError};
use ballast_domain::{Actor, Error, error::Kind};
use ballast_migration_engine::ports::{Admission, Edit, Moves, MovesError, Pace, Wanted};

use super::begin::{NewMove, written};
use super::{Movers, admit};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// The moves' records in the registry.
#[derive(Clone)]
pub struct Kept {
    plane: ControlPlane,
}

impl Kept {
    /// Those of this control plane.
    #[must_use]
    pub fn new(plane: ControlPlane) -> Self {
        Self { plane }
    }
}

/// What may pass is asked for again; what is refused stays so.
fn told(error: Error) -> MovesError {
    match error.code().kind() {
        Kind::Unavailable | Kind::Internal | Kind::TooMany => {
            MovesError::Store(StoreError::new("use a move's record", error))
        }
        _ => MovesError::Refused(error.to_string()),
    }
}

#[async_trait]
impl Moves for Kept {
    async fn open(&self, id: &MoveId, wanted: &Wanted) -> Result<Migration, MovesError> {
        if let Some(there) = self.read(id).await? {
            return Ok(there);
        }
        let new = NewMove {
            to: wanted.to.clone(),
            from: wanted.from.clone(),
            slice: wanted.slice,
            window_ms: wanted.window_ms,
            sync: wanted.sync,
            max_pause_ms: wanted.max_pause_ms,
            passed_over: wanted.passed_over.clone(),
            dry_run: false,
        };
        let intent = Intent {
            actor: Actor::ballast("workflow"),
            reason: wanted.reason.clone(),
            idempotency: None,
        };
        let written = written(&self.plane, &intent, id, &wanted.tenant_id, &new).await;
        written.map(|found| found.value).map_err(told)
    }

    async fn read(&self, id: &MoveId) -> Result<Option<Migration>, StoreError> {
        let found = typed::get::<Migration>(self.plane.registry(), &id.0).await?;
        Ok(found.map(|found| found.value))
    }

    async fn change(
        &self,
        id: &MoveId,
        action: &'static str,
        edit: Edit<'_>,
    ) -> Result<Migration, MovesError> {
        loop {
            let found = typed::get::<Migration>(self.plane.registry(), &id.0).await?;
            let found =
                found.ok_or_else(|| MovesError::Refused(format!("there is no move {id}")))?;
            let mut then = found.value.clone();
            edit(&mut then);
            if then == found.value {
                return Ok(then);
            }
            let intent = Intent {
                actor: Actor::ballast("move"),
                reason: None,
                idempotency: None,
            };
            let write = typed::update(found.version, &then)?;
            let commit = intent.commit(action, vec![write], Vec::new());
            match self.plane.registry().commit(commit).await {
                Ok(_) => return Ok(then),
                Err(CommitError::Store(error)) => return Err(error.into()),
                // Somebody changed it meanwhile.
                Err(_) => {}
            }
        }
    }

    async fn admit(&self, migration: &Migration) -> Result<Admission, MovesError> {
        admit::admit(&self.plane, migration).await.map_err(told)
    }

    async fn held(&self, migration: &Migration) -> Result<Option<String>, MovesError> {
        Ok(admit::frozen(&self.plane, migration))
    }

    fn pace(&self) -> Pace {
        let settings = self.plane.settings();
        Pace {
            bytes_per_second: settings.moves.bytes_per_second,
            seal_max_ms: settings.moves.seal_max_ms,
            archive_rows_min: settings.moves.archive_rows_min,
            budget: settings.moves.budget,
        }
    }

    fn sign(&self, certificate: Certificate) -> Option<Signed> {
        let movers: Option<&Movers> = self.plane.movers();
        movers.map(|movers| movers.notary.sign(certificate))
    }
}
