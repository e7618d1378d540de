//! A tenant's API key, as the registry stores it: without its secret.
//!
//! ```text
//!   created ──► active ──► expired   (its expiry has passed)
//!                  └─────► revoked   (takes effect everywhere within a second)
//!   rotation creates a successor, and the old key expires after an overlap
//! ```

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::{KeyId, TenantId};

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Its id.
    #[serde(rename = "keyID")]
    pub key_id: KeyId,
    /// Its tenant.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its first characters, to recognise it.
    pub hint: String,
    /// Live or test.
    pub mode: KeyMode,
    /// Its scopes.
    pub scopes: Vec<KeyScope>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The key that replaces it.
    #[serde(
        rename = "replacedBy",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub replaced_by: Option<KeyId>,
    /// Its throttle, if it is throttled for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<KeyThrottle>,
}

/// A limit on the calls of a key, until a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Throttle)]
pub struct KeyThrottle {
    /// Calls per second.
    #[schema(minimum = 1)]
    pub calls_per_second: u64,
    /// When it ends.
    pub until: Timestamp,
}

impl KeyThrottle {
    /// The calls per second that it allows at `now`; `None` when it has ended.
    #[must_use]
    pub fn limit_at(&self, now: Timestamp) -> Option<u64> {
        (now < self.until).then_some(self.calls_per_second)
    }
}

/// Whether a key is for real traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeyMode {
    /// For real traffic.
    Live,
    /// For tests.
    Test,
}

/// What a key may do.
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
#[schema(as = Scope)]
pub enum KeyScope {
    /// Cast votes.
    Vote,
    /// Read polls and results.
    Read,
    /// Create and close polls.
    Polls,
}

impl KeyScope {
    /// All scopes: the default for a new key.
    pub const ALL: [Self; 3] = [Self::Vote, Self::Read, Self::Polls];

    /// The scope's name, as in its JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vote => "vote",
            Self::Read => "read",
            Self::Polls => "polls",
        }
    }
}

/// The status of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeyStatus {
    /// It is valid.
    Active,
    /// Its expiry has passed.
    Expired,
    /// It was revoked.
    Revoked,
}

impl KeyStatus {
    /// The status at `now`.
    pub fn at_time(revoked: bool, expires_at: Option<Timestamp>, now: Timestamp) -> Self {
        match expires_at {
            _ if revoked => Self::Revoked,
            Some(end) if end <= now => Self::Expired,
            _ => Self::Active,
        }
    }
}

impl ApiKey {
    /// Its status at `now`.
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        match (self.revoked_at, self.expires_at) {
            // It was revoked by the sweep of expired keys.
            (Some(revoked), Some(end)) if end <= revoked => KeyStatus::Expired,
            (revoked, end) => KeyStatus::at_time(revoked.is_some(), end, now),
        }
    }
}

/// A set of scopes in one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScopeSet(u8);

impl ScopeSet {
    /// Whether it contains a scope.
    pub fn contains(self, scope: KeyScope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }
}

impl FromIterator<KeyScope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = KeyScope>>(scopes: I) -> Self {
        Self(
            scopes
                .into_iter()
                .fold(0, |bits, scope| bits | (1 << scope as u8)),
        )
    }
}
