//! Where in a definition something stands: a JSON pointer that grows.

use std::fmt;

/// A JSON pointer (RFC 6901), such as `/States/Copy/Next`. Empty for the whole
/// definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointer(String);

impl Pointer {
    /// The whole definition.
    pub(super) fn root() -> Self {
        Self::default()
    }

    /// A field of what stands here.
    pub(super) fn field(&self, name: &str) -> Self {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Self(format!("{}/{escaped}", self.0))
    }

    /// An element of the list that stands here.
    pub(super) fn item(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }

    /// What a pointer that begins here leads to.
    pub(super) fn join(&self, inner: &str) -> Self {
        Self(format!("{}{inner}", self.0))
    }

    /// The pointer as text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_slashes_and_tildes_are_escaped() {
        let at = Pointer::root().field("States").field("a/b~c").item(2);
        assert_eq!(at.as_str(), "/States/a~1b~0c/2");
    }
}
