//! Creating a key.

use ballast_domain::bounds::KEYS_PER_TENANT_MAX;
use ballast_domain::credential::{Credential, Purpose};
use ballast_domain::error::ErrorCode;
use ballast_domain::key::{ApiKey, KeyMode, KeyStatus, Scope};
use ballast_domain::registry::{
    CommitError, Expect, Kind, RecordKey, RecordQuery, Write, hash_term, live_keys_of,
};
use ballast_domain::tenant::TenantStatus;
use ballast_domain::{Error, KeyId, Result, TenantId, Timestamp};
use serde::Deserialize;

use super::{NewKeyBody, fresh_body};
use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::{tenants, validate};

/// How often a commit is made anew because the tenant changed meanwhile.
const ATTEMPTS: usize = 64;

/// What a caller says of a new key.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewKey {
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// What it may do; all of it when absent.
    #[schema(min_items = 1, max_items = 3)]
    pub scopes: Option<Vec<Scope>>,
    /// A key for trying things out.
    #[serde(default)]
    pub test: bool,
    /// When it stops working; never when absent.
    pub expires_at: Option<Timestamp>,
    /// After how many seconds it stops working, instead of `expiresAt`.
    #[schema(minimum = 1, maximum = 3_153_600_000_i64)]
    pub expires_in_seconds: Option<i64>,
}

/// Creates a key and returns the secret, this once.
pub async fn create(
    plane: &ControlPlane,
    intent: &Intent,
    tenant_id: &TenantId,
    new: &NewKey,
) -> Result<NewKeyBody> {
    let (key, secret) = drawn(plane, tenant_id, new)?;
    let body = fresh_body(plane, key, &secret);
    let write = typed::create(&body.body.key.value, vec![hash_term(&secret.hash())])?;
    let _turn = plane.turn(tenant_id.as_str()).await;
    commit_new(plane, intent, "key.create", tenant_id, vec![write], &body).await?;
    Ok(body)
}

/// Commits writes that make a key of an open tenant with room for it. The
/// caller has the tenant's turn.
pub(super) async fn commit_new(
    plane: &ControlPlane,
    intent: &Intent,
    action: &'static str,
    tenant_id: &TenantId,
    writes: Vec<Write>,
    body: &NewKeyBody,
) -> Result<()> {
    let mut swept = false;
    for _ in 0..ATTEMPTS {
        let tenant = open_tenant(plane, tenant_id).await?;
        let live = live_keys_of(tenant_id.as_str());
        let expects = vec![
            Expect::Version(RecordKey::new(Kind::Tenant, tenant_id.as_str()), tenant),
            Expect::TallyBelow(Kind::Key, live, KEYS_PER_TENANT_MAX),
        ];
        let commit = intent.create(plane, action, writes.clone(), expects, body)?;
        match plane.registry().commit(commit).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { key, .. }) if key.kind == Kind::Tenant => {}
            Err(CommitError::Conflict { key, .. }) => {
                let detail = format!("key {} was changed by someone else meanwhile", key.id);
                return Err(Error::new(ErrorCode::Changed, detail));
            }
            // Keys that have expired count until they are swept.
            Err(CommitError::LimitReached { .. }) if !swept => {
                sweep_expired(plane, tenant_id).await?;
                swept = true;
            }
            Err(CommitError::LimitReached { limit, .. }) => {
                let detail = format!("tenant {:?} has {limit} keys that work", tenant_id.as_str());
                return Err(Error::new(ErrorCode::TooMany, detail)
                    .next("Revoke the keys that are no longer needed."));
            }
            Err(other) => return Err(commit_failed(other)),
        }
    }
    Err(Error::new(ErrorCode::Busy, "the tenant kept changing").retry_after(1))
}

/// The version of a tenant that is not closed.
async fn open_tenant(plane: &ControlPlane, id: &TenantId) -> Result<u64> {
    let tenant = tenants::get(plane, id).await?;
    if tenant.value.status == TenantStatus::Closed {
        let detail = format!("tenant {:?} is closed", id.as_str());
        return Err(Error::new(ErrorCode::TenantClosed, detail));
    }
    Ok(tenant.version)
}

/// Notes of a tenant's expired keys that they are over, so that they no
/// longer count.
async fn sweep_expired(plane: &ControlPlane, tenant_id: &TenantId) -> Result<()> {
    let now = plane.now();
    let query = RecordQuery {
        terms: vec![live_keys_of(tenant_id.as_str())],
        ..RecordQuery::all(
            Kind::Key,
            u32::try_from(KEYS_PER_TENANT_MAX).unwrap_or(u32::MAX),
        )
    };
    let keys: Vec<Versioned<ApiKey>> = typed::list(plane.registry(), &query).await?;
    let expired = keys
        .into_iter()
        .filter(|key| key.value.status(now) == KeyStatus::Expired);
    let writes: Result<Vec<Write>> = expired
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

/// Draws a key of this description, checked.
pub(super) fn drawn(
    plane: &ControlPlane,
    tenant_id: &TenantId,
    new: &NewKey,
) -> Result<(ApiKey, Credential)> {
    if let Some(name) = &new.name {
        validate::name("/name", name)?;
    }
    let expires_at = validate::expiry(new.expires_at, new.expires_in_seconds, plane.now())?;
    let mut scopes = new.scopes.clone().unwrap_or_else(|| Scope::ALL.to_vec());
    if scopes.is_empty() {
        return Err(Error::invalid_field(
            "/scopes",
            "a key without scopes can do nothing",
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
