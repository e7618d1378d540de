//! Creating a key.

use ballast_domain::bounds::KEYS_PER_TENANT_MAX;
use ballast_domain::credential::{Credential, Purpose};
use ballast_domain::error::ErrorCode;
use ballast_domain::key::{ApiKey, KeyMode, Scope};
use ballast_domain::registry::{CommitError, Expect, Kind, RecordKey, hash_term, keys_of};
use ballast_domain::tenant::TenantStatus;
use ballast_domain::{Error, KeyId, Result, TenantId, Timestamp};
use serde::Deserialize;

use super::{NewKeyBody, fresh_body};
use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;
use crate::{tenants, validate};

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
}

/// Creates a key and returns the secret, this once.
pub async fn create(
    plane: &ControlPlane,
    intent: &Intent,
    tenant_id: &TenantId,
    new: &NewKey,
) -> Result<NewKeyBody> {
    let tenant = tenants::get(plane, tenant_id).await?;
    if tenant.value.status == TenantStatus::Closed {
        let detail = format!("tenant {:?} is closed", tenant_id.as_str());
        return Err(Error::new(ErrorCode::TenantClosed, detail));
    }
    let (key, secret) = drawn(plane, tenant_id, new)?;
    let body = fresh_body(plane, key, &secret);
    let writes = vec![typed::create(
        &body.body.key.value,
        vec![hash_term(&secret.hash())],
    )?];
    // Only a closed tenant matters here, but any change of it in between is
    // rare enough to be asked again.
    let expects = vec![
        Expect::Version(
            RecordKey::new(Kind::Tenant, tenant_id.as_str()),
            tenant.version,
        ),
        Expect::TallyBelow(Kind::Key, keys_of(tenant_id.as_str()), KEYS_PER_TENANT_MAX),
    ];
    let commit = intent.create(plane, "key.create", writes, expects, &body)?;
    match plane.registry().commit(commit).await {
        Ok(_) => Ok(body),
        Err(CommitError::LimitReached { limit, .. }) => Err(Error::new(
            ErrorCode::TooMany,
            format!(
                "tenant {:?} has {limit} keys, which is the most it may have",
                tenant_id.as_str()
            ),
        )),
        Err(other) => Err(commit_failed(other)),
    }
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
    if let Some(moment) = new.expires_at {
        validate::future("/expiresAt", moment, plane.now())?;
    }
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
        expires_at: new.expires_at,
        revoked_at: None,
        replaced_by: None,
    };
    Ok((key, secret))
}
