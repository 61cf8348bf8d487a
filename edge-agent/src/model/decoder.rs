//! The decoder of every architecture here: what differs is in its [`Family`](super::family::Family).

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Shape, Tensor, TensorData};

use super::backend::{LayerCache, QuantBackend};
use super::config::Config;
use super::family::Gate;
use super::layers::{HeadNorms, Projection, RmsNorm, added, gated, wrap};
use super::rows::StepRows;
use super::tensors::Tensors;
use super::{Feed, Network, Output};
use crate::gguf::GgufError;
use crate::kernels::Span;

/// One layer: attention, then a gated feed-forward, each added to what came in.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    attention_norm: RmsNorm<B>,
    query_key_value: Projection<B>,
    head_norms: Option<HeadNorms<B>>,
    output: Projection<B>,
    attention_post_norm: Option<RmsNorm<B>>,
    feed_forward_norm: RmsNorm<B>,
    gate_up: Projection<B>,
    down: Projection<B>,
    feed_forward_post_norm: Option<RmsNorm<B>>,
}

/// The weights.
#[derive(Module, Debug)]
struct Weights<B: Backend> {
    embedding: Projection<B>,
    blocks: Vec<Block<B>>,
    norm: RmsNorm<B>,
    /// None: the embedding, transposed.
    head: Option<Projection<B>>,
}

/// Weights and cache.
pub(super) struct Decoder<B: Backend> {
    weights: Weights<B>,
    cache: Vec<LayerCache<B>>,
    config: Config,
    device: B::Device,
}

impl<B: QuantBackend> Block<B> {
    fn load(tensors: &Tensors<'_>, c: &Config, layer: usize, device: &B::Device) -> Result<Self, GgufError> {
        let (family, a, width) = (c.family, c.attention(), c.width);
        let (queries, keys) = (a.heads * a.width, a.kv_heads * a.width);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let matrix = |part: &str, shape: [usize; 2]| tensors.get(&name(&format!("{part}.weight")), &shape);
        let norm = |part: &str| {
            let gamma = tensors.vector(&name(&format!("{part}.weight")), width)?;
            Ok::<_, GgufError>(RmsNorm::new(gamma, c.epsilon, device))
        };
        let post_norm = |part: &str| family.post_norms.then(|| norm(part)).transpose();
        let bias = || {
            let part = |part: &str, length| tensors.vector(&name(&format!("{part}.bias")), length);
            Ok::<_, GgufError>([part("attn_q", queries)?, part("attn_k", keys)?, part("attn_v", keys)?].concat())
        };
        let query_key_value =
            [matrix("attn_q", [width, queries])?, matrix("attn_k", [width, keys])?, matrix("attn_v", [width, keys])?];
        let gate_up = [matrix("ffn_gate", [width, c.feed_forward])?, matrix("ffn_up", [width, c.feed_forward])?];
        let head_norms = || {
            let gamma = |part: &str| tensors.vector(&name(&format!("{part}.weight")), a.width);
            Ok::<_, GgufError>(HeadNorms::new(gamma("attn_q_norm")?, gamma("attn_k_norm")?, a, c.epsilon, device))
        };
        Ok(Block {
            attention_norm: norm("attn_norm")?,
            query_key_value: Projection::new(&query_key_value, family.bias.then(bias).transpose()?, device),
            head_norms: family.head_norms.then(head_norms).transpose()?,
            output: Projection::new(&[matrix("attn_output", [queries, width])?], None, device),
            attention_post_norm: post_norm("post_attention_norm")?,
            feed_forward_norm: norm("ffn_norm")?,
            gate_up: Projection::new(&gate_up, None, device),
            down: Projection::new(&[matrix("ffn_down", [c.feed_forward, width])?], None, device),
            feed_forward_post_norm: post_norm("post_ffw_norm")?,
        })
    }

    /// Queries, keys and values of each row.
    fn query_key_value(&self, x: Tensor<B, 2>, prompts: usize) -> Tensor<B, 2> {
        let qkv = self.query_key_value.forward(self.attention_norm.forward(x), prompts);
        match &self.head_norms {
            Some(norms) => norms.forward(qkv),
            None => qkv,
        }
    }

    /// What follows attention: `x` is what came into the block, `seen` what its heads saw.
    fn rest(&self, x: Tensor<B, 2>, seen: Tensor<B, 2>, prompts: usize, gate: Gate) -> Tensor<B, 2> {
        let post = |norm: &Option<RmsNorm<B>>, x: Tensor<B, 2>| match norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        let x = added(x, post(&self.attention_post_norm, self.output.forward(seen, prompts)));
        let gate_up = self.gate_up.forward(self.feed_forward_norm.forward(x.clone()), prompts);
        added(x, post(&self.feed_forward_post_norm, self.down.forward(gated(gate_up, gate), prompts)))
    }
}

