//! Tokens that are found in text as they stand, before anything else is cut.

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::GgufError;
use super::vocabulary::{Kind, TOKENS, Vocabulary};

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// None of the tokens is in it.
    Words(&'a str),
    /// One of them.
    Token(u32),
}

/// The tokens of one kind.
#[derive(Debug)]
pub(super) struct Finder {
    automaton: AhoCorasick,
    /// In ascending order.
    ids: Vec<u32>,
}

impl Finder {
    /// # Errors
    /// When there are too many to search for.
    pub(super) fn new(tokens: impl Iterator<Item = (u32, impl AsRef<[u8]>)>) -> Result<Self, GgufError> {
        let (ids, texts): (Vec<u32>, Vec<_>) = tokens.unzip();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|e| GgufError::key(TOKENS, format!("its special tokens cannot be searched for: {e}")))?;
        Ok(Finder { automaton, ids })
    }

    /// Those that are found in any text.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub(super) fn user_defined(vocabulary: &Vocabulary<'_>) -> Result<Self, GgufError> {
        Finder::new(vocabulary.of(Kind::UserDefined))
    }

    /// Their ids, in ascending order.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Whether an id is one of them.
    pub(super) fn contains(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Where the first one begins at or after `from`.
    pub(super) fn next(&self, text: &str, from: usize) -> Option<usize> {
        self.automaton.find(Input::new(text).range(from..)).map(|found| found.start())
    }

    /// A text in its parts; of tokens that begin at one place the longest.
    pub(super) fn split<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let (mut parts, mut end) = (Vec::new(), 0);
        for found in self.automaton.find_iter(text) {
            if found.start() > end {
                parts.push(Part::Words(&text[end..found.start()]));
            }
            parts.push(Part::Token(self.ids[found.pattern().as_usize()]));
            end = found.end();
        }
        if end < text.len() {
            parts.push(Part::Words(&text[end..]));
        }
        parts
    }
}
