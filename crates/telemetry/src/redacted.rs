//! Content that telemetry never sees.

use std::fmt;

/// Holds content. `Debug` and `Display` print its length, and there is no `Serialize`: what leaves a program leaves by
/// [`Redacted::expose`], which a reader can search for.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Wraps content.
    pub fn new(content: T) -> Self {
        Self(content)
    }

    /// The content, for the engine or the wire.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// The content itself, for the engine or the wire.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: AsRef<[u8]>> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.as_ref().len())
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl<T> From<T> for Redacted<T> {
    fn from(content: T) -> Self {
        Self(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_length_is_printed() {
        let secret = Redacted::new("my card is 4111".to_owned());
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[15 bytes] [15 bytes] Some([15 bytes])");
        assert_eq!(secret.expose(), "my card is 4111");
    }
}
