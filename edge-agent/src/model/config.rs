//! A network's shape, read from the metadata and held against what this program can run.

use super::LoadOptions;
use super::family::{Family, Local};
use super::load::LoadError;
use super::rotary::{Rotary, above};
use super::tensors::Tensors;
use crate::device::{Target, usable_memory};
use crate::gguf::{Array, Gguf, GgufError, Metadata, Value};
use crate::kernels::{Attention, BLOCK_TOKENS};

/// A context shorter than this answers nothing.
const MIN_CONTEXT: usize = 64;
/// Layers of the one Gemma 3 whose queries are scaled otherwise (27B); files do not say so.
const GEMMA3_27B_LAYERS: usize = 62;

/// Shape of a decoder.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) family: &'static Family,
    pub(super) width: usize,
    pub(super) feed_forward: usize,
    pub(super) vocabulary: usize,
    pub(super) epsilon: f32,
    /// For each layer, which of the views is its.
    pub(super) layers: Vec<usize>,
    /// What a layer can see: everything, and for some architectures a window.
    pub(super) views: Vec<View>,
    /// Prompt and answer together, in tokens: whole blocks.
    pub(super) context: usize,
    /// Blocks of the KV cache.
    pub(super) blocks: usize,
}

/// How far a layer sees, and how it writes positions.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) attention: Attention,
    pub(super) rotary: Rotary,
}

impl Config {
    /// Reads the family's keys. The context is the least of what the file was trained for, what was asked for, and
    /// what the cache's limit has room for.
    pub(super) fn read(
        file: &Gguf,
        tensors: &Tensors<'_>,
        family: &'static Family,
        options: &LoadOptions,
    ) -> Result<Config, LoadError> {
        let m = file.metadata();
        refuse_variants(m, family)?;
        let size = |name: &str| positive(m, &family.key(name));
        let (layers, width) = (size("block_count")?, size("embedding_length")?);
        let (feed_forward, trained) = (size("feed_forward_length")?, trained(m, family)?);
        let vocabulary = vocabulary(file, family, width)?;
        let attention = attention(m, family, layers, width)?;
        all_blocks(file, family, layers)?;
        first_block(file, family, width, feed_forward, &attention)?;
        let mut rotary = Rotary::from_metadata(m, family, attention.width, trained as usize)?;
        if tensors.find("rope_freqs.weight", &[attention.width / 2])?.is_some() {
            let factors = tensors.vector("rope_freqs.weight", attention.width / 2)?;
            if factors.iter().any(|f| !f.is_normal() || *f < 0.0) {
                return Err(GgufError::tensor("rope_freqs.weight", "has factors that are not above zero").into());
            }
            rotary = rotary.slower(|i| f64::from(factors[i]));
        }
        let mut views = vec![View { attention, rotary }];
        let mut view_of = vec![0; layers];
        let window = m.optional_u32(&family.key("attention.sliding_window"))?.map(|n| n as usize);
        match (&family.local, window) {
            (Some(_), Some(0)) => {
                return Err(GgufError::key(family.key("attention.sliding_window"), "0 tokens are no window").into());
            }
            (Some(local), Some(window)) => {
                let base = above(m, family.key("rope.freq_base_swa"), 1.0)?.unwrap_or(local.base);
                let rotary = Rotary::plain(base, attention.width);
                views.push(View { attention: Attention { window: Some(window), ..attention }, rotary });
                view_of = local_layers(m, family, local, layers)?.into_iter().map(usize::from).collect();
            }
            // For the others zero is how a converter says that there is none.
            (None, Some(window @ 1..)) if window < trained as usize => {
                let problem = "sliding windows are only supported for gemma3";
                return Err(GgufError::key(family.key("attention.sliding_window"), problem).into());
            }
            _ => {}
        }
        let per_token = 4 * layers as u64 * attention.kv_heads as u64 * attention.width as u64;
        let (context, blocks) = cache(trained, per_token, options)?;
        fits(per_token, blocks, options)?;
        Ok(Config {
            family,
            width,
            feed_forward,
            vocabulary,
            epsilon: above(m, family.key("attention.layer_norm_rms_epsilon"), 0.0)?.unwrap_or(1e-5) as f32,
            layers: view_of,
            views,
            context,
            blocks,
        })
    }

