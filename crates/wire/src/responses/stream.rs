//! A streamed chat completion as the events of the Responses API, one by one.
//!
//! Each new part goes out at once. What was said is kept beside it, since the API's closing events repeat it.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::answer::{call_id, call_item, end, item_status, message_id, message_item, refusal_part, text_part};
use super::request::Echo;
use crate::messages::UNORDERED;
use crate::passing::Choice;
use crate::sse;
use crate::translated::{CUT, Said, is_whole};

/// The stream of one response.
pub struct Stream {
    id: String,
    head: Map<String, Value>,
    begun: bool,
    sequence: u64,
    /// Items that are whole.
    output: Vec<Value>,
    open: Option<Open>,
    /// Calls that have begun; those before the open one are whole.
    calls: u64,
    finish: String,
}

enum Open {
    Text { text: String, logprobs: Vec<Value> },
    Refusal { text: String },
    Call { index: u64, call: String, name: String, arguments: String },
}

impl Stream {
    /// A response that has not begun.
    pub fn new(id: &str, created: u64, model: &str, echo: &Echo) -> Self {
        let head = echo.head(id, created, model);
        let (output, finish) = (Vec::new(), String::new());
        Self { id: id.to_owned(), head, begun: false, sequence: 0, output, open: None, calls: 0, finish }
    }

    /// The events for these choices of a chunk; only the first choice has a counterpart.
    ///
    /// # Errors
    /// [`UNORDERED`], [`CUT`].
    pub fn chunk(&mut self, choices: &[Choice], out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        self.begin(out);
        for said in Said::each(choices) {
            self.text(said.content(), said.logprobs(), out)?;
            self.refusal(said.refusal(), out)?;
            for call in said.calls() {
                self.call(call, out)?;
            }
            if let Some(finish) = said.finish() {
                finish.clone_into(&mut self.finish);
                // One that ran into its limit is told as incomplete.
                if item_status(finish) == "completed" && self.is_cut() {
                    return Err(CUT);
                }
            }
        }
        Ok(())
    }

    /// The events that end a response well. `used` is a chat completion's `usage`.
    pub fn end(&mut self, used: &Value, cost_micros: u64, out: &mut impl Extend<Bytes>) {
        self.begin(out);
        self.close(out);
        let mut response = std::mem::take(&mut self.head);
        end(&mut response, &self.finish, std::mem::take(&mut self.output), Some(used));
        response.insert("terrace".into(), json!({"costMicros": cost_micros}));
        let kind = if item_status(&self.finish) == "completed" { "response.completed" } else { "response.incomplete" };
        self.tell(kind, json!({ "response": response }), out);
    }

    /// The event that ends a response that broke off.
    pub fn broken(&mut self, message: &str, out: &mut impl Extend<Bytes>) {
        self.begin(out);
        let mut response = std::mem::take(&mut self.head);
        response.insert("status".into(), "failed".into());
        response.insert("error".into(), json!({"code": "server_error", "message": message}));
        response.insert("output".into(), Value::Array(std::mem::take(&mut self.output)));
        self.tell("response.failed", json!({ "response": response }), out);
    }

    fn begin(&mut self, out: &mut impl Extend<Bytes>) {
        if !std::mem::replace(&mut self.begun, true) {
            let response = json!({ "response": self.head });
            self.tell("response.created", response.clone(), out);
            self.tell("response.in_progress", response, out);
        }
    }

    fn text(&mut self, more: &str, likely: Option<&Value>, out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        if more.is_empty() {
            return Ok(());
        }
        if !matches!(self.open, Some(Open::Text { .. })) {
            self.leave(out)?;
            self.open_message(text_part("", Vec::new()), out);
            self.open = Some(Open::Text { text: String::new(), logprobs: Vec::new() });
        }
        let likely = likely.and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(Open::Text { text, logprobs }) = &mut self.open {
            text.push_str(more);
            logprobs.extend(likely.iter().cloned());
        }
        let data = json!({"item_id": message_id(&self.id, self.output.len()), "content_index": 0, "delta": more, "logprobs": likely});
        self.of_item("response.output_text.delta", data, out);
        Ok(())
    }

    fn refusal(&mut self, more: &str, out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        if more.is_empty() {
            return Ok(());
        }
        if !matches!(self.open, Some(Open::Refusal { .. })) {
            self.leave(out)?;
            self.open_message(refusal_part(""), out);
            self.open = Some(Open::Refusal { text: String::new() });
        }
        if let Some(Open::Refusal { text }) = &mut self.open {
            text.push_str(more);
        }
        let data = json!({"item_id": message_id(&self.id, self.output.len()), "content_index": 0, "delta": more});
        self.of_item("response.refusal.delta", data, out);
        Ok(())
    }

