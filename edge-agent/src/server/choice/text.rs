//! A choice of a text completion.

use bytes::BytesMut;
use terrace_wire::completion::CompletionChoice;
use terrace_wire::logprobs::TextLogprobs;

use super::logprobs;
use crate::engine::{FinishReason, Piece};
use crate::gguf::Tokenizer;
use crate::server::answer::Envelope;

pub(in crate::server) struct TextChoice {
    index: u32,
    /// What is not told yet: the echoed prompt first, then, of a whole answer, all of it.
    text: String,
    /// Alternatives a token.
    alternatives: Option<u8>,
    logprobs: TextLogprobs,
    offset: u32,
    ended: bool,
}

impl TextChoice {
    pub(super) fn new(index: u32, echo: String, alternatives: Option<u8>) -> Self {
        let offset = echo.chars().count() as u32;
        TextChoice { index, text: echo, alternatives, logprobs: TextLogprobs::default(), offset, ended: false }
    }

    fn logprobs(&mut self, piece: &Piece, tokenizer: &Tokenizer) -> Option<TextLogprobs> {
        self.alternatives.map(|n| logprobs::text(tokenizer, &piece.tokens, n, &mut self.offset))
    }

    pub(super) fn hear(&mut self, piece: Piece, tokenizer: &Tokenizer) {
        if let Some(more) = self.logprobs(&piece, tokenizer) {
            logprobs::append(&mut self.logprobs, more);
        }
        self.text.push_str(&piece.text);
    }

    pub(super) fn whole(self, finish: FinishReason) -> CompletionChoice {
        let logprobs = self.alternatives.map(|_| self.logprobs);
        let finish_reason = Some(finish.as_str().to_owned());
        CompletionChoice { index: self.index, text: self.text, logprobs, finish_reason }
    }

    pub(super) fn tell(&mut self, piece: Piece, tokenizer: &Tokenizer, envelope: &Envelope, out: &mut BytesMut) {
        let logprobs = self.logprobs(&piece, tokenizer);
        let text = std::mem::take(&mut self.text) + &piece.text;
        if !text.is_empty() || logprobs.is_some() {
            let choice = CompletionChoice { index: self.index, text, logprobs, finish_reason: None };
            out.extend_from_slice(&envelope.event(vec![choice]));
        }
    }

    pub(super) fn end(&mut self, finish: &'static str, envelope: &Envelope, out: &mut BytesMut) -> &'static str {
        self.ended = true;
        let (text, finish_reason) = (std::mem::take(&mut self.text), Some(finish.to_owned()));
        let choice = CompletionChoice { index: self.index, text, logprobs: None, finish_reason };
        out.extend_from_slice(&envelope.event(vec![choice]));
        finish
    }

    pub(super) fn broke(&mut self, envelope: &Envelope, out: &mut BytesMut) {
        if !self.ended {
            self.end("error", envelope, out);
        }
    }
}
