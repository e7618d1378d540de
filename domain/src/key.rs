//! A tenant's API key, as the registry keeps it: everything but the secret.
//!
//! ```text
//!   created ──► usable ──► expired   (its expiry passed)
//!                  └─────► revoked   (within a second, everywhere)
//!   rotated: a successor is made, and the old key expires after an overlap
//! ```

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::{KeyId, TenantId};

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Its public name.
    #[serde(rename = "keyID")]
    pub key_id: KeyId,
    /// The tenant it speaks for.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its first characters, to recognise it by.
    pub hint: String,
    /// Live or test.
    pub mode: KeyMode,
    /// What it may do.
    pub scopes: Vec<KeyScope>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The key that took its place.
    #[serde(
        rename = "replacedBy",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub replaced_by: Option<KeyId>,
    /// That it is let through only so often for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<KeyThrottle>,
}

/// A key is let through only so often, until a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Throttle)]
pub struct KeyThrottle {
    /// Calls per second.
    #[schema(minimum = 1)]
    pub calls_per_second: u64,
    /// Until when.
    pub until: Timestamp,
}

impl KeyThrottle {
    /// How many calls a second it allows at a moment; any number when it is over.
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
    /// For trying things out.
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
    /// Every scope: what a key has when none is named.
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

/// Whether a key works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeyStatus {
    /// It works.
    Active,
    /// Its expiry has passed.
    Expired,
    /// It was revoked.
    Revoked,
}

impl KeyStatus {
    /// Whether a key of this fate works at `now`.
    pub fn at_time(revoked: bool, expires_at: Option<Timestamp>, now: Timestamp) -> Self {
        match expires_at {
            _ if revoked => Self::Revoked,
            Some(end) if end <= now => Self::Expired,
            _ => Self::Active,
        }
    }
}

impl ApiKey {
    /// Whether it works at `now`.
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        match (self.revoked_at, self.expires_at) {
            // It was swept after it had expired.
            (Some(revoked), Some(end)) if end <= revoked => KeyStatus::Expired,
            (revoked, end) => KeyStatus::at_time(revoked.is_some(), end, now),
        }
    }
}

/// Several scopes, in one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScopeSet(u8);

impl ScopeSet {
    /// Whether a scope is among them.
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
