//! The `llama` architecture: SmolLM2, Llama 2 and 3, Mistral.

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Shape, Tensor, TensorData};

use super::backend::{LayerCache, QuantBackend};
use super::config::Config;
use super::layers::{Projection, RmsNorm, wrap};
use super::rows::StepRows;
use super::{Feed, Network, Output};
use crate::gguf::{Gguf, GgufError, Tensor as Stored};
use crate::kernels::Span;

/// One layer: attention, then a gated feed-forward, each added to what came in.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    attention_norm: RmsNorm<B>,
    query_key_value: Projection<B>,
    output: Projection<B>,
    feed_forward_norm: RmsNorm<B>,
    gate_up: Projection<B>,
    down: Projection<B>,
}

/// The weights.
#[derive(Module, Debug)]
struct Weights<B: Backend> {
    embedding: Projection<B>,
    blocks: Vec<Block<B>>,
    norm: RmsNorm<B>,
    /// None: the embedding, transposed.
    head: Option<Projection<B>>,
    /// Cosines and sines of each position.
    angles: Tensor<B, 2>,
}

/// Weights and cache.
pub(super) struct Llama<B: Backend> {
    weights: Weights<B>,
    cache: Vec<LayerCache<B>>,
    config: Config,
}

impl<B: QuantBackend> Llama<B> {
    /// Reads every tensor that the configuration implies.
    ///
    /// # Errors
    /// When one is missing or of another shape.
    pub(super) fn load(file: &Gguf, config: Config, device: &B::Device) -> Result<Self, GgufError> {
        let c = &config;
        let (width, queries, kv) =
            (c.width, c.attention.heads * c.attention.width, c.attention.kv_heads * c.attention.width);
        let join = |tensors: &[Stored<'_>]| Projection::<B>::new(tensors, device);
        let norm = |name: &str| RmsNorm::<B>::load(file, name, width, c.epsilon, device);
        let mut blocks = Vec::new();
        for layer in 0..c.layers {
            let named = |name: &str, shape: [usize; 2]| file.shaped(&format!("blk.{layer}.{name}.weight"), &shape);
            blocks.push(Block {
                attention_norm: norm(&format!("blk.{layer}.attn_norm.weight"))?,
                query_key_value: join(&[
                    named("attn_q", [width, queries])?,
                    named("attn_k", [width, kv])?,
                    named("attn_v", [width, kv])?,
                ]),
                output: join(&[named("attn_output", [queries, width])?]),
                feed_forward_norm: norm(&format!("blk.{layer}.ffn_norm.weight"))?,
                gate_up: join(&[
                    named("ffn_gate", [width, c.feed_forward])?,
                    named("ffn_up", [width, c.feed_forward])?,
                ]),
                down: join(&[named("ffn_down", [c.feed_forward, width])?]),
            });
        }
        let embedding = join(&[file.shaped("token_embd.weight", &[width, c.vocabulary])?]);
        let head = match file.find("output.weight") {
            Some(_) => Some(join(&[file.shaped("output.weight", &[width, c.vocabulary])?])),
            None => None,
        };
        let angles = c.angles(file)?;
        let angles = TensorData::new(angles, [c.context, c.attention.width]);
        let weights = Weights {
            embedding,
            blocks,
            norm: norm("output_norm.weight")?,
            head,
            angles: Tensor::from_data(angles, device),
        };
        let shape = Shape::from([c.blocks, c.attention.block()]);
        let empty = || B::float_zeros(shape.clone(), device, burn::tensor::FloatDType::F16);
        let cache = (0..c.layers).map(|_| LayerCache { keys: empty(), values: empty() }).collect();
        Ok(Llama { weights, cache, config })
    }

    /// The last layer's output after some of the rows, normalised: what logits are made of. None if none are wanted.
    fn hidden(&mut self, tokens: &[u32], spans: &[Span<'_>], wanted: &[usize]) -> Option<Tensor<B, 2>> {
        let weights = &self.weights;
        let angles = weights.angles.clone();
        let last = weights.blocks.len().saturating_sub(1);
        let mut x = weights.embedding.rows(tokens);
        for (layer, (block, cache)) in weights.blocks.iter().zip(&mut self.cache).enumerate() {
            let qkv = block.query_key_value.forward(block.attention_norm.forward(x.clone()));
            let angles = angles.clone().into_primitive().tensor();
            let seen =
                wrap(B::cached_attention(self.config.attention, qkv.into_primitive().tensor(), spans, angles, cache));
            let mut seen: Tensor<B, 2> = seen;
            if layer == last {
                // What follows the last attention is only needed where something is wanted.
                (x, seen) = (pick(x, wanted)?, pick(seen, wanted)?);
            }
            let x1 = x + block.output.forward(seen);
            let gate_up = block.gate_up.forward(block.feed_forward_norm.forward(x1.clone()));
            let gated = wrap(B::gated_silu(gate_up.into_primitive().tensor()));
            x = x1 + block.down.forward(gated);
        }
        Some(weights.norm.forward(x))
    }
}

/// Some rows, in their order; none if none are wanted.
fn pick<B: Backend>(x: Tensor<B, 2>, rows: &[usize]) -> Option<Tensor<B, 2>> {
    let [count, width] = x.dims();
    if rows.len() == count {
        return Some(x);
    }
    let picked: Vec<_> = rows.iter().map(|&r| x.clone().slice([r..r + 1, 0..width])).collect();
    match picked.len() {
        0 => None,
        1 => picked.into_iter().next(),
        _ => Some(Tensor::cat(picked, 0)),
    }
}

impl<B: QuantBackend> Network for Llama<B>
where
    Self: Send,
{
    fn step(&mut self, feeds: &[Feed<'_>]) -> Vec<Output> {
        let tokens: Vec<u32> = feeds.iter().flat_map(|f| f.tokens).copied().collect();
        let spans: Vec<Span<'_>> =
            feeds.iter().map(|f| Span { blocks: f.blocks, position: f.position, len: f.tokens.len() }).collect();
        let rows = StepRows::of(feeds);
        let Some(hidden) = self.hidden(&tokens, &spans, &rows.hidden) else {
            return vec![Output::default(); feeds.len()];
        };
        let head = self.weights.head.as_ref().unwrap_or(&self.weights.embedding);
        let logits = pick(hidden.clone(), &rows.logits).map(|x| numbers(head.forward(x))).unwrap_or_default();
        let pooled = feeds.iter().any(|f| f.wanted.hidden.is_some());
        rows.outputs(feeds, &logits, self.config.vocabulary, if pooled { numbers(hidden) } else { Vec::new() })
    }

    fn copy_block(&mut self, from: u32, to: u32) {
        self.cache.iter_mut().for_each(|cache| B::copy_block(self.config.attention, cache, from, to));
    }

    fn blocks(&self) -> usize {
        self.config.blocks
    }
}

fn numbers<B: Backend>(x: Tensor<B, 2>) -> Vec<f32> {
    x.into_data().convert_dtype(DType::F32).into_vec().unwrap_or_default()
}
