//! The identity of a registry: random, made with it, and kept by copies and backups.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifies a registry and its copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RegistryId(String);

impl RegistryId {
    pub(crate) fn from_stored(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