    /// What is the same for all layers of attention.
    pub(super) fn attention(&self) -> &Attention {
        &self.views[0].attention
    }
}

/// Keys that make another network of the architecture.
fn refuse_variants(m: &Metadata, family: &Family) -> Result<(), GgufError> {
    let refuse = |key: String, problem: &str| Err(GgufError::key(key, problem));
    if m.optional_u32(&family.key("expert_count"))?.is_some_and(|n| n > 0) {
        return refuse(family.key("expert_count"), "mixtures of experts are not supported");
    }
    if m.optional_bool(&family.key("attention.causal"))? == Some(false) {
        return refuse(family.key("attention.causal"), "attention to later tokens is not supported");
    }
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if m.optional_f32(&family.key(name))?.is_some_and(|cap| cap != 0.0) {
            return refuse(family.key(name), "capped logits are not supported");
        }
    }
    Ok(())
}

/// Tokens of context that the model was trained for. Nothing could stand for them: a model that is asked for more than it
/// has seen answers with noise.
fn trained(m: &Metadata, family: &Family) -> Result<u32, GgufError> {
    let key = family.key("context_length");
    match m.u32(&key)? {
        0 => Err(GgufError::key(key, "0 tokens are no context; expected are those that the model was trained for")),
        trained => Ok(trained),
    }
}

/// Rows of the embedding: one for each token, and as many as the file says where it says.
fn vocabulary(file: &Gguf, family: &Family, width: usize) -> Result<usize, GgufError> {
    const ROWS: &str = "token_embd.weight";
    let (m, embedding) = (file.metadata(), file.tensor(ROWS)?);
    let [columns, rows] = *embedding.shape else {
        return Err(GgufError::tensor(
            ROWS,
            format!("has shape {:?}; expected is a row for each token", embedding.shape),
        ));
    };
    if columns != width {
        let problem = format!("says {width}; the rows of `{ROWS}` have {columns} numbers");
        return Err(GgufError::key(family.key("embedding_length"), problem));
    }
    let key = family.key("vocab_size");
    if let Some(said) = m.optional_u32(&key)?
        && said as usize != rows
    {
        return Err(GgufError::key(key, format!("says {said} tokens; `{ROWS}` has {rows} rows")));
    }
    let key = "tokenizer.ggml.tokens";
    match m.strings(key)?.len() {
        tokens if tokens == rows => Ok(rows),
        tokens => Err(GgufError::key(key, format!("lists {tokens} tokens; `{ROWS}` has {rows} rows, one for each"))),
    }
}

/// Whether the file has the blocks that it says.
fn all_blocks(file: &Gguf, family: &Family, layers: usize) -> Result<(), GgufError> {
    let number = |name: &str| name.strip_prefix("blk.")?.split_once('.')?.0.parse::<u32>().ok();
    let blocks = file.tensors().filter_map(|t| number(t.name)).max().map_or(0, |last| last as usize + 1);
    if blocks == layers {
        return Ok(());
    }
    let problem = format!("says {layers} blocks; the file's tensors, `blk.0` and on, are of {blocks}");
    Err(GgufError::key(family.key("block_count"), problem))
}

/// Whether sizes are those of the first block's matrices. What a file lacks, and what is wrong in another block, is named
/// where it is read.
fn first_block(
    file: &Gguf,
    family: &Family,
    width: usize,
    feed_forward: usize,
    a: &Attention,
) -> Result<(), GgufError> {
    let heads = |count: usize| format!("{count} heads of {} numbers", a.width);
    for (key, said, tensor, rows) in [
        ("attention.head_count", heads(a.heads), "attn_q", a.heads * a.width),
        ("attention.head_count_kv", heads(a.kv_heads), "attn_k", a.kv_heads * a.width),
        ("feed_forward_length", feed_forward.to_string(), "ffn_up", feed_forward),
    ] {
        let name = format!("blk.0.{tensor}.weight");
        if let Some(found) = file.find(&name).filter(|found| found.shape != [width, rows]) {
            let problem =
                format!("{said} ask for {:?} numbers in `{name}`, which has {:?}", [width, rows], found.shape);
            return Err(GgufError::key(family.key(key), problem));
        }
    }
    Ok(())
}

