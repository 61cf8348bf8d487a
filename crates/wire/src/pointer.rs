//! JSON pointers (RFC 6901) that name a place in a request by key and index, never by content.

use std::fmt;

/// A place in a JSON document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pointer(String);

impl Pointer {
    /// The whole document.
    pub fn root() -> Self {
        Self::default()
    }

    /// One key further in. Keys that a client invented are content: use it for known keys only, and [`Self::nth`] else.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        if key.contains(['~', '/']) {
            return Self(format!("{}/{}", self.0, key.replace('~', "~0").replace('/', "~1")));
        }
        Self([&self.0, "/", key].concat())
    }

    /// One index further in.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }

    /// A member further in by its position, for a key that a client invented.
    #[must_use]
    pub fn nth(&self, position: usize) -> Self {
        Self(format!("{}/[{position}]", self.0))
    }

    /// One that a peer wrote: none if it is longer than a place in a request, or has what no known key has.
    pub fn read(text: &str) -> Option<Self> {
        let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'/' | b'_' | b'-' | b'$' | b'~' | b'[' | b']');
        let is_place = text.len() <= 256 && text.starts_with('/') && text.len() > 1 && text.bytes().all(fits);
        is_place.then(|| Self(text.to_owned()))
    }

    /// As text: empty for the whole document.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { &self.0 })
    }
}
