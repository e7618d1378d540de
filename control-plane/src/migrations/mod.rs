//! Moves, as operators see them: asked for, listed, shown, and asked things of.
//!
//! ```text
//!   begin     a move is asked for: checked, written down and claimed at once
//!   plan      what one would do, for those who only want to know
//!   ask       pause, resume, approve, cancel, reverse, complete
//!   accept_loss   whether what only the target has may be given up
//!   left_behind   the copies of which that was said
//!   body      what is shown of them
//!   admit     whose turn it is: limits, maintenance windows, approvals
//!   records   the slices' records, for those who work on moves
//!   keep      the moves' own records, for those who work on them
//!   price     what a move would cost
//!   notary    who signs certificates
//!   watchman  finds moves that nobody works on, and seals that have lasted
//! ```
//! The work itself is in the crate `ballast-migration-engine`, as the steps of
//! the workflow `move-tenant`.

mod accept_loss;
mod admit;
pub mod ask;
pub mod begin;
pub mod body;
mod keep;
mod left_behind;
pub mod notary;
pub mod plan;
pub mod price;
pub mod records;
pub mod settings;
pub mod watchman;

use std::sync::Arc;

use ballast_domain::error::did_you_mean;
use ballast_domain::migration::{Migration, OPEN, OVER, ended_so, moves_of};
use ballast_domain::moving::MoveId;
use ballast_domain::registry::{Kind, RecordQuery};
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use ballast_vote_shard::Shards;
use ballast_vote_shard::archive::Archives;

use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use notary::Notary;

use ballast_migration_engine::steps::FOR_RESUME;

pub use keep::Kept;
pub use settings::MoveSettings;

/// The workflow that moves a slice.
pub const WORKFLOW: &str = "move-tenant";

/// What moves need that the registry does not have.
pub struct Movers {
    /// Where the shards are.
    pub shards: Arc<dyn Shards>,
    /// Where the files of their closed polls are.
    pub archives: Arc<dyn Archives>,
    /// Who signs certificates.
    pub notary: Notary,
}

pub(crate) fn movers(plane: &ControlPlane) -> Result<&Movers> {
    plane.movers().ok_or_else(|| {
        let error = Error::new(ErrorCode::Unavailable, "moves are not possible yet");
        error.retry_after(1)
    })
}

/// Which moves to list.
#[derive(Debug, Clone, Default)]
pub struct MigrationFilter {
    /// Only those of this tenant.
    pub tenant: Option<TenantId>,
    /// Only those that leave this shard.
    pub from: Option<ShardId>,
    /// Only those that come to this shard.
    pub to: Option<ShardId>,
    /// Only those that are not over (`true`), or over (`false`).
    pub open: Option<bool>,
    /// Only those that stand so.
    pub status: Option<ballast_domain::migration::Status>,
}

impl MigrationFilter {
    fn terms(&self) -> Vec<String> {
        let mut terms = Vec::new();
        terms.extend(self.tenant.as_ref().map(moves_of));
        terms.extend(self.from.as_ref().map(|shard| format!("from:{shard}")));
        terms.extend(self.to.as_ref().map(|shard| format!("to:{shard}")));
        terms.extend(self.open.map(|open| match open {
            true => OPEN.to_owned(),
            false => OVER.to_owned(),
        }));
        terms.extend(self.status.map(|status| match status.is_end() {
            true => ended_so(status),
            // How it stands is known of its execution only.
            false => OPEN.to_owned(),
        }));
        terms
    }
}

/// A page of moves, the newest first: their names are in the order of their
/// beginning.
pub async fn list(
    plane: &ControlPlane,
    filter: &MigrationFilter,
    mut after: Option<String>,
    limit: u32,
) -> Result<Vec<body::MigrationBody>> {
    let mut bodies = Vec::new();
    loop {
        let query = RecordQuery {
            terms: filter.terms(),
            after,
            descending: true,
            ..RecordQuery::all(Kind::Migration, limit)
        };
        let found = typed::list::<Migration>(plane.registry(), &query).await?;
        let last = found.len() < limit as usize;
        after = found.last().map(|last| last.value.migration_id.0.clone());
        for migration in found {
            let body = body::shown(plane, migration).await?;
            if filter.status.is_none_or(|status| status == body.status) {
                bodies.push(body);
            }
        }
        if last || bodies.len() >= limit as usize {
            bodies.truncate(limit as usize);
            return Ok(bodies);
        }
    }
}

/// One move, as it is shown.
pub async fn show(plane: &ControlPlane, id: &MoveId) -> Result<body::MigrationBody> {
    body::shown(plane, get(plane, id).await?).await
}

/// One move's record.
pub async fn get(plane: &ControlPlane, id: &MoveId) -> Result<Versioned<Migration>> {
    let found = typed::get::<Migration>(plane.registry(), &id.0).await?;
    match found {
        Some(found) => Ok(found),
        None => Err(not_found(plane, id).await),
    }
}

async fn not_found(plane: &ControlPlane, id: &MoveId) -> Error {
    let open = RecordQuery {
        terms: vec![OPEN.to_owned()],
        ..RecordQuery::all(Kind::Migration, 100)
    };
    let known = typed::list::<Migration>(plane.registry(), &open).await;
    let known = known.unwrap_or_default();
    let names = known
        .iter()
        .map(|known| known.value.migration_id.0.as_str());
    let like = did_you_mean(&id.0, names);
    Error::new(
        ErrorCode::MigrationNotFound,
        format!("there is no move {:?}{like}", id.0),
    )
}
