//! `/migrations`, and `/tenants/{tenantID}/move`

use std::convert::Infallible;
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_domain::certificate::Signed;
use ballast_domain::migration::Status;
use ballast_domain::token::Role;
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use ballast_web::ApiError;
use ballast_web::body::Nothing;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::{Deserialize, Serialize};

use super::answer::{Answer, accepted, replayed_as, tagged};
use super::caller::Viewer;
use super::request::{
    AsAdmin, AsViewer, Change, Id, IdempotencyHeader, IfMatchHeader, Payload, Reason,
};
use crate::migrations::ask::{self, Ask};
use crate::migrations::begin::{self, NewMove};
use crate::migrations::body::{MigrationBody, move_id};
use crate::migrations::plan::{self, MovePlan};
use crate::migrations::{self, MigrationFilter, movers};
use crate::plane::ControlPlane;

impl Payload for NewMove {
    fn needs(&self) -> Option<Role> {
        (!self.dry_run).then_some(Role::Operator)
    }
}

/// A move's name in a path: whatever it is, there is such a move or not.
pub(super) struct Named(pub(super) String);

impl FromStr for Named {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// Move a slice of a tenant to another shard while it is being voted on.
///
/// It is answered as soon as it is written down; what becomes of it is seen at
/// `GET /migrations/{migrationID}`. With `dryRun` it is only said what would
/// be done, and what it would cost; a viewer may ask that.
#[utoipa::path(post, path = "/tenants/{tenantID}/move", tag = "migrations",
    params(("tenantID" = TenantId, Path), Reason, IdempotencyHeader), request_body = NewMove,
    responses((status = 202, body = MigrationBody), (status = 200, body = MovePlan)))]
pub(super) async fn begin(
    State(plane): State<ControlPlane>,
    Id(tenant): Id<TenantId>,
    change: Change<NewMove, AsViewer>,
) -> Answer {
    let Change { intent, body, .. } = change;
    if body.dry_run {
        let plan = plan::plan(&plane, &tenant, &body).await?;
        return Ok(Json(plan).into_response());
    }
    if let Some(answer) = replayed_as(&plane, &intent, StatusCode::ACCEPTED).await? {
        return Ok(answer);
    }
    let made = begin::begin(&plane, &intent, &tenant, &body).await;
    accepted(&plane, &intent, made).await
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only those of this tenant.
    tenant: Option<TenantId>,
    /// Only those that leave this shard.
    from: Option<ShardId>,
    /// Only those that come to this shard.
    to: Option<ShardId>,
    /// Only those that are not over, or only those that are.
    open: Option<bool>,
    /// Only those that stand so.
    #[param(inline)]
    status: Option<Status>,
    /// How many at the most; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// List moves, the newest first.
#[utoipa::path(get, path = "/migrations", tag = "migrations", params(Filter),
    responses((status = 200, body = Page<MigrationBody>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<Filter>,
) -> Result<Json<Page<MigrationBody>>, ApiError> {
    let limit = page::limit(filter.limit)?;
    let after = page::after(filter.cursor.as_deref())?;
    let filter = MigrationFilter {
        tenant: filter.tenant,
        from: filter.from,
        to: filter.to,
        open: filter.open,
        status: filter.status,
    };
    let found = migrations::list(&plane, &filter, after, limit + 1).await?;
    let id = |body: &MigrationBody| body.migration.value.migration_id.clone();
    Ok(Json(Page::of(found, limit, id)))
}

/// Show a move: how it stands, how far it is, what was measured.
#[utoipa::path(get, path = "/migrations/{migrationID}", tag = "migrations",
    params(("migrationID" = String, Path)), responses((status = 200, body = MigrationBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
) -> Answer {
    let body = migrations::show(&plane, &move_id(&id)?).await?;
    Ok(tagged(body.migration.version, &body))
}

/// Show the certificate of a move that is over: what it proves, signed.
#[utoipa::path(get, path = "/migrations/{migrationID}/certificate", tag = "migrations",
    params(("migrationID" = String, Path)), responses((status = 200, body = Signed)))]
pub(super) async fn certificate(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
) -> Result<Json<Signed>, ApiError> {
    let found = migrations::get(&plane, &move_id(&id)?).await?;
    let signed = found.value.certificate.ok_or_else(|| {
        let detail = format!("move {id} has no certificate: it is not over");
        let error = Error::new(ErrorCode::NotFound, detail);
        error.next("Follow the move until it is over (GET /migrations/{migrationID}/watch).")
    })?;
    Ok(Json(signed))
}

/// Who signs certificates.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CertificateKey {
    /// The ed25519 public key, in base64.
    public_key: String,
}

