//! A writer of GGUF files, and small models made with it, one of each architecture: two layers of random weights and a
//! vocabulary of bytes. For the tests of any crate (`#[path]`), never part of a program.
#![allow(dead_code)]

use half::f16;

/// A file under construction.
#[derive(Default)]
pub struct Writer {
    /// Name, and type with value.
    keys: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

fn put_string(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}

impl Writer {
    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.keys.push((key.to_owned(), kind.to_le_bytes().to_vec()));
        &mut self.keys.last_mut().unwrap().1
    }

    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        put_string(self.key(key, 8), value);
        self
    }

    pub fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.key(key, 4).extend(value.to_le_bytes());
        self
    }

    pub fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.key(key, 6).extend(value.to_le_bytes());
        self
    }

    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key, 7).push(value.into());
        self
    }

    pub fn strings(&mut self, key: &str, values: &[String]) -> &mut Self {
        let to = self.key(key, 9);
        to.extend(8u32.to_le_bytes());
        to.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|v| put_string(to, v));
        self
    }

    pub fn i32s(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let to = self.key(key, 9);
        to.extend(5u32.to_le_bytes());
        to.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|v| to.extend(v.to_le_bytes()));
        self
    }

    pub fn f32s(&mut self, key: &str, values: &[f32]) -> &mut Self {
        let to = self.key(key, 9);
        to.extend(6u32.to_le_bytes());
        to.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|v| to.extend(v.to_le_bytes()));
        self
    }

    pub fn tensor(&mut self, name: &str, shape: &[u64], kind: u32, bytes: Vec<u8>) -> &mut Self {
        self.tensors.push((name.to_owned(), shape.to_vec(), kind, bytes));
        self
    }

    /// Leaves out a key.
    pub fn without_key(&mut self, name: &str) -> &mut Self {
        self.keys.retain(|(other, _)| other != name);
        self
    }

    /// Leaves out a tensor.
    pub fn without(&mut self, name: &str) -> &mut Self {
        self.tensors.retain(|(other, ..)| other != name);
        self
    }

    pub fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            put_string(&mut out, key);
            out.extend(value);
        }
        let mut offset = 0u64;
        for (name, shape, kind, bytes) in &self.tensors {
            put_string(&mut out, name);
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += (bytes.len() as u64).next_multiple_of(32);
        }
        for (_, _, _, bytes) in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(bytes);
        }
        out
    }
}

pub const WIDTH: usize = 64;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const FEED_FORWARD: usize = 96;
pub const LAYERS: usize = 2;
pub const CONTEXT: u32 = 256;
/// Bytes, three merged pieces, two control tokens.
pub const VOCABULARY: usize = 256 + 3 + 2;

/// An architecture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Family {
    Llama,
    Qwen2,
    Qwen3,
    Gemma3,
}

impl Family {
    pub const ALL: [Family; 4] = [Family::Llama, Family::Qwen2, Family::Qwen3, Family::Gemma3];

    pub fn name(self) -> &'static str {
        match self {
            Family::Llama => "llama",
            Family::Qwen2 => "qwen2",
            Family::Qwen3 => "qwen3",
            Family::Gemma3 => "gemma3",
        }
    }

    /// Numbers of a head; for some not the width over the heads.
    pub fn head(self) -> usize {
        match self {
            Family::Llama | Family::Qwen2 => WIDTH / HEADS,
            Family::Qwen3 | Family::Gemma3 => 2 * WIDTH / HEADS,
        }
    }
}

/// What a layer of `Gemma3` sees that does not see everything; the first of two.
pub const WINDOW: usize = 7;

/// How the weights are stored. The numbers are the same but for the rounding of the type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    F32,
    Q4_1,
    Q8_0,
}

/// The character that stands for a byte in byte-level vocabularies.
pub fn byte_character(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|b| !printable(*b)).count() as u32;
    char::from_u32(0x100 + rank).unwrap()
}

/// Random numbers around zero, the same on every call with the same seed.
pub fn numbers(count: usize, scale: f32, mut seed: u64) -> Vec<f32> {
    seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            ((seed >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 2.0 * scale
        })
        .collect()
}

