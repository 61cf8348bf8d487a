//! For tests: a vocabulary of bytes, and whether a grammar takes a text.

#[path = "../../tests/support/tiny.rs"]
pub(crate) mod tiny;

use std::sync::Arc;

use serde_json::Value;

use super::{Compiled, Grammar, Grammars};
use crate::gguf::{Gguf, Tokenizer};

/// The small model's vocabulary: a token for each byte, a few longer ones, `<|im_start|>` (259) and `<|im_end|>`, which ends
/// an answer.
pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    let file = Gguf::from_bytes(tiny::metadata(tiny::Family::Llama).finish()).unwrap();
    Arc::new(Tokenizer::from_metadata(file.metadata()).unwrap())
}

/// Grammars over it.
pub(crate) fn grammars() -> Grammars {
    Grammars::new(tokenizer())
}

/// A control token of [`tokenizer`].
pub(crate) const CONTROL: u32 = 259;

/// How a grammar takes a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It may end here.
    Whole,
    /// It may go on, but not end.
    Part,
    /// Not from this byte on.
    Not(usize),
}

/// Reads a text byte by byte; `control` stands for [`CONTROL`].
pub(crate) fn takes(grammar: &Compiled, text: &str, control: &str) -> Taken {
    let mut constraint = grammar.begin();
    let (mut complete, mut at) = (false, 0);
    while at < text.len() {
        let marked = !control.is_empty() && text[at..].starts_with(control);
        let token = if marked { CONTROL } else { u32::from(text.as_bytes()[at]) };
        if complete || !allows(constraint.allowed().unwrap(), token) {
            return Taken::Not(at);
        }
        complete = constraint.commit(token).unwrap();
        at += if marked { control.len() } else { 1 };
        while !text.is_char_boundary(at) {
            let token = u32::from(text.as_bytes()[at]);
            if complete || !allows(constraint.allowed().unwrap(), token) {
                return Taken::Not(at);
            }
            complete = constraint.commit(token).unwrap();
            at += 1;
        }
    }
    if complete || allows(constraint.allowed().unwrap(), 260) { Taken::Whole } else { Taken::Part }
}

fn allows(allowed: &[u32], token: u32) -> bool {
    allowed.get(token as usize / 32).is_some_and(|word| word & (1 << (token % 32)) != 0)
}

/// Whether a schema takes these answers, and none of those.
pub(crate) fn keeps(grammars: &Grammars, schema: &Value, yes: &[&str], no: &[&str]) {
    let compiled = grammars.compile(&Grammar::schema(schema.clone()));
    let compiled = compiled.unwrap_or_else(|_| panic!("{schema}: {:?}", grammars.fault(schema)));
    for text in yes {
        assert_eq!(takes(&compiled, text, ""), Taken::Whole, "{schema}: {text}");
    }
    for text in no {
        assert_ne!(takes(&compiled, text, ""), Taken::Whole, "{schema}: {text}");
    }
}
