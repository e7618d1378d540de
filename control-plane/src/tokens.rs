//! Admin tokens: who may use the admin API, and as what.
//!
//! The first start makes one with the role admin. When it is lost, a stopped
//! instance is given another ([`reset`]).

use ballast_domain::bounds::TOKENS_MAX;
use ballast_domain::credential::{Credential, Purpose, inspect};
use ballast_domain::error::ErrorCode;
use ballast_domain::registry::{Expect, Kind, RecordQuery, TOKENS, Write, hash_term};
use ballast_domain::token::{AdminToken, Role};
use ballast_domain::{Actor, Error, Result, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::change::{Attempts, Edit, IfMatch, commit_failed};
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::validate;

/// The name of the token that the first start or a reset makes.
const FIRST_NAME: &str = "first-admin";

/// What a caller says of a new token.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    /// Who or what will use it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it stops working; never when absent.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// After how many seconds it stops working, instead of `expiresAt`.
    #[schema(minimum = 1, maximum = 3_153_600_000_i64)]
    pub expires_in_seconds: Option<i64>,
}

/// A new token, with the secret that is shown this once.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct NewTokenBody {
    /// The secret. It is not stored and cannot be shown again.
    #[schema(example = "bl_admin_…")]
    pub token: String,
    /// What is known of it.
    #[serde(flatten)]
    pub body: Versioned<AdminToken>,
}

/// Creates a token and returns the secret, this once.
pub async fn create(plane: &ControlPlane, intent: &Intent, new: &NewToken) -> Result<NewTokenBody> {
    validate::name("/name", &new.name)?;
    if new.name.starts_with("ballast/") {
        // So the audit log calls what Ballast does by itself.
        return Err(Error::invalid_field(
            "/name",
            "names that begin with ballast/ are Ballast's own",
        ));
    }
    let expires_at = validate::expiry(new.expires_at, new.expires_in_seconds, plane.now())?;
    let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
    let (body, write) = minted(plane, &secret, &new.name, new.role, expires_at)?;
    let expects = vec![Expect::TallyBelow(
        Kind::Token,
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

fn minted(
    plane: &ControlPlane,
    secret: &Credential,
    name: &str,
    role: Role,
    expires_at: Option<Timestamp>,
) -> Result<(NewTokenBody, Write)> {
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

/// A page of tokens, in the order of their ids.
pub async fn list(
    plane: &ControlPlane,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<Versioned<AdminToken>>> {
    let query = RecordQuery {
        after,
        ..RecordQuery::all(Kind::Token, limit)
    };
    Ok(typed::list(plane.registry(), &query).await?)
}

/// Ends a token now; the last admin token that works for ever is kept.
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
        let expects = if old.value.works(plane.now()) && old.value.role == Role::Admin {
            vec![another_admin(plane, id).await?]
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

/// Another admin token that works and does not expire: it must still be as it
/// is when this one is revoked, so that two admins who revoke each other do
/// not leave nobody.
async fn another_admin(plane: &ControlPlane, id: &TokenId) -> Result<Expect> {
    let mut after = None;
    loop {
        let query = RecordQuery {
            terms: vec!["role:admin".to_owned()],
            after,
            ..RecordQuery::all(Kind::Token, 500)
        };
        let page = plane.registry().list(&query).await?;
        for record in &page {
            let token: Versioned<AdminToken> = typed::decode(record)?;
            let lasting = token.value.works(plane.now()) && token.value.expires_at.is_none();
            if token.value.token_id != *id && lasting {
                return Ok(Expect::Version(record.key.clone(), record.version));
            }
        }
        after = page.last().map(|record| record.key.id.clone());
        if after.is_none() {
            let detail = format!("token {id} is the last admin token that does not expire");
            return Err(Error::new(ErrorCode::LastAdmin, detail));
        }
    }
}

/// The token that was shown, if it works: the way into the admin API.
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

/// The token of this id, if it works: for those who have shown it before.
pub async fn working(plane: &ControlPlane, id: &TokenId) -> Result<Option<AdminToken>> {
    let found = typed::get::<AdminToken>(plane.registry(), id.as_str()).await?;
    let works = found.filter(|token| token.value.works(plane.now()));
    Ok(works.map(|token| token.value))
}

/// Refuses a token whose role is below `least`.
pub fn at_least(token: &AdminToken, least: Role) -> Result<()> {
    if token.role >= least {
        return Ok(());
    }
    let detail = format!(
        "this takes the role {}; token {:?} has the role {}",
        least.name(),
        token.name,
        token.role.name()
    );
    Err(Error::new(ErrorCode::MissingRole, detail))
}

/// Whether any token was ever made here.
pub async fn any(plane: &ControlPlane) -> Result<bool> {
    Ok(!plane
        .registry()
        .list(&RecordQuery::all(Kind::Token, 1))
        .await?
        .is_empty())
}

/// The write that makes `secret` the first admin token.
pub(crate) fn first(plane: &ControlPlane, secret: &Credential) -> Result<Write> {
    let (made, _) = minted(plane, secret, FIRST_NAME, Role::Admin, None)?;
    let token = AdminToken {
        first: true,
        ..made.body.value
    };
    Ok(typed::create(&token, vec![hash_term(&secret.hash())])?)
}

/// Makes `secret` the new first admin token and ends those made so before: what is lost
/// may be in the wrong hands. Tokens that people made stay.
pub async fn reset(plane: &ControlPlane, secret: &Credential) -> Result<()> {
    let mut writes = vec![first(plane, secret)?];
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
