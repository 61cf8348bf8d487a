//! What a chat template made, on its way to the tokenizer.

/// A prompt in which the template's control tokens and the callers' words can be told apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Prompt {
    pub(super) text: String,
    /// Stands in control tokens that callers wrote; see [`control`](super::control).
    pub(super) mark: Option<char>,
}

impl Prompt {
    /// As the model's makers would read it.
    pub fn text(&self) -> String {
        self.words(&self.text)
    }

    /// Bytes of [`Self::text`].
    pub fn bytes(&self) -> usize {
        let marks = self.mark.map_or(0, |mark| self.text.matches(mark).count() * mark.len_utf8());
        self.text.len() - marks
    }

    /// A part of it as it was before it was marked.
    pub(super) fn words(&self, part: &str) -> String {
        self.mark.map_or_else(|| part.to_owned(), |mark| part.replace(mark, ""))
    }
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prompt").field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}