fn attention(m: &Metadata, family: &Family, layers: usize, width: usize) -> Result<Attention, GgufError> {
    let (count, count_kv) = (family.key("attention.head_count"), family.key("attention.head_count_kv"));
    let heads = positive(m, &count)?;
    let kv_heads = optional(m, &count_kv)?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(GgufError::key(count_kv, format!("{kv_heads} heads of keys cannot share {heads} heads evenly")));
    }
    let length = family.key("attention.key_length");
    let (head, key) = match optional(m, &length)? {
        Some(head) => (head, length),
        None if width.is_multiple_of(heads) => (width / heads, count),
        None => {
            let problem = format!(
                "{heads} heads cannot share an embedding_length of {width} evenly, and no `{length}` says their width"
            );
            return Err(GgufError::key(count, problem));
        }
    };
    if !head.is_multiple_of(2) {
        return Err(GgufError::key(key, format!("makes heads {head} wide; only even widths can be rotated")));
    }
    for name in ["rope.dimension_count", "attention.value_length"] {
        let key = family.key(name);
        if let Some(found) = optional(m, &key)?
            && found != head
        {
            return Err(GgufError::key(
                key,
                format!("{found} is not the heads' width of {head}, which is not supported"),
            ));
        }
    }
    let root = if family.name == "gemma3" && layers == GEMMA3_27B_LAYERS { width / heads } else { head };
    let scale = above(m, family.key("attention.scale"), 0.0)?.unwrap_or(1.0 / (root as f64).sqrt());
    Ok(Attention { heads, kv_heads, width: head, scale: scale as f32, window: None, style: family.rotary })
}

/// Which layers see only the window: the file lists them, or says how many go to each that sees everything.
fn local_layers(m: &Metadata, family: &Family, local: &Local, layers: usize) -> Result<Vec<bool>, GgufError> {
    let key = family.key("attention.sliding_window_pattern");
    let every = match m.get(&key) {
        Some(Value::Array(Array::Integers(list))) if list.len() == layers => {
            return Ok(list.iter().map(|local| *local != 0).collect());
        }
        Some(Value::Array(_)) => {
            return Err(GgufError::key(key, format!("a list must have true or false for each of {layers} layers")));
        }
        _ => optional(m, &key)?.unwrap_or(local.every),
    };
    Ok((0..layers).map(|layer| !(layer + 1).is_multiple_of(every)).collect())
}

/// Tokens of context and blocks of the cache. `per_token` is the bytes of keys and values, two a number.
fn cache(trained: u32, per_token: u64, options: &LoadOptions) -> Result<(usize, usize), LoadError> {
    let wanted = options.context_tokens.map_or(trained, |n| n.min(trained)) as usize;
    let per_block = per_token.saturating_mul(BLOCK_TOKENS as u64);
    let blocks = match options.kv_cache_bytes {
        Some(limit) => usize::try_from(limit / per_block).unwrap_or(usize::MAX),
        None => wanted.div_ceil(BLOCK_TOKENS).saturating_mul(options.max_sequences.max(1) as usize),
    };
    // Block numbers have 32 bits.
    let blocks = blocks.min(u32::MAX as usize);
    let context = wanted.min(blocks.saturating_mul(BLOCK_TOKENS)) / BLOCK_TOKENS * BLOCK_TOKENS;
    if context < MIN_CONTEXT.min(wanted / BLOCK_TOKENS * BLOCK_TOKENS).max(BLOCK_TOKENS) {
        let need = per_block.saturating_mul((MIN_CONTEXT / BLOCK_TOKENS) as u64);
        return Err(LoadError::KvCache { limit: options.kv_cache_bytes.unwrap_or_default(), need });
    }
    Ok((context, blocks))
}

/// Whether keys and values fit the memory that there is: where they do not, the system would end the process without a word.
fn fits(per_token: u64, blocks: usize, options: &LoadOptions) -> Result<(), LoadError> {
    let need = per_token.saturating_mul(BLOCK_TOKENS as u64).saturating_mul(blocks as u64);
    match usable_memory() {
        Some(have) if options.target == Target::Cpu && need > have => Err(LoadError::Memory { need, have }),
        _ => Ok(()),
    }
}

/// A size above zero that must be there. Sizes above 2^20 are no model's, and products of three of them fit a `u64`.
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