    fn call(&mut self, delta: &Value, out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        let index = delta.get("index").and_then(Value::as_u64).unwrap_or(0);
        if !matches!(self.open, Some(Open::Call { index: open, .. }) if open == index) {
            // A call begins with its name, and only once.
            let name = delta.pointer("/function/name").and_then(Value::as_str);
            let (Some(name), true) = (name, index >= self.calls) else { return Err(UNORDERED) };
            self.leave(out)?;
            self.calls = index + 1;
            let call = delta.get("id").and_then(Value::as_str).map_or_else(|| format!("call_{index}"), str::to_owned);
            let item = call_item(&self.id, self.output.len(), "in_progress", &call, name, "");
            self.of_item("response.output_item.added", json!({ "item": item }), out);
            self.open = Some(Open::Call { index, call, name: name.to_owned(), arguments: String::new() });
        }
        let more = delta.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
        if more.is_empty() {
            return Ok(());
        }
        if let Some(Open::Call { arguments, .. }) = &mut self.open {
            arguments.push_str(more);
        }
        let data = json!({"item_id": call_id(&self.id, self.output.len()), "delta": more});
        self.of_item("response.function_call_arguments.delta", data, out);
        Ok(())
    }

    fn open_message(&mut self, part: Value, out: &mut impl Extend<Bytes>) {
        let at = self.output.len();
        let item = message_item(&self.id, at, "in_progress", None);
        self.of_item("response.output_item.added", json!({ "item": item }), out);
        let data = json!({"item_id": message_id(&self.id, at), "content_index": 0, "part": part});
        self.of_item("response.content_part.added", data, out);
    }

