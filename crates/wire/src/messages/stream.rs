//! A streamed chat completion as the events of Anthropic's stream, one by one.

use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::{head, stop_reason, usage};
use super::error;
use crate::error::{Code, ErrorBody};
use crate::passing::Choice;
use crate::sse;
use crate::translated::{CUT, Said, is_whole};

/// What a tier streams that no order of blocks can tell.
pub const UNORDERED: &str = "the tier went back to a call that it had left";

/// The stream of one message. Blocks come one after another: text, or a call of a tool.
#[derive(Debug)]
pub struct Stream {
    begun: bool,
    head: Value,
    open: Option<Open>,
    /// Of the call that is open.
    arguments: String,
    /// Index of the next block.
    next: u64,
    /// Calls that have begun; those before the open one are closed.
    calls: u64,
    refused: bool,
    finish: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Call(u64),
}

impl Stream {
    /// A message that has not begun. `input_tokens` is an estimate; the last event but one has the figure.
    pub fn new(id: &str, model: &str, input_tokens: u64) -> Self {
        let mut head = head(id, model);
        head.insert("usage".into(), usage(Some(&json!({"prompt_tokens": input_tokens}))));
        let (head, arguments, finish) = (Value::Object(head), String::new(), String::new());
        Self { begun: false, head, open: None, arguments, next: 0, calls: 0, refused: false, finish }
    }

    /// The events for these choices of a chunk; only the first choice has a counterpart.
    ///
    /// # Errors
    /// [`UNORDERED`], [`CUT`].
    pub fn chunk(&mut self, choices: &[Choice], out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        self.begin(out);
        for said in Said::each(choices) {
            self.text(said.content(), out)?;
            self.refused |= !said.refusal().is_empty();
            self.text(said.refusal(), out)?;
            for call in said.calls() {
                self.call(call, out)?;
            }
            if let Some(finish) = said.finish() {
                finish.clone_into(&mut self.finish);
                // Of one that ran into its limit the reason to stop says so.
                if !matches!(finish, "length" | "content_filter") && self.is_cut() {
                    return Err(CUT);
                }
            }
        }
        Ok(())
    }

    /// The events that end a message well. `used` is a chat completion's `usage`.
    pub fn end(&mut self, used: &Value, cost_micros: u64, out: &mut impl Extend<Bytes>) {
        self.begin(out);
        self.close(out);
        let reason = stop_reason(&self.finish, self.calls > 0, self.refused);
        let delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": usage(Some(used)),
            "terrace": {"costMicros": cost_micros},
        });
        out.extend([event(&delta), event(&json!({"type": "message_stop"}))]);
    }

    /// The event that ends a message that broke off.
    pub fn broken(&mut self, code: Code, body: &ErrorBody, out: &mut impl Extend<Bytes>) {
        self.begin(out);
        out.extend([event(&error(code, body, None))]);
    }

    fn begin(&mut self, out: &mut impl Extend<Bytes>) {
        if !std::mem::replace(&mut self.begun, true) {
            let start = json!({"type": "message_start", "message": self.head.take()});
            out.extend([event(&start), event(&json!({"type": "ping"}))]);
        }
    }

    fn text(&mut self, text: &str, out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open != Some(Open::Text) {
            self.open(Open::Text, json!({"type": "text", "text": ""}), out)?;
        }
        self.delta(json!({"type": "text_delta", "text": text}), out);
        Ok(())
    }

    fn call(&mut self, call: &Value, out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        let index = call.get("index").and_then(Value::as_u64).unwrap_or(0);
        if self.open != Some(Open::Call(index)) {
            // A call begins with its name, and only once.
            let name = call.pointer("/function/name").and_then(Value::as_str);
            let (Some(name), true) = (name, index >= self.calls) else { return Err(UNORDERED) };
            let id = call.get("id").and_then(Value::as_str).map_or_else(|| format!("call_{index}"), str::to_owned);
            self.calls = index + 1;
            self.open(Open::Call(index), json!({"type": "tool_use", "id": id, "name": name, "input": {}}), out)?;
        }
        match call.pointer("/function/arguments").and_then(Value::as_str) {
            None | Some("") => {}
            Some(more) => {
                self.arguments.push_str(more);
                self.delta(json!({"type": "input_json_delta", "partial_json": more}), out);
            }
        }
        Ok(())
    }

    fn open(&mut self, what: Open, block: Value, out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        if self.is_cut() {
            return Err(CUT);
        }
        self.close(out);
        self.arguments.clear();
        let start = json!({"type": "content_block_start", "index": self.next, "content_block": block});
        out.extend([event(&start)]);
        self.open = Some(what);
        self.next += 1;
        Ok(())
    }

    /// Whether what is open is a call that nobody could carry out.
    fn is_cut(&self) -> bool {
        matches!(self.open, Some(Open::Call(_))) && !is_whole(&self.arguments)
    }

    fn delta(&self, delta: Value, out: &mut impl Extend<Bytes>) {
        let index = self.next.saturating_sub(1);
        out.extend([event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))]);
    }

    fn close(&mut self, out: &mut impl Extend<Bytes>) {
        if self.open.take().is_some() {
            out.extend([event(&json!({"type": "content_block_stop", "index": self.next.saturating_sub(1)}))]);
        }
    }
}

