//! A writer of GGUF files, and a small model made with it: two layers of random weights and a vocabulary of bytes. For
//! the tests of any crate (`#[path]`), never part of a program.
#![allow(dead_code)]

use half::f16;

/// A file under construction.
#[derive(Default)]
pub struct Writer {
    keys: Vec<u8>,
    key_count: u64,
    tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
}

fn put_string(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}

impl Writer {
    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.key_count += 1;
        put_string(&mut self.keys, key);
        self.keys.extend(kind.to_le_bytes());
        &mut self.keys
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

    pub fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.to_le_bytes());
        out.extend(&self.keys);
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

/// Every tensor of the small model: name, shape (columns first), numbers.
pub fn tensors() -> Vec<(String, Vec<u64>, Vec<f32>)> {
    let (w, kv, ff) = (WIDTH, KV_HEADS * WIDTH / HEADS, FEED_FORWARD);
    let mut list: Vec<(String, Vec<usize>)> = vec![("token_embd.weight".into(), vec![w, VOCABULARY])];
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("attn_norm", vec![w]),
            ("attn_q", vec![w, w]),
            ("attn_k", vec![w, kv]),
            ("attn_v", vec![w, kv]),
            ("attn_output", vec![w, w]),
            ("ffn_norm", vec![w]),
            ("ffn_gate", vec![w, ff]),
            ("ffn_up", vec![w, ff]),
            ("ffn_down", vec![ff, w]),
        ] {
            list.push((format!("blk.{layer}.{name}.weight"), shape));
        }
    }
    list.push(("output_norm.weight".into(), vec![w]));
    let with_numbers = |(index, (name, shape)): (usize, (String, Vec<usize>))| {
        let count = shape.iter().product();
        let mut values = numbers(count, 0.3, index as u64 + 1);
        if shape.len() == 1 {
            values.iter_mut().for_each(|x| *x += 1.0);
        }
        (name, shape.into_iter().map(|d| d as u64).collect(), values)
    };
    list.into_iter().enumerate().map(with_numbers).collect()
}

/// The metadata of the small model.
pub fn metadata() -> Writer {
    let mut w = Writer::default();
    w.string("general.architecture", "llama").string("general.name", "tiny");
    w.u32("llama.block_count", LAYERS as u32).u32("llama.embedding_length", WIDTH as u32);
    w.u32("llama.attention.head_count", HEADS as u32).u32("llama.attention.head_count_kv", KV_HEADS as u32);
    w.u32("llama.feed_forward_length", FEED_FORWARD as u32).u32("llama.context_length", CONTEXT);
    w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5).f32("llama.rope.freq_base", 10_000.0);
    let mut tokens: Vec<String> = (0..=255u8).map(|b| byte_character(b).to_string()).collect();
    tokens.extend(["he", "ll", "hell"].map(String::from));
    tokens.extend(["<|im_start|>", "<|im_end|>"].map(String::from));
    let types: Vec<i32> = (0..VOCABULARY).map(|id| if id >= 259 { 3 } else { 1 }).collect();
    w.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "smollm");
    w.strings("tokenizer.ggml.tokens", &tokens).i32s("tokenizer.ggml.token_type", &types);
    w.strings("tokenizer.ggml.merges", &["h e", "l l", "he ll"].map(String::from));
    w.u32("tokenizer.ggml.bos_token_id", 259).u32("tokenizer.ggml.eos_token_id", 260);
    w.bool("tokenizer.ggml.add_bos_token", false);
    w.string(
        "tokenizer.chat_template",
        "{% for m in messages %}{% if m['role'] not in ['system', 'user', 'assistant'] %}{{ raise_exception('only system, user and assistant') }}{% endif %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'].strip() + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    );
    w
}

/// The small model as a file: two-dimensional weights of this type.
pub fn model(kind: Kind) -> Vec<u8> {
    let mut w = metadata();
    for (name, shape, values) in tensors() {
        let (id, bytes) = store(if shape.len() == 1 { Kind::F32 } else { kind }, &values);
        w.tensor(&name, &shape, id, bytes);
    }
    w.finish()
}
