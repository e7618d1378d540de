//! Identifiers, each with its own type.
//!
//! People choose the ids of tenants, shards, regions and zones, so these are slugs that need
//! no quoting in a URL, a log line or a shell. Ballast makes the ids of keys and tokens.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::bounds::ID_CHARS_MAX;

/// The error for a text that is not a valid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {noun}: {rule}")]
pub struct BadId {
    noun: &'static str,
    text: String,
    rule: &'static str,
}

/// The form of slugs, as a regular expression for schemas and documentation.
pub const SLUG_PATTERN: &str = "^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$";

fn check_slug(noun: &'static str, text: &str) -> Result<(), BadId> {
    let alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = text.as_bytes();
    let rule = match (bytes.first(), bytes.last()) {
        (None, _) | (_, None) => "it is empty",
        _ if bytes.len() > ID_CHARS_MAX => "it is longer than 63 characters",
        _ if !bytes
            .iter()
            .all(|&c| alphanumeric(c) || c == b'-' || c == b'_') =>
        {
            "only lower-case letters, digits, '-' and '_' may be in it"
        }
        (Some(&first), Some(&last)) if !alphanumeric(first) || !alphanumeric(last) => {
            "it must begin and end with a letter or a digit"
        }
        _ => return Ok(()),
    };
    // The text may be long or contain control characters: the message shows its beginning,
    // escaped by `{:?}`.
    let text = text.chars().take(ID_CHARS_MAX + 1).collect();
    Err(BadId { noun, text, rule })
}

macro_rules! slug {
    ($(#[$doc:meta])* $name:ident, $noun:literal, $example:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, utoipa::ToSchema)]
        #[serde(try_from = "String")]
        #[schema(value_type = String, pattern = "^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$", max_length = 63, example = $example)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text of the identifier.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                check_slug($noun, text)?;
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

slug!(
    /// The id of a tenant: `acme`.
    TenantId, "tenant ID", "acme"
);
slug!(
    /// The id of a shard: `shard-1`.
    ShardId, "shard ID", "shard-1"
);
slug!(
    /// A region of tenants and shards: `eu-west`.
    RegionId, "region", "local"
);
slug!(
    /// A tag of shards that a tenant may require: `ekb`.
    ZoneId, "zone", "ekb"
);
slug!(
    /// The id of an API key: `key-…`. It is not the secret.
    KeyId, "key ID", "key-4f1c9a0b7e2d"
);
slug!(
    /// The id of an admin token: `tok-…`. It is not the secret.
    TokenId, "token ID", "tok-4f1c9a0b7e2d"
);

/// Makes an id such as `key-4f1c9a0b7e2d8a63` from 64 random bits.
pub(crate) fn random_suffix(entropy: &dyn crate::Entropy) -> String {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

impl KeyId {
    /// Makes a new key id.
    pub fn random(entropy: &dyn crate::Entropy) -> Self {
        Self(format!("key-{}", random_suffix(entropy)).into())
    }
}

impl TokenId {
    /// Makes a new token id.
    pub fn random(entropy: &dyn crate::Entropy) -> Self {
        Self(format!("tok-{}", random_suffix(entropy)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_checked() {
        for good in ["a", "acme", "t_1", "0-9", &"x".repeat(63)] {
            assert!(good.parse::<TenantId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "Acme",
            "a b",
            "a\0",
            "é",
            "a/b",
            &"x".repeat(64),
        ] {
            assert!(bad.parse::<TenantId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_id_is_shown_escaped_and_cut() {
        let error = format!("a\u{7}{}", "b".repeat(1_000))
            .parse::<ShardId>()
            .unwrap_err()
            .to_string();
        assert!(error.contains("\\u{7}"), "{error}");
        assert!(error.len() < 200, "{error}");
    }
}
