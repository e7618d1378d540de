//! JSON pointers to locations in a definition.

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

    /// The pointer to a field of the object at this location.
    pub(super) fn field(&self, name: &str) -> Self {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Self(format!("{}/{escaped}", self.0))
    }

    /// The pointer to an element of the array at this location.
    pub(super) fn item(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }

    /// Appends a pointer that is relative to this location.
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
