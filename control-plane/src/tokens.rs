//! Admin tokens: who may use the admin API, and with which role.
//!
//! The first start creates one with the role admin. If it is lost, an operator
//! creates a new one on the stopped instance ([`reset`]).

use ballast_domain::bounds::TOKENS_MAX;
use ballast_domain::credential::{Credential, Purpose, inspect};
use ballast_domain::error::ErrorCode;
use ballast_domain::registry::{
    Precondition, RecordKind, RecordQuery, RecordWrite, TOKENS, hash_term,
};
use ballast_domain::token::{AdminRole, AdminToken};
use ballast_domain::{Actor, Error, Result, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::change::{Attempts, Edit, IfMatch, commit_failed};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::validate;

/// Name of the token that the first start or a reset creates.
const FIRST_NAME: &str = "first-admin";

/// A request to create a token.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    /// Who or what will use it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// Its role.
    pub role: AdminRole,
    /// When it expires; never when absent.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// After how many seconds it expires, instead of `expiresAt`.
    #[schema(minimum = 1, maximum = 3_153_600_000_i64)]
    pub expires_in_seconds: Option<i64>,
}

/// A new token, with the secret that is shown only once.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct NewTokenBody {
    /// The secret. It is not stored and cannot be shown again.
    #[schema(example = "bl_admin_…")]
    pub token: String,
    /// The token's record.
    #[serde(flatten)]
    pub body: Versioned<AdminToken>,
}

/// Creates a token and returns its secret, which is shown only once.
pub async fn create(plane: &ControlPlane, intent: &Intent, new: &NewToken) -> Result<NewTokenBody> {
    validate::name("/name", &new.name)?;
    if new.name.starts_with("ballast/") {
        // The audit log uses this prefix for actions of Ballast itself.
        return Err(Error::invalid_field(
            "/name",
            "names that begin with ballast/ are reserved",
        ));
    }
    let expires_at = validate::expiry(new.expires_at, new.expires_in_seconds, plane.now())?;
    let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
    let (body, write) = build_token(plane, &secret, &new.name, new.role, expires_at)?;
    let expects = vec![Precondition::TallyBelow(
        RecordKind::Token,
        TOKENS.to_owned(),
        TOKENS_MAX,
    )];
    let commit = intent.create(plane, "token.create", vec![write], expects, &body)?;
    plane
        .registry()
        .commit(commit)
        .await
        .map_err(commit_failed)?;
    Ok(body)
}

fn build_token(
    plane: &ControlPlane,
    secret: &Credential,
    name: &str,
    role: AdminRole,
    expires_at: Option<Timestamp>,
) -> Result<(NewTokenBody, RecordWrite)> {
    let token = AdminToken {
        token_id: TokenId::random(plane.entropy()),
        name: name.to_owned(),
        role,
        hint: secret.hint(),
        created_at: plane.now(),
        expires_at,
        revoked_at: None,
        first: false,
    };
    let write = typed::create(&token, vec![hash_term(&secret.hash())])?;
    let body = NewTokenBody {
        token: secret.expose().to_owned(),
        body: Versioned {
            value: token,
            version: 1,
        },
    };
    Ok((body, write))
}

