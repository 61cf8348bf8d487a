//! Hidden states of a prompt, for what a router learns from them. They say what the prompt was about, so they are content:
//! never in logs, spans or metrics, and never passed on to a client.

use serde::{Deserialize, Serialize};

use crate::vector;

/// States of the model's last layer over the prompt, after its last norm: what logits are made of. Not scaled to any
/// length. Each is base64 of little-endian 32-bit numbers ([`vector`]), as many as the model is wide.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hidden {
    /// Mean over all of the prompt's tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<String>,
    /// After the last token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
}

impl Hidden {
    /// Of these vectors.
    pub fn of(mean: Option<&[f32]>, last: Option<&[f32]>) -> Self {
        Self { mean: mean.map(vector::encode), last: last.map(vector::encode) }
    }

    /// The mean as numbers; none if it is not there or no vector.
    pub fn mean(&self) -> Option<Vec<f32>> {
        vector::decode(self.mean.as_deref()?)
    }

    /// The last token's as numbers; none if it is not there or no vector.
    pub fn last(&self) -> Option<Vec<f32>> {
        vector::decode(self.last.as_deref()?)
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = |v: &Option<String>| v.as_ref().map(String::len);
        f.debug_struct("Hidden").field("mean", &length(&self.mean)).field("last", &length(&self.last)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_are_never_shown() {
        let hidden = Hidden::of(Some(&[0.5, -1.0]), None);
        assert_eq!((hidden.mean(), hidden.last()), (Some(vec![0.5, -1.0]), None));
        let json = serde_json::to_value(&hidden).unwrap();
        assert_eq!(json, serde_json::json!({"mean": "AAAAPwAAgL8="}));
        assert_eq!(serde_json::from_value::<Hidden>(json).unwrap(), hidden);
        assert!(!format!("{hidden:?}").contains("AAAAPwAA"), "{hidden:?}");
    }
}
