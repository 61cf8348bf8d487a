//! What is wrong with an object, as its condition `Accepted` says it.

/// The reason of an object that wants a name which something else has.
pub const NAME_CONFLICT: &str = "NameConflict";

/// Why an object is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The condition's reason.
    pub reason: &'static str,
    /// What is wrong, where, and what to write instead.
    pub message: String,
}

impl Invalid {
    /// With a reason of its own.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// A rule of the spec is broken.
    pub fn spec(message: impl Into<String>) -> Self {
        Self::new("InvalidSpec", message)
    }

    /// What the kinds' own rules say of an object.
    ///
    /// # Errors
    /// Everything that is wrong with it, in one message.
    pub fn check<T: terrace_crds::Object>(object: &T) -> Result<(), Self> {
        terrace_crds::validate(object).map_err(|invalid| Self::spec(invalid.to_string()))
    }

    /// An object that does not parse, for example one that another version wrote.
    pub fn unparsable(error: &str) -> Self {
        Self::new(
            "Unparsable",
            format!("cannot be read by this version: {error}; apply it again as this version writes it"),
        )
    }
}

impl From<terrace_crds::Refused> for Invalid {
    fn from(refused: terrace_crds::Refused) -> Self {
        Self::new(refused.reason, refused.to_string())
    }
}
