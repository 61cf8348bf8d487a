//! A choice of a chat.

use bytes::BytesMut;
use terrace_wire::chat::{Choice, ChunkChoice, Delta};
use terrace_wire::logprobs::{ChatLogprobs, TokenLogprob};
use terrace_wire::message::AssistantMessage;
use terrace_wire::tools::{FunctionDelta, ToolCall, ToolCallDelta};

use super::logprobs;
use crate::engine::{FinishReason, Piece};
use crate::gguf::Tokenizer;
use crate::server::answer::Envelope;
use crate::server::request::Calls;
use crate::server::tools::ids;
use crate::server::tools::reader::{CallReader, Said};

pub(in crate::server) struct ChatChoice {
    index: u32,
    reader: Option<CallReader>,
    calls: Option<Calls>,
    /// Calls so far.
    called: u32,
    /// Of a whole answer.
    content: String,
    tool_calls: Vec<ToolCall>,
    /// Wanted; those not told yet.
    logprobs: Option<Vec<TokenLogprob>>,
    begun: bool,
    ended: bool,
}

impl ChatChoice {
    pub(super) fn new(index: u32, reader: Option<CallReader>, calls: Option<Calls>, logprobs: bool) -> Self {
        ChatChoice {
            index,
            reader,
            calls,
            called: 0,
            content: String::new(),
            tool_calls: Vec::new(),
            logprobs: logprobs.then(Vec::new),
            begun: false,
            ended: false,
        }
    }

    fn read(&mut self, piece: Piece, tokenizer: &Tokenizer) -> Vec<Said> {
        if let Some(all) = &mut self.logprobs {
            all.extend(logprobs::chat(tokenizer, &piece.tokens));
        }
        match &mut self.reader {
            Some(reader) => reader.push(&piece.text),
            None if piece.text.is_empty() => Vec::new(),
            None => vec![Said::Text(piece.text)],
        }
    }

    fn rest(&mut self) -> Vec<Said> {
        self.reader.as_mut().map(CallReader::finish).unwrap_or_default()
    }

    /// A client takes `tool_calls` for permission to run them all: not where one of them was cut off.
    fn finish(&self, finish: FinishReason) -> &'static str {
        let cut = self.reader.as_ref().is_some_and(CallReader::is_cut);
        if finish == FinishReason::Stop && self.called > 0 && !cut { "tool_calls" } else { finish.as_str() }
    }

    /// Id and name of the next call.
    fn begin(&mut self, tool: usize, answer: &str) -> Option<(String, String)> {
        let calls = self.calls.as_ref()?;
        let id = ids::new(&calls.format, answer, self.index, self.called);
        self.called += 1;
        Some((id, calls.names.get(tool)?.clone()))
    }

    pub(super) fn hear(&mut self, piece: Piece, tokenizer: &Tokenizer, answer: &str) {
        let said = self.read(piece, tokenizer);
        self.keep(said, answer);
    }

    fn keep(&mut self, said: Vec<Said>, answer: &str) {
        for said in said {
            match said {
                Said::Text(text) => self.content.push_str(&text),
                Said::Call(tool, arguments) => {
                    if let Some((id, name)) = self.begin(tool, answer) {
                        self.tool_calls.push(ToolCall::function(id, name, arguments));
                    }
                }
            }
        }
    }

    pub(super) fn whole(mut self, finish: FinishReason, answer: &str) -> (Choice, &'static str) {
        let rest = self.rest();
        self.keep(rest, answer);
        let finish = self.finish(finish);
        let calls = !self.tool_calls.is_empty();
        let message = AssistantMessage {
            role: "assistant".into(),
            content: Some(self.content).filter(|text| !calls || !text.is_empty()),
            tool_calls: calls.then_some(self.tool_calls),
            refusal: None,
        };
        let logprobs = self.logprobs.map(|content| ChatLogprobs { content: Some(content), refusal: None });
        let finish_reason = Some(finish.to_owned());
        (Choice { index: self.index, message, logprobs, finish_reason }, finish)
    }

    pub(super) fn tell(&mut self, piece: Piece, tokenizer: &Tokenizer, envelope: &Envelope, out: &mut BytesMut) {
        self.open(envelope, out);
        let told = out.len();
        let said = self.read(piece, tokenizer);
        self.pass_on(said, envelope, out);
        let reading = self.reader.is_some() && out.len() == told;
        if reading || self.logprobs.as_ref().is_some_and(|left| !left.is_empty()) {
            // Nothing of the text is certain yet, but its tokens are; and a device that is silent while it writes a long
            // call would be taken for one that hangs.
            self.delta(Delta { content: Some(String::new()), ..Delta::default() }, None, envelope, out);
        }
    }

    pub(super) fn end(&mut self, finish: FinishReason, envelope: &Envelope, out: &mut BytesMut) -> &'static str {
        self.open(envelope, out);
        let rest = self.rest();
        self.pass_on(rest, envelope, out);
        let finish = self.finish(finish);
        self.close(finish, envelope, out);
        finish
    }

    pub(super) fn broke(&mut self, envelope: &Envelope, out: &mut BytesMut) {
        if !self.ended {
            self.close("error", envelope, out);
        }
    }

    /// The event that begins it.
    fn open(&mut self, envelope: &Envelope, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.begun, true) {
            let delta = Delta { role: Some("assistant".into()), content: Some(String::new()), ..Delta::default() };
            self.delta(delta, None, envelope, out);
        }
    }

    fn close(&mut self, finish: &str, envelope: &Envelope, out: &mut BytesMut) {
        self.ended = true;
        self.delta(Delta::default(), Some(finish.to_owned()), envelope, out);
    }

    fn pass_on(&mut self, said: Vec<Said>, envelope: &Envelope, out: &mut BytesMut) {
        for said in said {
            match said {
                Said::Text(text) => {
                    self.delta(Delta { content: Some(text), ..Delta::default() }, None, envelope, out);
                }
                Said::Call(tool, arguments) => {
                    let Some((id, name)) = self.begin(tool, &envelope.id) else { continue };
                    let index = self.called - 1;
                    let function = FunctionDelta { name: Some(name), arguments: Some(String::new()) };
                    let begins = ToolCallDelta { index, id: Some(id), r#type: Some("function".into()), function };
                    let function = FunctionDelta { name: None, arguments: Some(arguments) };
                    for call in [begins, ToolCallDelta { index, id: None, r#type: None, function }] {
                        let delta = Delta { tool_calls: Some(vec![call]), ..Delta::default() };
                        self.delta(delta, None, envelope, out);
                    }
                }
            }
        }
    }

    fn delta(&mut self, delta: Delta, finish_reason: Option<String>, envelope: &Envelope, out: &mut BytesMut) {
        let left = self.logprobs.as_mut().map(std::mem::take).filter(|left| !left.is_empty());
        let logprobs = left.map(|content| ChatLogprobs { content: Some(content), refusal: None });
        let choice = ChunkChoice { index: self.index, delta, logprobs, finish_reason };
        out.extend_from_slice(&envelope.event(vec![choice]));
    }
}