impl<B: QuantBackend> Decoder<B> {
    /// Reads every tensor that the configuration implies.
    ///
    /// # Errors
    /// When one is missing or of another shape.
    pub(super) fn load(tensors: &Tensors<'_>, config: Config, device: &B::Device) -> Result<Self, GgufError> {
        let c = &config;
        let vocabulary = |tensor| Projection::new(&[tensor], None, device);
        // The largest comes first, and what is packed is let go of: little is in memory twice at any time.
        let embedding = vocabulary(tensors.get("token_embd.weight", &[c.width, c.vocabulary])?);
        tensors.forget_pages();
        let head = tensors.find("output.weight", &[c.width, c.vocabulary])?.map(vocabulary);
        let mut blocks = Vec::new();
        for layer in 0..c.layers.len() {
            blocks.push(Block::load(tensors, c, layer, device)?);
            tensors.forget_pages();
        }
        let norm = RmsNorm::new(tensors.vector("output_norm.weight", c.width)?, c.epsilon, device);
        let weights = Weights { embedding, blocks, norm, head };
        let shape = Shape::from([c.blocks, c.attention().block()]);
        let empty = || B::float_zeros(shape.clone(), device, burn::tensor::FloatDType::F16);
        let cache = c.layers.iter().map(|_| LayerCache { keys: empty(), values: empty() }).collect();
        Ok(Decoder { weights, cache, config, device: device.clone() })
    }

    /// The last layer's output after some of the rows, normalised: what logits are made of. None if none are wanted.
    /// The first `prompts` rows come from prompts.
    fn hidden(
        &mut self,
        tokens: &[u32],
        spans: &[Span<'_>],
        mut prompts: usize,
        wanted: &[usize],
    ) -> Option<Tensor<B, 2>> {
        let (weights, c) = (&self.weights, &self.config);
        let angles: Vec<Tensor<B, 2>> = c
            .views
            .iter()
            .map(|view| {
                let positions = spans.iter().flat_map(|s| s.position..s.position + s.len);
                let data = TensorData::new(view.rotary.angles(positions), [tokens.len(), view.attention.width]);
                Tensor::from_data(data, &self.device)
            })
            .collect();
        let last = weights.blocks.len().saturating_sub(1);
        let mut x = weights.embedding.rows(tokens);
        if c.family.scaled_embedding {
            x = x * (c.width as f32).sqrt();
        }
        for (layer, (block, cache)) in weights.blocks.iter().zip(&mut self.cache).enumerate() {
            let view = c.layers[layer];
            let qkv = block.query_key_value(x.clone(), prompts).into_primitive().tensor();
            let angles = angles[view].clone().into_primitive().tensor();
            let mut seen: Tensor<B, 2> = wrap(B::cached_attention(c.views[view].attention, qkv, spans, angles, cache));
            if layer == last {
                // What follows the last attention is only needed where something is wanted; those rows are few, and
                // are multiplied alike whatever else is wanted.
                prompts = 0;
                (x, seen) = (pick(x, wanted)?, pick(seen, wanted)?);
            }
            x = block.rest(x, seen, prompts, c.family.gate);
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

impl<B: QuantBackend> Network for Decoder<B>
where
    Self: Send,
{
    fn step(&mut self, feeds: &[Feed<'_>]) -> Vec<Output> {
        // Rows of prompts stand together, in front.
        let parts = feeds.iter().enumerate().flat_map(|(at, feed)| feed.parts().map(move |part| (at, part)));
        let (prompts, answers): (Vec<_>, Vec<_>) = parts.partition(|(_, part)| part.prompt > 0);
        let count = feeds.len();
        let prompt_rows = prompts.iter().map(|(_, part)| part.tokens.len()).sum();
        let (order, feeds): (Vec<usize>, Vec<Feed<'_>>) = prompts.into_iter().chain(answers).unzip();
        let tokens: Vec<u32> = feeds.iter().flat_map(|f| f.tokens).copied().collect();
        let spans: Vec<Span<'_>> = feeds
            .iter()
            .map(|f| Span { blocks: f.blocks, position: f.position, len: f.tokens.len(), prompt: f.prompt > 0 })
            .collect();
        let rows = StepRows::of(&feeds);
        let Some(hidden) = self.hidden(&tokens, &spans, prompt_rows, &rows.hidden) else {
            return vec![Output::default(); count];
        };
        let head = self.weights.head.as_ref().unwrap_or(&self.weights.embedding);
        let logits = pick(hidden.clone(), &rows.logits).map(|x| numbers(head.forward(x, 0))).unwrap_or_default();
        let pooled = feeds.iter().any(|f| f.wanted.hidden.is_some());
        let hidden = if pooled { numbers(hidden) } else { Vec::new() };
        let outputs = rows.outputs(&feeds, &logits, self.config.vocabulary, hidden);
        // Of two parts the second has what was wanted.
        let mut placed = vec![Output::default(); count];
        order.into_iter().zip(outputs).for_each(|(at, output)| placed[at] = output);
        placed
    }

    fn copy_block(&mut self, from: u32, to: u32) {
        let shape = *self.config.attention();
        self.cache.iter_mut().for_each(|cache| B::copy_block(shape, cache, from, to));
    }

    fn blocks(&self) -> usize {
        self.config.blocks
    }
}

fn numbers<B: Backend>(x: Tensor<B, 2>) -> Vec<f32> {
    x.into_data().convert_dtype(DType::F32).into_vec().unwrap_or_default()
}
