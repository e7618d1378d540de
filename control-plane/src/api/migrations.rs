//! `/migrations`, and `/tenants/{tenantID}/move`

use std::convert::Infallible;
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_domain::certificate::SignedCertificate;
use ballast_domain::migration::MigrationStatus;
use ballast_domain::token::AdminRole;
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::{Deserialize, Serialize};

use super::caller::Viewer;
use super::request::{
    AsAdmin, AsViewer, Change, Id, IdempotencyHeader, IfMatchHeader, Payload, Reason,
};
use super::response::{ApiResponse, replay, reply_accepted, with_etag};
use crate::migrations::begin::{self, NewMigration};
use crate::migrations::body::{MigrationBody, parse_migration_id};
use crate::migrations::commands::{self, MigrationCommand};
use crate::migrations::plan::{self, MigrationPlan};
use crate::migrations::{self, MigrationFilter, migration_backends};
use crate::plane::ControlPlane;

impl Payload for NewMigration {
    fn required_role(&self) -> Option<AdminRole> {
        (!self.dry_run).then_some(AdminRole::Operator)
    }
}

/// An id in a path, not validated yet.
pub(super) struct RecordName(pub(super) String);

impl FromStr for RecordName {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// Move a tenant's slice to another shard while it accepts votes.
///
/// The response is sent as soon as the migration is recorded; follow it at
/// `GET /migrations/{migrationID}`. With `dryRun`, the response only describes what
/// would be done and its cost; this is open to viewers.
#[utoipa::path(post, path = "/tenants/{tenantID}/move", operation_id = "moveTenant",
    tag = "migrations",
    params(("tenantID" = TenantId, Path), Reason, IdempotencyHeader), request_body = NewMigration,
    responses(
        (status = 202, description = "The migration is recorded and begins", body = MigrationBody),
        (status = 200, description = "What would be done (`dryRun`)", body = MigrationPlan)))]
pub(super) async fn begin(
    State(plane): State<ControlPlane>,
    Id(tenant): Id<TenantId>,
    change: Change<NewMigration, AsViewer>,
) -> ApiResponse {
    let Change { intent, body, .. } = change;
    if body.dry_run {
        let plan = plan::plan(&plane, &tenant, &body).await?;
        return Ok(Json(plan).into_response());
    }
    if let Some(answer) = replay(&plane, &intent, StatusCode::ACCEPTED).await? {
        return Ok(answer);
    }
    let made = begin::begin(&plane, &intent, &tenant, &body).await;
    reply_accepted(&plane, &intent, made).await
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct MigrationQuery {
    /// Only migrations of this tenant.
    tenant: Option<TenantId>,
    /// Only migrations away from this shard.
    from: Option<ShardId>,
    /// Only migrations to this shard.
    to: Option<ShardId>,
    /// Only open migrations, or only ended ones.
    open: Option<bool>,
    /// Only migrations with this status.
    #[param(inline)]
    status: Option<MigrationStatus>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List migrations, newest first.
#[utoipa::path(get, path = "/migrations", operation_id = "listMigrations",
    tag = "migrations", params(MigrationQuery),
    responses((status = 200, description = "A page of migrations", body = Page<MigrationBody>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<MigrationQuery>,
) -> Result<Json<Page<MigrationBody>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let after = page::parse_cursor(filter.cursor.as_deref())?;
    let filter = MigrationFilter {
        tenant: filter.tenant,
        from: filter.from,
        to: filter.to,
        open: filter.open,
        status: filter.status,
    };
    let found = migrations::list(&plane, &filter, after, limit + 1).await?;
    let id = |body: &MigrationBody| body.migration.value.migration_id.clone();
    Ok(Json(Page::from_items(found, limit, id)))
}

/// Show a migration: status, progress and measurements.
#[utoipa::path(get, path = "/migrations/{migrationID}", operation_id = "getMigration",
    tag = "migrations",
    params(("migrationID" = String, Path)),
    responses((status = 200, description = "The migration", body = MigrationBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
) -> ApiResponse {
    let body = migrations::show(&plane, &parse_migration_id(&id)?).await?;
    Ok(with_etag(body.migration.version, &body))
}

/// Show the signed certificate of an ended migration.
#[utoipa::path(get, path = "/migrations/{migrationID}/certificate", operation_id = "getCertificate",
    tag = "migrations",
    params(("migrationID" = String, Path)),
    responses((status = 200, description = "The certificate and its signature",
        body = SignedCertificate)))]
pub(super) async fn certificate(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
) -> Result<Json<SignedCertificate>, ApiError> {
    let found = migrations::get(&plane, &parse_migration_id(&id)?).await?;
    let signed = found.value.certificate.ok_or_else(|| {
        let detail = format!("migration {id} has no certificate: it has not ended");
        let error = Error::new(ErrorCode::NotFound, detail);
        error.with_next_step(
            "Follow the migration until it ends (GET /migrations/{migrationID}/watch).",
        )
    })?;
    Ok(Json(signed))
}

/// The key that certificates are signed with.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CertificateKey {
    /// The ed25519 public key, in base64.
    public_key: String,
}

/// Show the public key that certificates are signed with.
#[utoipa::path(get, path = "/certificate-key", operation_id = "getCertificateKey",
    tag = "migrations",
    responses((status = 200, description = "The public key", body = CertificateKey)))]