/// A page of tokens, ordered by id.
pub async fn list(
    plane: &ControlPlane,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<AdminToken>>> {
    let query = RecordQuery {
        after,
        ..RecordQuery::all(RecordKind::Token, limit)
    };
    Ok(typed::list(plane.registry(), &query).await?)
}

/// Revokes a token. The last admin token that never expires cannot be revoked.
pub async fn revoke(
    plane: &ControlPlane,
    intent: &Intent,
    id: &TokenId,
    if_match: &IfMatch,
) -> Result<Versioned<AdminToken>> {
    let mut attempts = Attempts::new(plane, intent, "token.revoke", if_match);
    loop {
        let Some(old) = typed::get::<AdminToken>(plane.registry(), id.as_str()).await? else {
            let detail = format!("there is no token {:?}", id.as_str());
            return Err(Error::new(ErrorCode::TokenNotFound, detail));
        };
        let mut value = old.value.clone();
        value.revoked_at.get_or_insert(plane.now());
        let writes = if value == old.value {
            Vec::new()
        } else {
            vec![typed::update_keeping_terms(old.version, &value)?]
        };
        let expects = if old.value.works(plane.now()) && old.value.role == AdminRole::Admin {
            vec![expect_another_admin(plane, id).await?]
        } else {
            Vec::new()
        };
        let edit = Edit {
            old: old.version,
            value,
            writes,
            expects,
        };
        if let Some(revoked) = attempts.commit(edit).await? {
            return Ok(revoked);
        }
    }
}

/// Expects that another active, non-expiring admin token stays unchanged, so
/// that two admins who revoke each other cannot leave the instance without one.
async fn expect_another_admin(plane: &ControlPlane, id: &TokenId) -> Result<Precondition> {
    let mut after = None;
    loop {
        let query = RecordQuery {
            terms: vec!["role:admin".to_owned()],
            after,
            ..RecordQuery::all(RecordKind::Token, 500)
        };
        let page = plane.registry().list(&query).await?;
        for record in &page {
            let token: Versioned<AdminToken> = typed::decode(record)?;
            let lasting = token.value.works(plane.now()) && token.value.expires_at.is_none();
            if token.value.token_id != *id && lasting {
                return Ok(Precondition::Version(record.key.clone(), record.version));
            }
        }
        after = page.last().map(|record| record.key.id.clone());
        if after.is_none() {
            let detail = format!("token {id} is the last admin token that does not expire");
            return Err(Error::new(ErrorCode::LastAdmin, detail));
        }
    }
}

/// The token with this secret, if it is active: authenticates the admin API.
pub async fn authenticate(
    plane: &ControlPlane,
    shown: &str,
) -> Result<Option<Versioned<AdminToken>>> {
    let Ok((Purpose::AdminToken, hash)) = inspect(shown) else {
        return Ok(None);
    };
    let found: Option<Versioned<AdminToken>> =
        typed::find(plane.registry(), hash_term(&hash)).await?;
    Ok(found.filter(|token| token.value.works(plane.now())))
}

/// The token with this id, if it is active: for sessions authenticated before.
pub async fn find_active(plane: &ControlPlane, id: &TokenId) -> Result<Option<AdminToken>> {
    let found = typed::get::<AdminToken>(plane.registry(), id.as_str()).await?;
    let works = found.filter(|token| token.value.works(plane.now()));
    Ok(works.map(|token| token.value))
}

/// Rejects a token whose role is below `least`.
pub fn require_role(token: &AdminToken, least: AdminRole) -> Result<()> {
    if token.role >= least {
        return Ok(());
    }
    let detail = format!(
        "this requires the role {}; token {:?} has the role {}",
        least.name(),
        token.name,
        token.role.name()
    );
    Err(Error::new(ErrorCode::MissingRole, detail))
}

/// Whether any token exists.
pub async fn any_exists(plane: &ControlPlane) -> Result<bool> {
    Ok(!plane
        .registry()
        .list(&RecordQuery::all(RecordKind::Token, 1))
        .await?
        .is_empty())
}

/// The write that makes `secret` the first admin token.
pub(crate) fn first_token_write(plane: &ControlPlane, secret: &Credential) -> Result<RecordWrite> {
    let (made, _) = build_token(plane, secret, FIRST_NAME, AdminRole::Admin, None)?;
    let token = AdminToken {
        first: true,
        ..made.body.value
    };
    Ok(typed::create(&token, vec![hash_term(&secret.hash())])?)
}

/// Makes `secret` the new first admin token and revokes earlier first tokens: a
/// lost token may be in the wrong hands. Tokens that operators created stay.
pub async fn reset(plane: &ControlPlane, secret: &Credential) -> Result<()> {
    let mut writes = vec![first_token_write(plane, secret)?];
    let mut after = None;
    loop {
        let page = list(plane, after, 500).await?;
        for token in &page {
            if token.value.first && token.value.revoked_at.is_none() {
                let revoked = AdminToken {
                    revoked_at: Some(plane.now()),
                    ..token.value.clone()
                };
                writes.push(typed::update_keeping_terms(token.version, &revoked)?);
            }
        }
        after = page.last().map(|token| token.value.token_id.to_string());
        if after.is_none() {
            break;
        }
    }
    let intent = Intent {
        actor: Actor::ballast("token-reset"),
        reason: Some("the admin token was reset on the stopped instance".to_owned()),
        idempotency: None,
    };
    let commit = intent.commit("token.reset", writes, Vec::new());
    plane
        .registry()
        .commit(commit)
        .await
        .map_err(commit_failed)?;
    Ok(())
}
