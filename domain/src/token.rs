//! An operator's token for the admin API, as the registry stores it.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::TokenId;

/// An admin token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdminToken {
    /// Its id.
    #[serde(rename = "tokenID")]
    pub token_id: TokenId,
    /// Who or what uses it.
    pub name: String,
    /// Its role.
    pub role: AdminRole,
    /// Its first characters, to recognise it.
    pub hint: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// Whether the first start or a reset created it: the next reset revokes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

/// The role of a token. Each role includes the one before it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
#[schema(as = Role)]
pub enum AdminRole {
    /// Reads.
    Viewer,
    /// Changes tenants, keys, shards and placement.
    Operator,
    /// Also creates and revokes tokens.
    Admin,
}

impl AdminRole {
    /// The role's name, as in its JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl AdminToken {
    /// Whether it is valid at `now`.
    pub fn works(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| end > now)
    }
}