/// Show the public key that certificates are signed with.
#[utoipa::path(get, path = "/certificate-key", tag = "migrations",
    responses((status = 200, body = CertificateKey)))]
pub(super) async fn certificate_key(
    _: Viewer,
    State(plane): State<ControlPlane>,
) -> Result<Json<CertificateKey>, ApiError> {
    let public_key = movers(&plane)?.notary.public_key();
    Ok(Json(CertificateKey { public_key }))
}

async fn asked<T, R>(plane: &ControlPlane, id: &str, change: Change<T, R>, what: Ask) -> Answer {
    let Change {
        intent, if_match, ..
    } = change;
    let body = ask::ask(plane, &intent, &move_id(id)?, &if_match, what).await?;
    Ok(tagged(body.migration.version, &body))
}

/// Have a move not go on for now. Nothing that it holds keeps votes out.
#[utoipa::path(post, path = "/migrations/{migrationID}/pause", tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, body = MigrationBody)))]
pub(super) async fn pause(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Nothing>,
) -> Answer {
    asked(&plane, &id, change, Ask::Pause).await
}

/// Have a paused move go on.
#[utoipa::path(post, path = "/migrations/{migrationID}/resume", tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, body = MigrationBody)))]
pub(super) async fn resume(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Nothing>,
) -> Answer {
    asked(&plane, &id, change, Ask::Resume).await
}

/// Call a move off before its cutover: everything is as it was.
#[utoipa::path(post, path = "/migrations/{migrationID}/cancel", tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, body = MigrationBody)))]
pub(super) async fn cancel(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Nothing>,
) -> Answer {
    asked(&plane, &id, change, Ask::Cancel).await
}

/// How a slice is to be brought back.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Reversal {
    /// Whether what only the target has may be given up, if that shard is away
    /// for good. It needs the role `admin` and a reason, and is refused as long
    /// as the slice can be brought back with all votes.
    accept_loss: bool,
}

impl Payload for Reversal {
    const REQUIRED: bool = false;

    fn needs(&self) -> Option<Role> {
        self.accept_loss.then_some(Role::Admin)
    }
}

/// Bring a slice back within the window after its cutover, with all votes.
///
/// With `acceptLoss` it is brought back without its target, if that cannot be
/// sealed and drained: what it took and had not been streamed back is given up,
/// and the certificate says so.
#[utoipa::path(post, path = "/migrations/{migrationID}/reverse", tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    request_body = Option<Reversal>, responses((status = 200, body = MigrationBody)))]
pub(super) async fn reverse(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Reversal>,
) -> Answer {
    let what = match change.body.accept_loss {
        true => Ask::AcceptLoss,
        false => Ask::Reverse,
    };
    asked(&plane, &id, change, what).await
}

/// How a window is to end.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Completion {
    /// Whether it may end although the source is away: both sides are not compared
    /// a last time, and the source's copy is removed when it answers again.
    without_source: bool,
}

impl Payload for Completion {
    const REQUIRED: bool = false;
}

/// End a move's window now: the source's copy is removed.
#[utoipa::path(post, path = "/migrations/{migrationID}/complete", tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    request_body = Option<Completion>, responses((status = 200, body = MigrationBody)))]
pub(super) async fn complete(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Completion>,
) -> Answer {
    let what = match change.body.without_source {
        true => Ask::WithoutSource,
        false => Ask::Complete,
    };
    asked(&plane, &id, change, what).await
}

/// Approve a move that is too large to begin without.
#[utoipa::path(post, path = "/migrations/{migrationID}/approve", tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, body = MigrationBody)))]
pub(super) async fn approve(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Nothing>,
) -> Answer {
    asked(&plane, &id, change, Ask::Approve).await
}

/// Remove the copy that was given up when a move was reversed without its target.
///
/// It is the only copy of what was given up. It is removed as soon as its shard
/// answers; then slices of the tenant can be moved to that shard again.
#[utoipa::path(post, path = "/migrations/{migrationID}/discard", tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, body = MigrationBody)))]
pub(super) async fn discard(
    State(plane): State<ControlPlane>,
    Id(Named(id)): Id<Named>,
    change: Change<Nothing, AsAdmin>,
) -> Answer {
    asked(&plane, &id, change, Ask::Discard).await
}
