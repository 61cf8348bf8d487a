//! How tokens are to be chosen.

use serde_json::Value;
use terrace_wire::error::ErrorBody;
use terrace_wire::params::Params;
use terrace_wire::pointer::Pointer;

use crate::engine::Sampling;

/// What a request says of it. OpenAI's temperature is 1 where nothing is said.
pub(super) fn read(params: &Params) -> Sampling {
    Sampling {
        temperature: params.temperature.unwrap_or(1.0),
        top_p: params.top_p.unwrap_or(1.0),
        // No vocabulary is so large that the largest number would not be all of it.
        top_k: params.top_k.map_or(0, |k| u32::try_from(k.max(0)).unwrap_or(u32::MAX)),
        min_p: params.min_p.unwrap_or(0.0),
        repetition_penalty: params.repetition_penalty.unwrap_or(1.0),
        presence_penalty: params.presence_penalty.unwrap_or(0.0),
        frequency_penalty: params.frequency_penalty.unwrap_or(0.0),
        logit_bias: params.logit_bias.clone().unwrap_or_default(),
        seed: params.seed.map(i64::cast_unsigned),
    }
}

/// Whether each bias is of a token that there is.
///
/// # Errors
/// 400 with the place.
pub(super) fn check_bias(body: &Value, vocabulary: usize) -> Result<(), ErrorBody> {
    let bias = body.get("logit_bias").and_then(Value::as_object);
    let unknown = |id: &String| id.parse::<usize>().is_ok_and(|id| id >= vocabulary);
    match bias.and_then(|bias| bias.keys().position(unknown)) {
        None => Ok(()),
        Some(position) => {
            let at = Pointer::root().key("logit_bias").nth(position);
            Err(ErrorBody::invalid(&at, format!("the model's vocabulary has {vocabulary} tokens, from 0 on")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_top_k_beyond_any_vocabulary_is_all_of_it() {
        let top_k = |k: i64| read(&Params { top_k: Some(k), ..Params::default() }).top_k;
        assert_eq!([-1, 0, 1, 40].map(top_k), [0, 0, 1, 40]);
        assert_eq!([i64::from(u32::MAX) + 1, i64::MAX].map(top_k), [u32::MAX; 2]);
    }
}