/// Numbers as a type stores them.
pub fn store(kind: Kind, numbers: &[f32]) -> (u32, Vec<u8>) {
    let blocks = numbers.chunks_exact(32);
    match kind {
        Kind::F32 => (0, numbers.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Kind::Q8_0 => {
            let block = |b: &[f32]| {
                let scale = f16::from_f32(b.iter().fold(0f32, |m, x| m.max(x.abs())) / 127.0);
                let q = |x: &f32| (x / scale.to_f32()).round().clamp(-127.0, 127.0) as i8 as u8;
                scale.to_le_bytes().into_iter().chain(b.iter().map(q)).collect::<Vec<u8>>()
            };
            (8, blocks.flat_map(block).collect())
        }
        Kind::Q4_1 => {
            let block = |b: &[f32]| {
                let (low, high) = b.iter().fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
                let (scale, min) = (f16::from_f32((high - low) / 15.0), f16::from_f32(low));
                let q = |x: f32| ((x - min.to_f32()) / scale.to_f32()).round().clamp(0.0, 15.0) as u8;
                let nibbles = (0..16).map(|i| q(b[i]) | q(b[i + 16]) << 4);
                scale.to_le_bytes().into_iter().chain(min.to_le_bytes()).chain(nibbles).collect::<Vec<u8>>()
            };
            (3, blocks.flat_map(block).collect())
        }
    }
}

/// Every tensor of a small model: name, shape (columns first), numbers.
pub fn tensors(family: Family) -> Vec<(String, Vec<u64>, Vec<f32>)> {
    let (w, head, ff) = (WIDTH, family.head(), FEED_FORWARD);
    let (queries, kv) = (HEADS * head, KV_HEADS * head);
    let mut parts: Vec<(&str, Vec<usize>)> = vec![
        ("attn_norm.weight", vec![w]),
        ("attn_q.weight", vec![w, queries]),
        ("attn_k.weight", vec![w, kv]),
        ("attn_v.weight", vec![w, kv]),
        ("attn_output.weight", vec![queries, w]),
        ("ffn_norm.weight", vec![w]),
        ("ffn_gate.weight", vec![w, ff]),
        ("ffn_up.weight", vec![w, ff]),
        ("ffn_down.weight", vec![ff, w]),
    ];
    if family == Family::Qwen2 {
        parts.extend([("attn_q.bias", vec![queries]), ("attn_k.bias", vec![kv]), ("attn_v.bias", vec![kv])]);
    }
    if matches!(family, Family::Qwen3 | Family::Gemma3) {
        parts.extend([("attn_q_norm.weight", vec![head]), ("attn_k_norm.weight", vec![head])]);
    }
    if family == Family::Gemma3 {
        parts.extend([("post_attention_norm.weight", vec![w]), ("post_ffw_norm.weight", vec![w])]);
    }
    let mut list: Vec<(String, Vec<usize>)> = vec![("token_embd.weight".into(), vec![w, VOCABULARY])];
    for layer in 0..LAYERS {
        list.extend(parts.iter().map(|(name, shape)| (format!("blk.{layer}.{name}"), shape.clone())));
    }
    list.push(("output_norm.weight".into(), vec![w]));
    let with_numbers = |(index, (name, shape)): (usize, (String, Vec<usize>))| {
        let count = shape.iter().product();
        let mut values = numbers(count, 0.3, index as u64 + 1);
        if name.ends_with("norm.weight") {
            values.iter_mut().for_each(|x| *x += 1.0);
        }
        (name, shape.into_iter().map(|d| d as u64).collect(), values)
    };
    list.into_iter().enumerate().map(with_numbers).collect()
}

/// The metadata of a small model.
pub fn metadata(family: Family) -> Writer {
    let mut w = Writer::default();
    let key = |name: &str| format!("{}.{name}", family.name());
    w.string("general.architecture", family.name()).string("general.name", "tiny");
    w.u32(&key("block_count"), LAYERS as u32).u32(&key("embedding_length"), WIDTH as u32);
    w.u32(&key("attention.head_count"), HEADS as u32).u32(&key("attention.head_count_kv"), KV_HEADS as u32);
    w.u32(&key("feed_forward_length"), FEED_FORWARD as u32).u32(&key("context_length"), CONTEXT);
    w.f32(&key("attention.layer_norm_rms_epsilon"), 1e-5).f32(&key("rope.freq_base"), 10_000.0);
    if family.head() != WIDTH / HEADS {
        w.u32(&key("attention.key_length"), family.head() as u32);
        w.u32(&key("attention.value_length"), family.head() as u32);
    }
    if family == Family::Gemma3 {
        w.u32(&key("attention.sliding_window"), WINDOW as u32).u32(&key("attention.sliding_window_pattern"), 2);
        w.f32(&key("rope.freq_base_swa"), 300.0);
    }
    let mut tokens: Vec<String> = (0..=255u8).map(|b| byte_character(b).to_string()).collect();
    tokens.extend(["he", "ll", "hell"].map(String::from));
    tokens.extend(["<|im_start|>", "<|im_end|>"].map(String::from));
    let types: Vec<i32> = (0..VOCABULARY).map(|id| if id >= 259 { 3 } else { 1 }).collect();
    w.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "smollm");
    w.strings("tokenizer.ggml.tokens", &tokens).i32s("tokenizer.ggml.token_type", &types);
    w.strings("tokenizer.ggml.merges", &["h e", "l l", "he ll"].map(String::from));
    w.u32("tokenizer.ggml.bos_token_id", 259).u32("tokenizer.ggml.eos_token_id", 260);
    w.bool("tokenizer.ggml.add_bos_token", false);
    w.string("tokenizer.chat_template", TEMPLATE);
    w
}

/// The template of the small models.
pub const TEMPLATE: &str = "{% for m in messages %}{% if m['role'] not in ['system', 'user', 'assistant'] %}{{ raise_exception('only system, user and assistant') }}{% endif %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'].strip() + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// A small model, to be changed and finished: two-dimensional weights are of this type.
pub fn writer(family: Family, kind: Kind) -> Writer {
    let mut w = metadata(family);
    for (name, shape, values) in tensors(family) {
        let (id, bytes) = store(if shape.len() == 1 { Kind::F32 } else { kind }, &values);
        w.tensor(&name, &shape, id, bytes);
    }
    w
}

/// The small model of the `llama` architecture as a file.
pub fn model(kind: Kind) -> Vec<u8> {
    writer(Family::Llama, kind).finish()
}
