//! API keys: create (shown once), list, update, rotate with overlap, revoke.

mod change;
mod create;
#[cfg(test)]
mod tests;

pub(crate) use change::throttle;
pub use change::{KeyPatch, Rotation, revoke, rotate, update};
pub use create::{NewKey, create};

use ballast_domain::credential::{Credential, Purpose, inspect};
use ballast_domain::error::ErrorCode;
use ballast_domain::key::{ApiKey, KeyStatus};
use ballast_domain::registry::{RecordKind, RecordQuery, hash_term, tenant_keys_term};
use ballast_domain::{Error, KeyId, Result, TenantId, Timestamp};
use serde::Serialize;

use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// A key with its current status.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyBody {
    /// The key.
    #[serde(flatten)]
    pub key: Versioned<ApiKey>,
    /// Its status.
    pub status: KeyStatus,
    /// When it was last used, to within a few seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

/// A new key, with the secret that is shown only once.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewKeyBody {
    /// The secret. It is not stored and cannot be shown again.
    #[schema(example = "bl_live_…")]
    pub key: String,
    /// The key's record.
    #[serde(flatten)]
    pub body: KeyBody,
    /// The key it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<KeyId>,
    /// When the replaced key stops working.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_ends_at: Option<Timestamp>,
}

/// One key.
pub async fn get(plane: &ControlPlane, id: &KeyId) -> Result<KeyBody> {
    let key = read(plane, id).await?;
    Ok(with_last_use(plane, vec![key]).await?.remove(0))
}

pub(crate) async fn read(plane: &ControlPlane, id: &KeyId) -> Result<Versioned<ApiKey>> {
    typed::get(plane.registry(), id.as_str())
        .await?
        .ok_or_else(|| {
            Error::new(
                ErrorCode::KeyNotFound,
                format!("there is no key {:?}", id.as_str()),
            )
        })
}

/// A page of keys, of one tenant or of all, ordered by id.
pub async fn list(
    plane: &ControlPlane,
    tenant: Option<&TenantId>,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<KeyBody>> {
    if let Some(tenant) = tenant {
        crate::tenants::get(plane, tenant).await?;
    }
    let query = RecordQuery {
        terms: tenant
            .map(|tenant| tenant_keys_term(tenant.as_str()))
            .into_iter()
            .collect(),
        after,
        ..RecordQuery::all(RecordKind::Key, limit)
    };
    with_last_use(plane, typed::list(plane.registry(), &query).await?).await
}

/// Identifies a secret: which tenant's key it is, and its status.
pub async fn identify(plane: &ControlPlane, secret: &str) -> Result<KeyBody> {
    let (purpose, hash) = inspect(secret.trim())
        .map_err(|bad| Error::invalid_field("/key", format!("this is not a Ballast key: {bad}")))?;
    if purpose == Purpose::AdminToken {
        let message = "this is an admin token, not an API key";
        return Err(Error::invalid_field("/key", message));
    }
    let found = typed::find(plane.registry(), hash_term(&hash))
        .await?
        .ok_or_else(|| {
            Error::new(
                ErrorCode::KeyNotFound,
                "the key is well formed but unknown here: it was created elsewhere",
            )
        })?;
    Ok(with_last_use(plane, vec![found]).await?.remove(0))
}

async fn with_last_use(plane: &ControlPlane, keys: Vec<Versioned<ApiKey>>) -> Result<Vec<KeyBody>> {
    let ids: Vec<String> = keys
        .iter()
        .map(|key| key.value.key_id.to_string())
        .collect();
    let uses = plane.registry().last_used(RecordKind::Key, &ids).await?;
    let now = plane.now();
    Ok(keys
        .into_iter()
        .map(|key| KeyBody {
            status: key.value.status(now),
            last_used_at: uses.get(key.value.key_id.as_str()).copied(),
            key,
        })
        .collect())
}

fn new_key_body(plane: &ControlPlane, key: ApiKey, secret: &Credential) -> NewKeyBody {
    NewKeyBody {
        key: secret.expose().to_owned(),
        body: KeyBody {
            status: key.status(plane.now()),
            last_used_at: None,
            key: Versioned {
                value: key,
                version: 1,
            },
        },
        replaces: None,
        overlap_ends_at: None,
    }
}
