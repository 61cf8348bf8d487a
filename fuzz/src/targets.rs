//! What is fuzzed: each function takes any bytes, and must neither panic nor break what it asserts. The fuzzer calls
//! them (`make fuzz`), and an ordinary test of the agent with the corpus and seeded changes of it.

use std::sync::LazyLock;

use serde_json::{Value, json};
use terrace_agent::gguf::{ChatTemplate, Gguf, Tokenizer, dequantize};
use terrace_agent::model::{Feed, LoadOptions, LoadedModel, Wanted};
use terrace_wire::chat::ChatRequest;
use terrace_wire::completion::CompletionRequest;
use terrace_wire::format::ResponseFormat;
use terrace_wire::json::parse;
use terrace_wire::sse::{Decoder, Event, data_event};
use terrace_wire::tools::{read_choice, read_tools};

use super::tiny::{self, Family, Writer};

/// Every target by its name, which is that of its folder in the corpus.
pub const TARGETS: [(&str, fn(&[u8])); 4] =
    [("gguf", gguf), ("tokenizer", tokenizer), ("template", template), ("wire", wire)];

/// The small model's tokenizer (all bytes, three merges, two control tokens) and its template.
static TINY: LazyLock<(Tokenizer, ChatTemplate)> = LazyLock::new(|| {
    let file = Gguf::from_bytes(tiny::metadata(Family::Llama).finish()).expect("the small model's metadata");
    let tokenizer = Tokenizer::from_metadata(file.metadata()).expect("the small model's tokenizer");
    let template = ChatTemplate::from_metadata(file.metadata(), &tokenizer).expect("the small model's template");
    (tokenizer, template.expect("it has one"))
});

/// A file: its header, its tensors, and if it is a model, one step of it.
pub fn gguf(data: &[u8]) {
    let Ok(file) = Gguf::from_bytes(data.to_vec()) else { return };
    for tensor in file.tensors() {
        let blocks = (tensor.bytes.len() / tensor.kind.block_bytes()).min(2);
        let mut numbers = vec![0.0; blocks * tensor.kind.block_len()];
        dequantize(tensor.kind, &tensor.bytes[..blocks * tensor.kind.block_bytes()], &mut numbers);
    }
    let options = LoadOptions {
        context_tokens: Some(64),
        kv_cache_bytes: Some(1 << 22),
        threads: Some(1),
        ..LoadOptions::default()
    };
    let Ok(mut model) = LoadedModel::from_file(&file, &options) else { return };
    let tokens = [0, model.info.vocabulary as u32 - 1];
    let out = model.network.step(&[Feed {
        blocks: &[0],
        tokens: &tokens,
        position: 0,
        prompt: tokens.len(),
        wanted: Wanted::NEXT,
    }]);
    assert_eq!(out[0].logits[0].len(), model.info.vocabulary);
}

/// The first byte says how the vocabulary is made; then, ended by zero bytes, its pieces and its merges, one a line;
/// then a text.
pub fn tokenizer(data: &[u8]) {
    let Some((&how, data)) = data.split_first() else { return };
    let mut parts = data.splitn(3, |b| *b == 0).map(String::from_utf8_lossy);
    let mut next = || parts.next().unwrap_or_default().into_owned();
    let (pieces, merges, text) = (next(), next(), next());

    // All bytes have tokens: what goes in comes out.
    let whole = &TINY.0;
    let ids = whole.encode(&text).expect("every byte has a token");
    assert!(ids.iter().all(|&id| (id as usize) < whole.vocabulary()));
    if !text.contains("<|") {
        assert_eq!(whole.decode(&ids), text);
    }
    assert_eq!(whole.decode(&whole.encode_document(&text).expect("likewise")), text);

    // Anything else is refused, or works in its way.
    let lines = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
    let tokens = lines(&pieces);
    let types: Vec<i32> = tokens.iter().map(|t| i32::from(t.bytes().last().unwrap_or(1) % 8)).collect();
    let mut file = Writer::default();
    let pre = ["gpt-2", "smollm", "llama-bpe", "qwen2", "default", "none"][usize::from(how >> 1) % 6];
    file.string("tokenizer.ggml.model", if how & 1 == 0 { "gpt2" } else { "llama" });
    file.string("tokenizer.ggml.pre", pre).strings("tokenizer.ggml.tokens", &tokens);
    file.i32s("tokenizer.ggml.token_type", &types).strings("tokenizer.ggml.merges", &lines(&merges));
    let scores: Vec<f32> = tokens.iter().map(|t| -(t.len() as f32)).collect();
    file.f32s("tokenizer.ggml.scores", &scores).bool("tokenizer.ggml.add_bos_token", how & 16 != 0);
    file.bool("tokenizer.ggml.add_space_prefix", how & 32 != 0).u32("tokenizer.ggml.bos_token_id", 0);
    let file = Gguf::from_bytes(file.finish()).expect("it is well formed");
    let Ok(made) = Tokenizer::from_metadata(file.metadata()) else { return };
    for ids in [made.encode(&text), made.encode_document(&text)].into_iter().flatten() {
        assert!(ids.iter().all(|&id| (id as usize) < made.vocabulary()), "{ids:?}");
        made.decode(&ids);
    }
}