fn event(data: &Value) -> Bytes {
    sse::named_event(data.get("type").and_then(Value::as_str).unwrap_or_default(), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[Bytes]) -> Vec<Value> {
        let mut decoder = sse::Decoder::new();
        let events: Vec<sse::Event> = events.iter().flat_map(|bytes| decoder.push(bytes).unwrap()).collect();
        let json = |event: &sse::Event| {
            let data: Value = serde_json::from_str(&event.data).unwrap();
            assert_eq!(event.event.as_deref(), data["type"].as_str(), "the event is named as it says itself");
            data
        };
        events.iter().map(json).collect()
    }

    fn choice(delta: Value, finish: Value) -> Choice {
        serde_json::from_value(json!({"index": 0, "delta": delta, "finish_reason": finish})).unwrap()
    }

    fn call(index: u64, function: Value) -> Value {
        json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": function}]})
    }

    #[test]
    fn text_and_calls_are_blocks_one_after_another() {
        let mut stream = Stream::new("r1", "small", 5);
        let mut out = Vec::new();
        for delta in [
            json!({"role": "assistant", "content": ""}),
            json!({"content": "a"}),
            json!({"content": "b"}),
            call(0, json!({"name": "f", "arguments": ""})),
            call(0, json!({"arguments": "{\"x\""})),
            call(0, json!({"arguments": ":1}"})),
            call(1, json!({"name": "g", "arguments": "{}"})),
        ] {
            stream.chunk(&[choice(delta, Value::Null)], &mut out).unwrap();
        }
        stream.chunk(&[choice(json!({}), json!("tool_calls"))], &mut out).unwrap();
        stream.end(&json!({"prompt_tokens": 11, "completion_tokens": 3}), 17, &mut out);
        let zero = json!({"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0});
        let used = json!({"input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3});
        let start =
            |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
        let tool = |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let want = [
            json!({"type": "message_start", "message": {"id": "msg_r1", "type": "message", "role": "assistant",
                "model": "small", "content": [], "stop_reason": null, "stop_sequence": null, "usage": zero}}),
            json!({"type": "ping"}),
            start(0, json!({"type": "text", "text": ""})),
            delta(0, json!({"type": "text_delta", "text": "a"})),
            delta(0, json!({"type": "text_delta", "text": "b"})),
            stop(0),
            start(1, tool("c0", "f")),
            delta(1, json!({"type": "input_json_delta", "partial_json": "{\"x\""})),
            delta(1, json!({"type": "input_json_delta", "partial_json": ":1}"})),
            stop(1),
            start(2, tool("c1", "g")),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{}"})),
            stop(2),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": used,
                "terrace": {"costMicros": 17}}),
            json!({"type": "message_stop"}),
        ];
        assert_eq!(read(&out), want);
    }

    #[test]
    fn a_block_of_a_call_whose_arguments_are_cut_is_never_stopped() {
        let half = choice(call(0, json!({"name": "f", "arguments": "{\"a\":"})), Value::Null);
        let next = choice(call(1, json!({"name": "g", "arguments": "{}"})), Value::Null);
        for then in [next, choice(json!({"content": "b"}), Value::Null), choice(json!({}), json!("tool_calls"))] {
            let (mut stream, mut out) = (Stream::new("r1", "small", 5), Vec::new());
            stream.chunk(std::slice::from_ref(&half), &mut out).unwrap();
            assert_eq!(stream.chunk(&[then], &mut out), Err(CUT));
            stream.broken(Code::UpstreamFailed, &ErrorBody::new(Code::UpstreamFailed, "tier x: broke"), &mut out);
            let events = read(&out);
            assert!(!events.iter().any(|event| event["type"] == "content_block_stop"), "{events:?}");
            assert_eq!(events.last().unwrap()["type"], "error");
        }
    }

    #[test]
    fn each_chunk_is_told_at_once() {
        let mut stream = Stream::new("r1", "small", 5);
        for text in ["a", "b", "c"] {
            let mut out = Vec::new();
            stream.chunk(&[choice(json!({ "content": text }), Value::Null)], &mut out).unwrap();
            assert_eq!(read(&out).last().unwrap()["delta"]["text"], text);
        }
    }

    #[test]
    fn what_no_order_of_blocks_can_tell_is_an_error() {
        let mut out = Vec::new();
        let mut stream = Stream::new("r1", "small", 5);
        let mut say = |delta: Value| stream.chunk(&[choice(delta, Value::Null)], &mut out);
        say(call(0, json!({"name": "f"}))).unwrap();
        say(call(1, json!({"name": "g"}))).unwrap();
        assert_eq!(say(call(0, json!({"arguments": "{}"}))), Err(UNORDERED));
        assert_eq!(say(call(2, json!({"arguments": "{}"}))), Err(UNORDERED), "a call without a name");
        stream.broken(Code::UpstreamFailed, &ErrorBody::new(Code::UpstreamFailed, "tier x: broke"), &mut out);
        let last = read(&out).pop().unwrap();
        assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("api_error")));
    }
}
