//! Creating a key.

use ballast_domain::bounds::KEYS_PER_TENANT_MAX;
use ballast_domain::credential::{Credential, Purpose};
use ballast_domain::error::ErrorCode;
use ballast_domain::key::{ApiKey, KeyMode, KeyScope, KeyStatus};
use ballast_domain::registry::{
    CommitError, Precondition, RecordKey, RecordKind, RecordQuery, RecordWrite, hash_term,
    live_keys_tally,
};
use ballast_domain::tenant::TenantStatus;
use ballast_domain::{Error, KeyId, Result, TenantId, Timestamp};
use serde::Deserialize;

use super::{NewKeyBody, new_key_body};
use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::{tenants, validate};

/// Retries after the tenant changed concurrently.
const ATTEMPTS: usize = 64;

/// A request to create a key.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewKey {
    /// Its display name.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// Its scopes; all when absent.
    #[schema(min_items = 1, max_items = 3)]
    pub scopes: Option<Vec<KeyScope>>,
    /// Whether it is a test key.
    #[serde(default)]
    pub test: bool,
    /// When it expires; never when absent.
    pub expires_at: Option<Timestamp>,
    /// After how many seconds it expires, instead of `expiresAt`.
    #[schema(minimum = 1, maximum = 3_153_600_000_i64)]
    pub expires_in_seconds: Option<i64>,
}

/// Creates a key and returns its secret, which is shown only once.
pub async fn create(
    plane: &ControlPlane,
    intent: &Intent,
    tenant_id: &TenantId,
    new: &NewKey,
) -> Result<NewKeyBody> {
    let (key, secret) = generate_key(plane, tenant_id, new)?;
    let body = new_key_body(plane, key, &secret);
    let write = typed::create(&body.body.key.value, vec![hash_term(&secret.hash())])?;
    let _turn = plane.lock_subject(tenant_id.as_str()).await;
    commit_new(plane, intent, "key.create", tenant_id, vec![write], &body).await?;
    Ok(body)
}

/// Commits the creation of a key for an open tenant with room for it. The caller
/// holds the tenant's lock.
pub(super) async fn commit_new(
    plane: &ControlPlane,
    intent: &Intent,
    action: &'static str,
    tenant_id: &TenantId,
    writes: Vec<RecordWrite>,
    body: &NewKeyBody,
) -> Result<()> {
    let mut swept = false;
    for _ in 0..ATTEMPTS {
        let tenant = open_tenant_version(plane, tenant_id).await?;
        let live = live_keys_tally(tenant_id.as_str());
        let expects = vec![
            Precondition::Version(
                RecordKey::new(RecordKind::Tenant, tenant_id.as_str()),
                tenant,
            ),
            Precondition::TallyBelow(RecordKind::Key, live, KEYS_PER_TENANT_MAX),
        ];
        let commit = intent.create(plane, action, writes.clone(), expects, body)?;
        match plane.registry().commit(commit).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { key, .. }) if key.kind == RecordKind::Tenant => {}
            Err(CommitError::Conflict { key, .. }) => {
                let detail = format!("key {} was changed by someone else meanwhile", key.id);
                return Err(Error::new(ErrorCode::Changed, detail));
            }
            // Expired keys count until they are swept.
            Err(CommitError::LimitReached { .. }) if !swept => {
                sweep_expired(plane, tenant_id).await?;
                swept = true;
            }
            Err(CommitError::LimitReached { limit, .. }) => {
                let detail = format!(
                    "tenant {:?} already has {limit} active keys",
                    tenant_id.as_str()
                );
                return Err(Error::new(ErrorCode::TooMany, detail)
                    .with_next_step("Revoke the keys that are no longer needed."));
            }
            Err(other) => return Err(commit_failed(other)),
        }
    }
    Err(Error::new(ErrorCode::Busy, "the tenant kept changing").retry_after(1))
}

/// The version of a tenant, unless it is closed.
async fn open_tenant_version(plane: &ControlPlane, id: &TenantId) -> Result<u64> {
    let tenant = tenants::get(plane, id).await?;
    if tenant.value.status == TenantStatus::Closed {
        let detail = format!("tenant {:?} is closed", id.as_str());
        return Err(Error::new(ErrorCode::TenantClosed, detail));
    }
    Ok(tenant.version)
}

/// Revokes a tenant's expired keys, so that they no longer count.
async fn sweep_expired(plane: &ControlPlane, tenant_id: &TenantId) -> Result<()> {
    let now = plane.now();
    let query = RecordQuery {
        terms: vec![live_keys_tally(tenant_id.as_str())],
        ..RecordQuery::all(
            RecordKind::Key,
            u32::try_from(KEYS_PER_TENANT_MAX).unwrap_or(u32::MAX),
        )
    };
    let keys: Vec<Versioned<ApiKey>> = typed::list(plane.registry(), &query).await?;
    let expired = keys
        .into_iter()
        .filter(|key| key.value.status(now) == KeyStatus::Expired);
    let writes: Result<Vec<RecordWrite>> = expired
        .map(|key| {
            let over = ApiKey {
                revoked_at: Some(now),
                ..key.value
            };
            Ok(typed::update_keeping_terms(key.version, &over)?)
        })
        .collect();
    let writes = writes?;
    if !writes.is_empty() {
        let intent = Intent::ballast("keys", "expired keys make room for new ones");
        let commit = intent.commit("key.sweep", writes, Vec::new());
        plane
            .registry()
            .commit(commit)
            .await
            .map_err(commit_failed)?;
    }
    Ok(())
}

/// Generates and checks a key.
pub(super) fn generate_key(
    plane: &ControlPlane,
    tenant_id: &TenantId,
    new: &NewKey,
) -> Result<(ApiKey, Credential)> {
    if let Some(name) = &new.name {
        validate::name("/name", name)?;
    }
    let expires_at = validate::expiry(new.expires_at, new.expires_in_seconds, plane.now())?;
    let mut scopes = new.scopes.clone().unwrap_or_else(|| KeyScope::ALL.to_vec());
    if scopes.is_empty() {
        return Err(Error::invalid_field(
            "/scopes",
            "a key needs at least one scope",
        ));
    }
    scopes.sort_unstable();
    scopes.dedup();
    let (purpose, mode) = if new.test {
        (Purpose::TestKey, KeyMode::Test)
    } else {
        (Purpose::LiveKey, KeyMode::Live)
    };
    let secret = Credential::generate(purpose, plane.entropy());
    let key = ApiKey {
        key_id: KeyId::random(plane.entropy()),
        tenant_id: tenant_id.clone(),
        name: new.name.clone(),
        hint: secret.hint(),
        mode,
        scopes,
        created_at: plane.now(),
        expires_at,
        revoked_at: None,
        replaced_by: None,
        throttle: None,
    };
    Ok((key, secret))
}
