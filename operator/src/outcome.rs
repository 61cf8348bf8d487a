//! What became of a reconciliation, as far as status goes.

use crate::apply::{Applied, Error};
use crate::problem::{Invalid, NAME_CONFLICT};

/// What became of a reconciliation.
#[derive(Debug)]
pub enum Outcome {
    /// The children are there.
    Applied(Applied),
    /// The object is not accepted; its children are left as they were.
    Refused(Invalid),
    /// The API server refused a child; some may be there. Tried again later.
    Failed(Error),
}

impl Outcome {
    /// From an apply.
    ///
    /// # Errors
    /// What says nothing about the object itself: the API server does not answer.
    pub fn of(applied: Result<Applied, Error>) -> Result<Self, Error> {
        match applied {
            Ok(applied) => Ok(Outcome::Applied(applied)),
            Err(error @ Error::NameConflict { .. }) => {
                Ok(Outcome::Refused(Invalid::new(NAME_CONFLICT, error.to_string())))
            }
            Err(error @ Error::Api { .. }) if error.refused() => Ok(Outcome::Failed(error)),
            Err(error) => Err(error),
        }
    }

    /// What was applied.
    pub fn applied(&self) -> Option<&Applied> {
        match self {
            Outcome::Applied(applied) => Some(applied),
            Outcome::Refused(_) | Outcome::Failed(_) => None,
        }
    }

    /// The condition `Accepted`.
    pub fn accepted(&self) -> crate::conditions::Want {
        use crate::conditions::Want;
        match self {
            Outcome::Applied(_) | Outcome::Failed(_) => Want::yes("Accepted", "Valid", ""),
            Outcome::Refused(invalid) => Want::no("Accepted", invalid.reason, invalid.message.clone()),
        }
    }

    /// Why nothing can be ready: reason and sentence.
    pub fn failure(&self) -> Option<(&'static str, String)> {
        match self {
            Outcome::Failed(error) => {
                Some((if error.forbidden() { "Forbidden" } else { "ApplyFailed" }, error.to_string()))
            }
            Outcome::Applied(_) | Outcome::Refused(_) => None,
        }
    }
}
