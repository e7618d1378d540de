//! The actor of a change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::TokenId;

/// Who requested a change: the holder of a token, or Ballast itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Actor {
    /// The token's name, or the part of Ballast that acted (`ballast/up`).
    pub name: String,
    /// The token that was used; absent when Ballast acted by itself.
    #[serde(rename = "tokenID", default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<TokenId>,
    /// The address the request came from, behind trusted proxies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl Actor {
    /// Ballast itself; `part` says which part of it.
    pub fn ballast(part: &str) -> Self {
        Self {
            name: format!("ballast/{part}"),
            token_id: None,
            address: None,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
