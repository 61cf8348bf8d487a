//! Log-probabilities of an answer's tokens as the wire has them.

use std::collections::BTreeMap;

use terrace_wire::logprobs::{Logprob, TextLogprobs, TokenLogprob};

use crate::engine;
use crate::gguf::Tokenizer;

/// As chats have them.
pub(super) fn chat(tokenizer: &Tokenizer, tokens: &[engine::TokenLogprob]) -> Vec<TokenLogprob> {
    let entry = |id: u32, logprob: f32| {
        let bytes = tokenizer.bytes(id);
        Logprob { token: String::from_utf8_lossy(bytes).into_owned(), logprob, bytes: Some(bytes.to_vec()) }
    };
    let token = |t: &engine::TokenLogprob| TokenLogprob {
        sampled: entry(t.id, t.logprob),
        top_logprobs: t.top.iter().map(|(id, logprob)| entry(*id, *logprob)).collect(),
    };
    tokens.iter().map(token).collect()
}

/// As text completions have them. `offset` is where the first begins in the choice's text, in characters; it is moved
/// past the last.
pub(super) fn text(
    tokenizer: &Tokenizer,
    tokens: &[engine::TokenLogprob],
    alternatives: u8,
    offset: &mut u32,
) -> TextLogprobs {
    let mut out = TextLogprobs { top_logprobs: (alternatives > 0).then(Vec::new), ..TextLogprobs::default() };
    let mut bytes = Vec::new();
    for token in tokens {
        let so_far = String::from_utf8_lossy(&bytes).chars().count() as u32;
        out.text_offset.push(*offset + so_far);
        out.tokens.push(name(tokenizer, token.id));
        out.token_logprobs.push(token.logprob);
        if let Some(top) = &mut out.top_logprobs {
            top.push(token.top.iter().map(|(id, l)| (name(tokenizer, *id), *l)).collect::<BTreeMap<_, _>>());
        }
        bytes.extend_from_slice(tokenizer.bytes(token.id));
    }
    *offset += String::from_utf8_lossy(&bytes).chars().count() as u32;
    out
}

/// A token's text; its bytes where it is not whole characters, so that names stay apart.
fn name(tokenizer: &Tokenizer, id: u32) -> String {
    let bytes = tokenizer.bytes(id);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() => text.to_owned(),
        Ok(_) => tokenizer.control_text(id).unwrap_or_default().to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |name, byte| format!("{name}\\x{byte:02x}")),
    }
}

/// Puts more behind what there is.
pub(super) fn append(all: &mut TextLogprobs, more: TextLogprobs) {
    all.tokens.extend(more.tokens);
    all.token_logprobs.extend(more.token_logprobs);
    all.text_offset.extend(more.text_offset);
    if let Some(top) = more.top_logprobs {
        all.top_logprobs.get_or_insert_default().extend(top);
    }
}
