//! A network's shape, read from the metadata and held against what this program can run.

use super::LoadOptions;
use super::load::LoadError;
use crate::gguf::{Gguf, GgufError, Metadata, dequantize};
use crate::kernels::{Attention, BLOCK_TOKENS, RotaryStyle};

/// Tokens of context when neither the file nor the operator says.
const DEFAULT_CONTEXT: u32 = 2048;
/// A context shorter than this answers nothing.
const MIN_CONTEXT: usize = 64;

/// Shape of a decoder.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) layers: usize,
    pub(super) width: usize,
    pub(super) feed_forward: usize,
    pub(super) vocabulary: usize,
    pub(super) epsilon: f32,
    pub(super) attention: Attention,
    /// Prompt and answer together, in tokens: whole blocks.
    pub(super) context: usize,
    /// Blocks of the KV cache.
    pub(super) blocks: usize,
    rope_base: f32,
    rope_scale: f32,
}

impl Config {
    /// Reads the keys of the `llama` architecture. The context is the least of what the file was trained for, what was
    /// asked for, and what the cache's limit has room for.
    pub(super) fn llama(file: &Gguf, options: &LoadOptions) -> Result<Config, LoadError> {
        let m = file.metadata();
        let size = |key: &str| positive(m, &format!("llama.{key}"));
        let (layers, width, heads) = (size("block_count")?, size("embedding_length")?, size("attention.head_count")?);
        let kv_heads = optional(m, "llama.attention.head_count_kv")?.unwrap_or(heads);
        let head_width = optional(m, "llama.attention.key_length")?.unwrap_or(width / heads);
        if !heads.is_multiple_of(kv_heads) || head_width == 0 || !head_width.is_multiple_of(2) {
            let problem = format!("{heads} heads over {kv_heads} of keys, {head_width} wide, cannot be run");
            return Err(GgufError::key("llama.attention.head_count", problem).into());
        }
        for (key, expected) in [("rope.dimension_count", head_width), ("attention.value_length", head_width)] {
            let key = format!("llama.{key}");
            if let Some(found) = optional(m, &key)?
                && found != expected
            {
                let problem = format!("{found} is not the heads' width of {expected}, which is not supported");
                return Err(GgufError::key(key, problem).into());
            }
        }
        if m.optional_u32("llama.expert_count")?.unwrap_or(0) > 0 {
            return Err(GgufError::key("llama.expert_count", "mixtures of experts are not supported").into());
        }
        let rope_scale = match m.optional_string("llama.rope.scaling.type")? {
            None | Some("none") => 1.0,
            Some("linear") => m.optional_f32("llama.rope.scaling.factor")?.filter(|f| *f > 0.0).unwrap_or(1.0),
            Some(other) => {
                let problem = format!("`{other}` is not supported; these are: none, linear");
                return Err(GgufError::key("llama.rope.scaling.type", problem).into());
            }
        };
        let embedding = file.tensor("token_embd.weight")?;
        let vocabulary = embedding.shape.get(1).copied().unwrap_or(0);
        let epsilon = m.optional_f32("llama.attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5);
        let trained = m.optional_u32("llama.context_length")?.filter(|n| *n > 0).unwrap_or(DEFAULT_CONTEXT);
        let wanted = options.context_tokens.map_or(trained, |n| n.min(trained)) as usize;
        // Keys and values, two bytes a number.
        let per_block = (4 * BLOCK_TOKENS) as u64 * (layers * kv_heads * head_width) as u64;
        let each = wanted.div_ceil(BLOCK_TOKENS);
        let blocks = match options.kv_cache_bytes {
            Some(limit) => usize::try_from(limit / per_block).unwrap_or(usize::MAX),
            None => each.saturating_mul(options.max_sequences.max(1) as usize),
        };
        // Block numbers have 32 bits.
        let blocks = blocks.min(u32::MAX as usize);
        let context = wanted.min(blocks.saturating_mul(BLOCK_TOKENS)) / BLOCK_TOKENS * BLOCK_TOKENS;
        if context < MIN_CONTEXT.min(wanted / BLOCK_TOKENS * BLOCK_TOKENS).max(BLOCK_TOKENS) {
            let need = per_block * (MIN_CONTEXT / BLOCK_TOKENS) as u64;
            return Err(LoadError::KvCache { limit: options.kv_cache_bytes.unwrap_or_default(), need });
        }
        Ok(Config {
            layers,
            width,
            feed_forward: size("feed_forward_length")?,
            vocabulary,
            epsilon,
            attention: Attention {
                heads,
                kv_heads,
                width: head_width,
                scale: 1.0 / (head_width as f32).sqrt(),
                window: None,
                style: RotaryStyle::Interleaved,
            },
            context,
            blocks,
            rope_base: m.optional_f32("llama.rope.freq_base")?.filter(|b| *b > 0.0).unwrap_or(10_000.0),
            rope_scale,
        })
    }

    /// For each position, the cosines and then the sines of its rotations.
    pub(super) fn angles(&self, file: &Gguf) -> Result<Vec<f32>, GgufError> {
        let half = self.attention.width / 2;
        let mut slower = vec![1.0; half];
        if file.find("rope_freqs.weight").is_some() {
            // Llama 3 stretches its slow rotations by a factor each.
            let factors = file.shaped("rope_freqs.weight", &[half])?;
            dequantize(factors.kind, factors.bytes, &mut slower);
        }
        let frequency = |i: usize| {
            let plain = f64::from(self.rope_base).powf(-2.0 * i as f64 / self.attention.width as f64);
            plain / f64::from(slower[i]) / f64::from(self.rope_scale)
        };
        let frequencies: Vec<f64> = (0..half).map(frequency).collect();
        let mut angles = Vec::with_capacity(self.context * self.attention.width);
        for position in 0..self.context {
            angles.extend(frequencies.iter().map(|f| (position as f64 * f).cos() as f32));
            angles.extend(frequencies.iter().map(|f| (position as f64 * f).sin() as f32));
        }
        Ok(angles)
    }
}

/// A size above zero that must be there. Sizes above 2^20 are no model's, and products of two of them fit a `usize`.
fn positive(m: &Metadata, key: &str) -> Result<usize, GgufError> {
    let size = m.u32(key)?;
    if size == 0 || size > 1 << 20 {
        return Err(GgufError::key(key, format!("{size} is not a size that a model has")));
    }
    Ok(size as usize)
}

fn optional(m: &Metadata, key: &str) -> Result<Option<usize>, GgufError> {
    if m.get(key).is_none() {
        return Ok(None);
    }
    positive(m, key).map(Some)
}