/// A template, a zero byte, and messages as JSON. An error never repeats what a message says, and no message writes a
/// control token.
pub fn template(data: &[u8]) {
    const MARKER: &str = "zebrafisk";
    let (tokenizer, chat) = &*TINY;
    let mut parts = data.splitn(2, |b| *b == 0).map(String::from_utf8_lossy);
    let source = parts.next().unwrap_or_default();
    let messages = parts.next().and_then(|m| serde_json::from_str(&m).ok());
    let messages: Vec<Value> = messages.unwrap_or_else(|| vec![json!({"role": "user", "content": MARKER})]);

    if let Ok(prompt) = chat.render(&messages, None) {
        let ids = tokenizer.encode_prompt(&prompt).expect("every byte has a token");
        let controls = ids.iter().filter(|&&id| id as usize >= tiny::VOCABULARY - 2).count();
        assert_eq!(controls, 2 * messages.len() + 1, "{messages:?}");
    }

    let file = Writer::default().string("tokenizer.chat_template", &source).finish();
    let file = Gguf::from_bytes(file).expect("it is well formed");
    let Ok(Some(template)) = ChatTemplate::from_metadata(file.metadata(), tokenizer) else { return };
    match template.render(&messages, None) {
        Ok(prompt) => drop(tokenizer.encode_prompt(&prompt)),
        Err(error) if source.contains(MARKER) => drop(error),
        Err(error) => assert!(!error.to_string().contains(MARKER), "{error}"),
    }
}

/// A request's body, read strictly; or a stream of events, cut anywhere.
pub fn wire(data: &[u8]) {
    if let Ok(value) = parse(data) {
        // Stricter than the usual parser, and of the same mind about what it takes.
        assert_eq!(serde_json::from_slice::<Value>(data).ok().as_ref(), Some(&value));
        let again = serde_json::to_vec(&value).expect("a tree can be written");
        assert_eq!(parse(&again).map(without_fractions), Ok(without_fractions(value.clone())));
        if let Ok(request) = ChatRequest::from_value(value.clone()) {
            request.messages.iter().for_each(|m| drop(m.content.text()));
            request.params.stop.strings();
            if let Ok(tools) = read_tools(request.tools.as_ref()) {
                let _ = read_choice(request.tool_choice.as_ref(), &tools);
            }
            let _ = ResponseFormat::read(request.response_format.as_ref());
        }
        let _ = CompletionRequest::from_value(value);
    }

    let size = data.first().map_or(1, |b| usize::from(b % 16) + 1);
    let whole = Decoder::new().push(data);
    let mut cut = Decoder::new();
    let parts: Result<Vec<Vec<Event>>, _> = data.chunks(size).map(|chunk| cut.push(chunk)).collect();
    assert_eq!(parts.map(|p| p.concat()), whole);
    if let Ok(line) = std::str::from_utf8(data)
        && !line.contains(['\n', '\r'])
    {
        let events = Decoder::new().push(&data_event(line)).expect("our own event");
        assert_eq!(events.iter().map(|e| e.data.as_str()).collect::<Vec<_>>(), [line]);
    }
}

/// The parser may miss the nearest fraction by one in the last place, so those are not compared.
fn without_fractions(value: Value) -> Value {
    match value {
        Value::Number(n) if n.is_f64() => Value::Null,
        Value::Array(items) => items.into_iter().map(without_fractions).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, without_fractions(value))).collect(),
        other => other,
    }
}