pub(super) async fn certificate_key(
    _: Viewer,
    State(plane): State<ControlPlane>,
) -> Result<Json<CertificateKey>, ApiError> {
    let public_key = migration_backends(&plane)?.signer.public_key();
    Ok(Json(CertificateKey { public_key }))
}

async fn run_command<T, R>(
    plane: &ControlPlane,
    id: &str,
    change: Change<T, R>,
    what: MigrationCommand,
) -> ApiResponse {
    let Change {
        intent, if_match, ..
    } = change;
    let body =
        commands::apply_command(plane, &intent, &parse_migration_id(id)?, &if_match, what).await?;
    Ok(with_etag(body.migration.version, &body))
}

/// Pause a migration. A paused migration never blocks votes.
#[utoipa::path(post, path = "/migrations/{migrationID}/pause", operation_id = "pauseMigration",
    tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The paused migration", body = MigrationBody)))]
pub(super) async fn pause(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    run_command(&plane, &id, change, MigrationCommand::Pause).await
}

/// Resume a paused migration.
#[utoipa::path(post, path = "/migrations/{migrationID}/resume", operation_id = "resumeMigration",
    tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The resumed migration", body = MigrationBody)))]
pub(super) async fn resume(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    run_command(&plane, &id, change, MigrationCommand::Resume).await
}

/// Cancel a migration before its cutover; everything stays as it was.
#[utoipa::path(post, path = "/migrations/{migrationID}/cancel", operation_id = "cancelMigration",
    tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The cancelled migration", body = MigrationBody)))]
pub(super) async fn cancel(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<EmptyBody>,
) -> ApiResponse {
    run_command(&plane, &id, change, MigrationCommand::Cancel).await
}

/// How to bring a slice back.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Reversal {
    /// Whether what only the target has may be lost, if that shard is gone for good.
    /// Requires the role `admin` and a reason; rejected while the slice can still be
    /// brought back with all votes.
    accept_loss: bool,
}

impl Payload for Reversal {
    const REQUIRED: bool = false;

    fn required_role(&self) -> Option<AdminRole> {
        self.accept_loss.then_some(AdminRole::Admin)
    }
}

/// Bring a slice back within the dual-read window, with all votes.
///
/// With `acceptLoss`, bring it back without a target that cannot be sealed and
/// drained: votes that it took and that were not streamed back are lost, and the
/// certificate says so.
#[utoipa::path(post, path = "/migrations/{migrationID}/reverse", operation_id = "reverseMigration",
    tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    request_body = Option<Reversal>,
    responses((status = 200, description = "The migration, which goes back",
        body = MigrationBody)))]
pub(super) async fn reverse(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<Reversal>,
) -> ApiResponse {
    let what = match change.body.accept_loss {
        true => MigrationCommand::AcceptLoss,
        false => MigrationCommand::Reverse,
    };
    run_command(&plane, &id, change, what).await
}

/// How to end a dual-read window.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Completion {
    /// Whether the window may end while the source is unreachable: both copies are not
    /// compared a last time, and the source's copy is removed when it answers again.
    without_source: bool,
}

impl Payload for Completion {
    const REQUIRED: bool = false;
}

/// End the dual-read window now: the source's copy is removed.
#[utoipa::path(post, path = "/migrations/{migrationID}/complete",
    operation_id = "completeMigration",
    tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    request_body = Option<Completion>,
    responses((status = 200, description = "The migration, which completes",
        body = MigrationBody)))]
pub(super) async fn complete(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<Completion>,
) -> ApiResponse {
    let what = match change.body.without_source {
        true => MigrationCommand::WithoutSource,
        false => MigrationCommand::Complete,
    };
    run_command(&plane, &id, change, what).await
}

/// How to approve a migration.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct MigrationApproval {
    /// Whether it may begin outside of the maintenance windows, too. Requires a reason.
    now: bool,
}

impl Payload for MigrationApproval {
    const REQUIRED: bool = false;
}

/// Approve a migration that waits for approval, or with `now`, let a waiting migration
/// begin without waiting for a maintenance window.
#[utoipa::path(post, path = "/migrations/{migrationID}/approve", operation_id = "approveMigration",
    tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    request_body = Option<MigrationApproval>,
    responses((status = 200, description = "The approved migration", body = MigrationBody)))]
pub(super) async fn approve(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<MigrationApproval>,
) -> ApiResponse {
    let what = match change.body.now {
        true => MigrationCommand::StartNow,
        false => MigrationCommand::Approve,
    };
    run_command(&plane, &id, change, what).await
}

/// Discard the copy of a target that was abandoned.
///
/// It is the only copy of the lost votes. It is removed as soon as
/// its shard answers; then the tenant's slices can move to that shard again.
#[utoipa::path(post, path = "/migrations/{migrationID}/discard", operation_id = "discardMigration",
    tag = "migrations",
    params(("migrationID" = String, Path), Reason, IfMatchHeader),
    responses((status = 200, description = "The migration, whose copy is to be removed",
        body = MigrationBody)))]
pub(super) async fn discard(
    State(plane): State<ControlPlane>,
    Id(RecordName(id)): Id<RecordName>,
    change: Change<EmptyBody, AsAdmin>,
) -> ApiResponse {
    run_command(&plane, &id, change, MigrationCommand::Discard).await
}
