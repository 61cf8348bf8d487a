//! What a model must have so that anybody could be answered: an agent that is ready must not refuse everyone.
//!
//! A chat template that works, and a context with room for what it makes.

use serde_json::json;
use terrace_contract::status::AgentFailure;

use crate::failure::Failure;
use crate::gguf::{ChatTemplate, Tokenizer};
use crate::model::{BLOCK_TOKENS, LoadOptions, LoadedModel};

/// A shorter context is none, whatever the template.
const LEAST: usize = 64;
/// Room for an answer beside what the template makes of a short question: what `/v1/completions` gives by default.
const ANSWER: usize = 16;

/// Whether the template takes a plain message, and the context has room for its own words, a short question and a short
/// answer.
///
/// # Errors
/// With what the template does instead; with how many tokens those are, and what to change.
pub(crate) fn check(model: &LoadedModel, options: &LoadOptions) -> Result<(), Failure> {
    let (have, need) = (model.info.context_tokens as usize, need(model.template.as_ref(), &model.tokenizer)?);
    if have < need { Err(too_short(have, Some(need), options)) } else { Ok(()) }
}

/// Tokens that there have to be.
///
/// # Errors
/// When the template cannot even make a prompt of one user's plain message. Others it may refuse on purpose: a system
/// message, turns that do not alternate, tools.
fn need(template: Option<&ChatTemplate>, tokenizer: &Tokenizer) -> Result<usize, Failure> {
    let Some(template) = template else { return Ok(LEAST) };
    let broken = |why: &dyn std::fmt::Display| {
        let next = "every chat would fail. Correct tokenizer.chat_template in the file, or remove it: then only \
                    /v1/completions and /v1/embeddings are served";
        let what = format!("the file's chat template makes no prompt of one plain message ({why}): {next}");
        Failure::new(AgentFailure::InvalidModel, what)
    };
    let question = [json!({"role": "user", "content": "Hello"})];
    let prompt = template.render(&question, None).map_err(|e| broken(&e))?;
    let tokens = tokenizer.encode_prompt(&prompt).map_err(|e| broken(&e))?;
    Ok((tokens.len() + ANSWER).max(LEAST))
}

/// A context of so many tokens, where at least `need` or [`LEAST`] would have to be.
pub(crate) fn too_short(have: usize, need: Option<usize>, options: &LoadOptions) -> Failure {
    let need = need.unwrap_or(LEAST);
    let what = format!("a context of {have} tokens is too short to answer anything, this model needs {need} at least");
    // A context ends where a block does.
    let asked = options.context_tokens.is_some_and(|asked| (asked as usize) < have + BLOCK_TOKENS);
    let (reason, next) = match (asked, options.kv_cache_bytes) {
        (true, _) => (AgentFailure::InvalidConfiguration, "raise --context-tokens"),
        (false, Some(_)) => {
            (AgentFailure::InvalidConfiguration, "raise --kv-cache, or use a model file with a longer context_length")
        }
        (false, None) => (AgentFailure::InvalidModel, "its file's context_length allows no more: use another file"),
    };
    Failure::new(reason, format!("{what}: {next}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Gguf;
    use crate::grammar::testing::tiny;

    fn checked(length: u32, template: &str, asked: Option<u32>, kv_cache_bytes: Option<u64>) -> Result<usize, String> {
        let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
        writer.without_key("llama.context_length").u32("llama.context_length", length);
        writer.without_key("tokenizer.chat_template").string("tokenizer.chat_template", template);
        let options = LoadOptions { context_tokens: asked, kv_cache_bytes, ..LoadOptions::default() };
        let model = LoadedModel::from_file(&Gguf::from_bytes(writer.finish()).unwrap(), &options).unwrap();
        check(&model, &options).map(|()| model.info.context_tokens as usize).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_too_short_says_why_and_what_to_change() {
        for length in [17, 40, 63] {
            let refused = checked(length, tiny::TEMPLATE, Some(4096), None).unwrap_err();
            assert!(refused.contains(&format!("of {} tokens", length / 16 * 16)), "{refused}");
            assert!(refused.contains("context_length"), "{refused}");
        }
        assert_eq!(checked(64, tiny::TEMPLATE, Some(4096), None), Ok(64));
        // What the template itself says takes room as well.
        let wordy = format!("{}{}", "Be kind. ".repeat(12), tiny::TEMPLATE);
        assert!(checked(100, &wordy, None, None).unwrap_err().contains("of 96 tokens"));
        assert_eq!(checked(200, &wordy, None, None), Ok(192));
        assert!(checked(200, &wordy, Some(100), None).unwrap_err().contains("--context-tokens"));
        let block = 4 * 16 * (tiny::LAYERS * tiny::KV_HEADS * tiny::WIDTH / tiny::HEADS) as u64;
        assert!(checked(200, &wordy, Some(4096), Some(5 * block)).unwrap_err().contains("--kv-cache"));
    }

    /// Such an agent was Ready, and refused every chat.
    #[test]
    fn a_template_that_cannot_take_a_plain_message_is_no_template() {
        for (template, why) in [
            ("{{ raise_exception('nobody may ask') }}", "nobody may ask"),
            ("{{ messages | no_such_filter }}", "filter"),
            ("{{ no_such_function() }}", "line 1"),
            ("{% for m in messages %}{{ m.content.no_such_method() }}{% endfor %}", "line 1"),
        ] {
            let refused = checked(200, template, None, None).unwrap_err();
            for word in [why, "tokenizer.chat_template", "/v1/completions"] {
                assert!(refused.contains(word), "{word}: {refused}");
            }
        }
        // What it refuses on purpose is its own affair.
        let picky = "{% if messages[0].role != 'user' or tools %}{{ raise_exception('no') }}{% endif %}\
                     {{ messages[0].content }}";
        assert_eq!(checked(200, picky, None, None), Ok(192));
        // What is no template at all is refused with the file.
        let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
        writer.without_key("tokenizer.chat_template").string("tokenizer.chat_template", "{% for m in %}");
        let options = LoadOptions::default();
        let error = LoadedModel::from_file(&Gguf::from_bytes(writer.finish()).unwrap(), &options).err().unwrap();
        assert!(error.to_string().contains("tokenizer.chat_template"), "{error}");
    }
}
