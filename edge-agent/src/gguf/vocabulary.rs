//! The list of tokens as a file gives it, before a tokenizer is made of it.

use super::{GgufError, Metadata};

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
/// Bytes of a token at most: none of a model comes near, and what is made of a vocabulary grows with their square.
const LONGEST: usize = 1024;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A piece of text.
    Normal,
    /// Stands for what the vocabulary has no pieces for.
    Unknown,
    /// Structure of a prompt, that no text can stand for.
    Control,
    /// A piece of text that is found before any other cut is made.
    UserDefined,
    /// One byte, for characters without a piece.
    Byte,
    /// Room that a converter left.
    Unused,
}

/// Texts that end a turn in one of the supported families, whatever the file names as its end token. Some converters
/// call them user-defined.
const END_OF_TURN: [&str; 10] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<eos>",
    "</s>",
];

/// Tokens in order of their ids.
pub(super) struct Vocabulary<'a> {
    pub(super) texts: &'a [String],
    pub(super) kinds: Vec<Kind>,
    metadata: &'a Metadata,
}

impl<'a> Vocabulary<'a> {
    /// # Errors
    /// When the list is missing or empty, or its types are not as many.
    pub(super) fn from_metadata(metadata: &'a Metadata) -> Result<Self, GgufError> {
        let texts = metadata.strings(TOKENS)?;
        if texts.is_empty() {
            return Err(GgufError::key(TOKENS, "is empty"));
        }
        if let Some((id, text)) = texts.iter().enumerate().find(|(_, text)| text.len() > LONGEST) {
            return Err(GgufError::key(TOKENS, format!("token {id} has {} bytes; {LONGEST} is the most", text.len())));
        }
        let types = metadata.optional_integers(TYPES)?;
        if let Some(types) = types
            && types.len() != texts.len()
        {
            return Err(GgufError::key(TYPES, format!("has {} entries for {} tokens", types.len(), texts.len())));
        }
        let kind = |(id, text): (usize, &String)| match types.map_or(1, |types| types[id]) {
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 if looks_like_control(text) => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Normal,
        };
        let kinds = texts.iter().enumerate().map(kind).collect();
        Ok(Vocabulary { texts, kinds, metadata })
    }

    /// Ids and texts of one kind; without empty texts.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = (u32, &'a str)> {
        let all = self.texts.iter().zip(&self.kinds).enumerate();
        all.filter(move |(_, (text, k))| **k == kind && !text.is_empty())
            .map(|(id, (text, _))| (id as u32, text.as_str()))
    }

    /// The token that `tokenizer.ggml.<name>_token_id` names.
    ///
    /// # Errors
    /// When it is outside the vocabulary.
    pub(super) fn named(&self, name: &str) -> Result<Option<u32>, GgufError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        match self.metadata.optional_u32(&key)? {
            Some(id) if id as usize >= self.texts.len() => {
                Err(GgufError::key(key, format!("token {id} is not in the vocabulary of {}", self.texts.len())))
            }
            id => Ok(id),
        }
    }

    /// Tokens that end an answer by their text.
    pub(super) fn end_of_turn(&self) -> impl Iterator<Item = u32> {
        self.of(Kind::Control).filter(|(_, text)| END_OF_TURN.contains(text)).map(|(id, _)| id)
    }
}

/// Whether a user-defined token is one of control all the same.
fn looks_like_control(text: &str) -> bool {
    let barred = |open: &str, close: &str| {
        text.len() > open.len() + close.len() && text.starts_with(open) && text.ends_with(close)
    };
    barred("<|", "|>") || barred("<｜", "｜>") || END_OF_TURN.contains(&text) || text == "<start_of_turn>"
}
