//! Changing a key: update, throttle, rotate, revoke.

use ballast_domain::bounds::ROTATE_OVERLAP_SECONDS_MAX;
use ballast_domain::error::ErrorCode;
use ballast_domain::key::{ApiKey, KeyMode, KeyScope, KeyStatus, KeyThrottle};
use ballast_domain::registry::hash_term;
use ballast_domain::{Error, KeyId, Result, Timestamp};
use serde::Deserialize;

use super::create::{commit_new, generate_key};
use super::{KeyBody, NewKey, NewKeyBody, new_key_body, read, with_last_use};
use crate::change::{Attempts, Edit, IfMatch};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;
use crate::validate;

/// Fields to change; absent fields stay as they are.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyPatch {
    /// Its display name.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// Its scopes.
    #[schema(min_items = 1, max_items = 3)]
    pub scopes: Option<Vec<KeyScope>>,
}

/// A request to rotate a key.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rotation {
    /// How long the old key keeps working, in seconds. The configured overlap when
    /// absent; 0 ends it immediately.
    #[schema(minimum = 0, maximum = 7_776_000)]
    pub overlap_seconds: Option<i64>,
    /// When the successor expires; like the old key when absent.
    pub expires_at: Option<Timestamp>,
    /// After how many seconds the successor expires, instead of `expiresAt`.
    #[schema(minimum = 1, maximum = 3_153_600_000_i64)]
    pub expires_in_seconds: Option<i64>,
}

/// Changes a key's name or scopes.
pub async fn update(
    plane: &ControlPlane,
    intent: &Intent,
    id: &KeyId,
    if_match: &IfMatch,
    patch: &KeyPatch,
) -> Result<KeyBody> {
    if let Some(name) = &patch.name {
        validate::name("/name", name)?;
    }
    if patch.scopes.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::invalid_field(
            "/scopes",
            "a key needs at least one scope",
        ));
    }
    edit_key(plane, intent, id, if_match, "key.update", |key| {
        refuse_unless_active(plane, key)?;
        key.name = patch.name.clone().or_else(|| key.name.clone());
        if let Some(scopes) = &patch.scopes {
            key.scopes.clone_from(scopes);
            key.scopes.sort_unstable();
            key.scopes.dedup();
        }
        Ok(())
    })
    .await
}

/// Throttles a key until a moment, or lifts the throttle.
pub(crate) async fn throttle(
    plane: &ControlPlane,
    intent: &Intent,
    id: &KeyId,
    throttle: Option<KeyThrottle>,
) -> Result<KeyBody> {
    let action = match throttle {
        Some(_) => "key.throttle",
        None => "key.unthrottle",
    };
    edit_key(plane, intent, id, &IfMatch::Any, action, |key| {
        refuse_unless_active(plane, key)?;
        key.throttle = throttle;
        Ok(())
    })
    .await
}

/// Revokes a key. Revoking it again has no effect.
pub async fn revoke(
    plane: &ControlPlane,
    intent: &Intent,
    id: &KeyId,
    if_match: &IfMatch,
) -> Result<KeyBody> {
    edit_key(plane, intent, id, if_match, "key.revoke", |key| {
        key.revoked_at.get_or_insert(plane.now());
        Ok(())
    })
    .await
}

/// Creates a successor with the same scopes. The old key keeps working until the
/// overlap ends.
pub async fn rotate(
    plane: &ControlPlane,
    intent: &Intent,
    id: &KeyId,
    if_match: &IfMatch,
    rotation: &Rotation,
) -> Result<NewKeyBody> {
    let overlap = rotation
        .overlap_seconds
        .unwrap_or(plane.settings().rotate_overlap_seconds);
    if !(0..=ROTATE_OVERLAP_SECONDS_MAX).contains(&overlap) {
        let message =
            format!("{overlap} is not between 0 and {ROTATE_OVERLAP_SECONDS_MAX} (90 days)");
        return Err(Error::invalid_field("/overlapSeconds", message));
    }
    let tenant_id = read(plane, id).await?.value.tenant_id;
    let _turn = plane.lock_subject(tenant_id.as_str()).await;
    let old = read(plane, id).await?;
    if_match.check(old.version)?;
    refuse_unless_active(plane, &old.value)?;
    if let Some(successor) = &old.value.replaced_by {
        let detail = format!("key {id} was rotated already: its successor is {successor}");
        return Err(Error::new(ErrorCode::KeyNotActive, detail)
            .with_next_step("Rotate the successor instead."));
    }
    let (key, secret) = generate_key(
        plane,
        &old.value.tenant_id,
        &NewKey {
            name: old.value.name.clone(),
            scopes: Some(old.value.scopes.clone()),
            test: old.value.mode == KeyMode::Test,
            // A rotation must not extend a key's life.
            expires_at: rotation.expires_at.or(old
                .value
                .expires_at
                .filter(|_| rotation.expires_in_seconds.is_none())),
            expires_in_seconds: rotation.expires_in_seconds,
        },
    )?;
    let end = plane.now().plus_seconds(overlap);
    let mut retired = old.value.clone();
    retired.replaced_by = Some(key.key_id.clone());
    // A key that expires sooner still does.
    retired.expires_at = Some(retired.expires_at.map_or(end, |sooner| sooner.min(end)));
    let mut body = new_key_body(plane, key, &secret);
    body.replaces = Some(id.clone());
    body.overlap_ends_at = retired.expires_at;
    let writes = vec![
        typed::create(&body.body.key.value, vec![hash_term(&secret.hash())])?,
        typed::update_keeping_terms(old.version, &retired)?,
    ];
    commit_new(plane, intent, "key.rotate", &tenant_id, writes, &body).await?;
    Ok(body)
}

fn refuse_unless_active(plane: &ControlPlane, key: &ApiKey) -> Result<()> {
    let state = match key.status(plane.now()) {
        KeyStatus::Active => return Ok(()),
        KeyStatus::Expired => "has expired",
        KeyStatus::Revoked => "is revoked",
    };
    Err(Error::new(
        ErrorCode::KeyNotActive,
        format!("key {} {state}", key.key_id),
    ))
}

async fn edit_key(
    plane: &ControlPlane,
    intent: &Intent,
    id: &KeyId,
    if_match: &IfMatch,
    action: &'static str,
    mut edit: impl FnMut(&mut ApiKey) -> Result<()>,
) -> Result<KeyBody> {
    let _turn = plane.lock_subject(id.as_str()).await;
    let mut attempts = Attempts::new(plane, intent, action, if_match);
    loop {
        let old = read(plane, id).await?;
        let mut value = old.value.clone();
        edit(&mut value)?;
        let writes = if value == old.value {
            Vec::new()
        } else {
            vec![typed::update_keeping_terms(old.version, &value)?]
        };
        let edit = Edit {
            old: old.version,
            value,
            writes,
            expects: Vec::new(),
        };
        if let Some(changed) = attempts.commit(edit).await? {
            return Ok(with_last_use(plane, vec![changed]).await?.remove(0));
        }
    }
}