    /// Ends the open item because another one begins.
    fn leave(&mut self, out: &mut impl Extend<Bytes>) -> Result<(), &'static str> {
        if self.is_cut() {
            return Err(CUT);
        }
        self.close(out);
        Ok(())
    }

    /// Whether what is open is a call that nobody could carry out.
    fn is_cut(&self) -> bool {
        matches!(&self.open, Some(Open::Call { arguments, .. }) if !is_whole(arguments))
    }

    /// Ends the open item.
    fn close(&mut self, out: &mut impl Extend<Bytes>) {
        let Some(open) = self.open.take() else { return };
        let (at, status) = (self.output.len(), item_status(&self.finish));
        let id = message_id(&self.id, at);
        let item = match open {
            Open::Text { text, logprobs } => {
                let done = json!({"item_id": id, "content_index": 0, "text": text, "logprobs": logprobs});
                self.of_item("response.output_text.done", done, out);
                self.close_part(&id, text_part(&text, logprobs), status, out)
            }
            Open::Refusal { text } => {
                let done = json!({"item_id": id, "content_index": 0, "refusal": text});
                self.of_item("response.refusal.done", done, out);
                self.close_part(&id, refusal_part(&text), status, out)
            }
            Open::Call { call, name, arguments, .. } => {
                let done = json!({"item_id": call_id(&self.id, at), "name": name, "arguments": arguments});
                self.of_item("response.function_call_arguments.done", done, out);
                call_item(&self.id, at, status, &call, &name, &arguments)
            }
        };
        self.of_item("response.output_item.done", json!({ "item": item }), out);
        self.output.push(item);
    }

    fn close_part(&mut self, id: &str, part: Value, status: &str, out: &mut impl Extend<Bytes>) -> Value {
        let item = message_item(&self.id, self.output.len(), status, Some(part.clone()));
        self.of_item("response.content_part.done", json!({"item_id": id, "content_index": 0, "part": part}), out);
        item
    }

    /// An event about the item that is open.
    fn of_item(&mut self, kind: &str, mut data: Value, out: &mut impl Extend<Bytes>) {
        data["output_index"] = self.output.len().into();
        self.tell(kind, data, out);
    }

    fn tell(&mut self, kind: &str, mut data: Value, out: &mut impl Extend<Bytes>) {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.extend([sse::named_event(kind, &data)]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::to_chat;
    use super::*;

    fn stream() -> Stream {
        let echo = to_chat(&json!({"model": "auto", "input": "hi"})).unwrap().1;
        Stream::new("r1", 7, "small", &echo)
    }

    fn read(events: &[Bytes]) -> Vec<Value> {
        let mut decoder = sse::Decoder::new();
        let events: Vec<sse::Event> = events.iter().flat_map(|bytes| decoder.push(bytes).unwrap()).collect();
        let json = |(number, event): (usize, &sse::Event)| {
            let data: Value = serde_json::from_str(&event.data).unwrap();
            assert_eq!(event.event.as_deref(), data["type"].as_str(), "the event is named as it says itself");
            assert_eq!(data["sequence_number"], number);
            data
        };
        events.iter().enumerate().map(json).collect()
    }

    fn choice(delta: Value, finish: Value) -> Choice {
        serde_json::from_value(json!({"index": 0, "delta": delta, "finish_reason": finish})).unwrap()
    }

    fn call(index: u64, function: Value) -> Value {
        json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": function}]})
    }

    #[test]
    fn text_and_calls_are_items_one_after_another() {
        let (mut stream, mut out) = (stream(), Vec::new());
        for delta in [
            json!({"role": "assistant", "content": ""}),
            json!({"content": "a"}),
            json!({"content": "b"}),
            call(0, json!({"name": "f", "arguments": "{\"x\""})),
            call(0, json!({"arguments": ":1}"})),
            call(1, json!({"name": "g", "arguments": "{}"})),
        ] {
            stream.chunk(&[choice(delta, Value::Null)], &mut out).unwrap();
        }
        stream.chunk(&[choice(json!({}), json!("tool_calls"))], &mut out).unwrap();
        stream.end(&json!({"prompt_tokens": 11, "completion_tokens": 3}), 17, &mut out);
        let events = read(&out);
        let kinds: Vec<&str> =
            events.iter().map(|e| e["type"].as_str().unwrap().trim_start_matches("response.")).collect();
        let want = [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ];
        assert_eq!(kinds, want);
        assert_eq!((&events[5]["delta"], &events[6]["text"]), (&json!("b"), &json!("ab")));
        assert_eq!((&events[11]["output_index"], &events[12]["arguments"]), (&json!(1), &json!("{\"x\":1}")));
        let response = &events[18]["response"];
        let done: Vec<Value> =
            events.iter().filter(|e| e["type"] == "response.output_item.done").map(|e| e["item"].clone()).collect();
        assert_eq!((&response["output"], &response["status"]), (&Value::Array(done), &json!("completed")));
        assert_eq!((&response["usage"]["total_tokens"], &response["terrace"]["costMicros"]), (&json!(14), &json!(17)));
        assert_eq!(events[0]["response"]["status"], "in_progress");
    }

    #[test]
    fn a_call_whose_arguments_are_cut_is_never_told_as_completed() {
        let half = || choice(call(0, json!({"name": "f", "arguments": "{\"a\":"})), Value::Null);
        let next = choice(call(1, json!({"name": "g", "arguments": "{}"})), Value::Null);
        for then in [next, choice(json!({"content": "b"}), Value::Null), choice(json!({}), json!("tool_calls"))] {
            let (mut stream, mut out) = (stream(), Vec::new());
            stream.chunk(&[half()], &mut out).unwrap();
            assert_eq!(stream.chunk(&[then], &mut out), Err(CUT));
            stream.broken("tier x: broke", &mut out);
            let kinds: Vec<Value> = read(&out).iter().map(|event| event["type"].clone()).collect();
            assert!(!kinds.iter().any(|kind| kind.as_str().unwrap().ends_with(".done")), "{kinds:?}");
            assert_eq!(kinds.last().unwrap(), "response.failed");
        }
        // One that ran into its limit is incomplete, and says so.
        let (mut limit, mut out) = (stream(), Vec::new());
        limit.chunk(&[half(), choice(json!({}), json!("length"))], &mut out).unwrap();
        limit.end(&json!({}), 0, &mut out);
        assert_eq!(read(&out).pop().unwrap()["response"]["output"][0]["status"], "incomplete");
    }

    #[test]
    fn each_chunk_is_told_at_once() {
        let mut stream = stream();
        let mut seen = 0;
        let mut out = Vec::new();
        for text in ["a", "b", "c"] {
            stream.chunk(&[choice(json!({ "content": text }), Value::Null)], &mut out).unwrap();
            let events = read(&out);
            assert!(events.len() > seen && events.last().unwrap()["delta"] == text);
            seen = events.len();
        }
    }

    #[test]
    fn cut_refused_and_broken_answers_say_so() {
        let (mut cut, mut out) = (stream(), Vec::new());
        cut.chunk(&[choice(json!({"content": "a"}), json!("length"))], &mut out).unwrap();
        cut.end(&json!({}), 0, &mut out);
        let last = read(&out).pop().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["output"][0]["status"]),
            (&json!("response.incomplete"), &json!("incomplete"))
        );

        let (mut refused, mut out) = (stream(), Vec::new());
        refused.chunk(&[choice(json!({"refusal": "no"}), json!("stop"))], &mut out).unwrap();
        refused.end(&json!({}), 0, &mut out);
        let last = read(&out).pop().unwrap();
        assert_eq!(last["response"]["output"][0]["content"][0], json!({"type": "refusal", "refusal": "no"}));

        let (mut broken, mut out) = (stream(), Vec::new());
        broken.chunk(&[choice(call(1, json!({"name": "f"})), Value::Null)], &mut out).unwrap();
        assert_eq!(broken.chunk(&[choice(call(0, json!({"name": "g"})), Value::Null)], &mut out), Err(UNORDERED));
        broken.broken("tier x: broke", &mut out);
        let last = read(&out).pop().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["error"]["message"]),
            (&json!("response.failed"), &json!("tier x: broke"))
        );
    }
}
