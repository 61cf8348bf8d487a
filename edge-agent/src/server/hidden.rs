//! Hidden states of a prompt, which a router may ask for beside the answer (`x-terrace-hidden`).

use terrace_contract::headers;
use terrace_wire::error::Code;
use terrace_wire::hidden::Hidden;

use super::error::ApiError;
use crate::engine::HiddenStates;
use crate::model::Pooling;

/// Which states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    mean: bool,
    last: bool,
}

impl Asked {
    /// Reads the header's value: `mean`, `last`, or both with a comma between.
    pub(super) fn read(value: &str) -> Result<Self, ApiError> {
        let mut asked = Self { mean: false, last: false };
        for word in value.split(',') {
            match word.trim() {
                "mean" => asked.mean = true,
                "last" => asked.last = true,
                _ => {
                    let message = format!("{} must be mean, last or mean,last", headers::HIDDEN);
                    return Err(ApiError::new(Code::InvalidRequest, message));
                }
            }
        }
        Ok(asked)
    }

    /// What the engine is asked for.
    pub(super) fn pooling(self) -> Pooling {
        if self.mean { Pooling::MeanAndLast } else { Pooling::Last }
    }

    /// What the engine gave, as the router reads it.
    pub(super) fn write(self, states: &HiddenStates) -> Hidden {
        let mean = states.mean.as_deref().filter(|_| self.mean);
        Hidden::of(mean, self.last.then_some(&states.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_comes() {
        let states = HiddenStates { mean: Some(vec![0.5]), last: vec![2.0] };
        for (value, pooling, mean, last) in [
            ("mean", Pooling::MeanAndLast, true, false),
            ("last", Pooling::Last, false, true),
            ("mean,last", Pooling::MeanAndLast, true, true),
            ("last, mean", Pooling::MeanAndLast, true, true),
        ] {
            let asked = Asked::read(value).unwrap();
            assert_eq!(asked.pooling(), pooling, "{value}");
            let hidden = asked.write(&states);
            assert_eq!(hidden.mean(), mean.then(|| vec![0.5]), "{value}");
            assert_eq!(hidden.last(), last.then(|| vec![2.0]), "{value}");
        }
        for value in ["", "1", "mean,", "first"] {
            assert!(Asked::read(value).is_err(), "{value}");
        }
    }
}
