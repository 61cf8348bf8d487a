//! A decoder by its definition, in 64 bits and without a library: what the network's logits are compared with.
#![allow(dead_code)]

use std::collections::HashMap;

use terrace_agent::gguf::{Gguf, dequantize};

use crate::tiny::{Family, HEADS, KV_HEADS, LAYERS, WIDTH, WINDOW};

/// How far a position turns each pair of a head, and how long the turned numbers are.
#[derive(Clone)]
pub struct Turns {
    pub frequencies: Vec<f64>,
    pub magnitude: f64,
}

impl Turns {
    pub fn plain(base: f64, head: usize) -> Turns {
        Turns { frequencies: (0..head / 2).map(|i| base.powf(-2.0 * i as f64 / head as f64)).collect(), magnitude: 1.0 }
    }
}

fn product(weights: &[f64], x: &[f64]) -> Vec<f64> {
    weights.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
}

fn norm(x: &[f64], gamma: &[f64]) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().zip(gamma).map(|(x, g)| x / (mean + 1e-5).sqrt() * g).collect()
}

fn add(x: &mut [f64], more: &[f64]) {
    x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
}

/// `global` turns the layers that see everything, `local` those that see a window.
pub struct Reference {
    pub family: Family,
    pub global: Turns,
    pub local: Turns,
    weights: HashMap<String, Vec<f64>>,
}

impl Reference {
    pub fn of(file: &Gguf, family: Family) -> Reference {
        let numbers = |t: terrace_agent::gguf::Tensor<'_>| {
            let mut numbers = vec![0.0; t.shape.iter().product()];
            dequantize(t.kind, t.bytes, &mut numbers);
            (t.name.to_owned(), numbers.into_iter().map(f64::from).collect())
        };
        let weights = file.tensors().map(numbers).collect();
        let (global, local) = (Turns::plain(10_000.0, family.head()), Turns::plain(300.0, family.head()));
        Reference { family, global, local, weights }
    }

    fn turn(&self, x: &mut [f64], position: usize, turns: &Turns) {
        let head = self.family.head();
        for x in x.chunks_exact_mut(head) {
            for (i, frequency) in turns.frequencies.iter().enumerate() {
                // The llama architecture pairs neighbours, the others the two halves.
                let (a, b) = if self.family == Family::Llama { (2 * i, 2 * i + 1) } else { (i, i + head / 2) };
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                let (p, q) = (x[a], x[b]);
                x[a] = (p * cos - q * sin) * turns.magnitude;
                x[b] = (p * sin + q * cos) * turns.magnitude;
            }
        }
    }

    /// Logits after the last token.
    pub fn logits(&self, tokens: &[u32]) -> Vec<f64> {
        product(&self.weights["token_embd.weight"], &self.hidden(tokens))
    }

    /// The last token's state, normalised.
    pub fn hidden(&self, tokens: &[u32]) -> Vec<f64> {
        let (family, head) = (self.family, self.family.head());
        let gemma = family == Family::Gemma3;
        let embedding = &self.weights["token_embd.weight"];
        let scale = if gemma { (WIDTH as f64).sqrt() } else { 1.0 };
        let mut xs: Vec<Vec<f64>> = tokens
            .iter()
            .map(|&t| embedding[t as usize * WIDTH..(t as usize + 1) * WIDTH].iter().map(|x| x * scale).collect())
            .collect();
        for layer in 0..LAYERS {
            let w = |name: &str| self.weights[&format!("blk.{layer}.{name}")].as_slice();
            // The first of two layers is local, the second sees everything.
            let local = gemma && layer % 2 == 0;
            let turns = if local { &self.local } else { &self.global };
            let (mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for (position, x) in xs.iter().enumerate() {
                let h = norm(x, w("attn_norm.weight"));
                let part = |name: &str| {
                    let mut out = product(w(&format!("attn_{name}.weight")), &h);
                    if family == Family::Qwen2 {
                        add(&mut out, w(&format!("attn_{name}.bias")));
                    }
                    if name != "v" {
                        if gemma || family == Family::Qwen3 {
                            let gamma = w(&format!("attn_{name}_norm.weight"));
                            out = out.chunks_exact(head).flat_map(|x| norm(x, gamma)).collect();
                        }
                        self.turn(&mut out, position, turns);
                    }
                    out
                };
                queries.push(part("q"));
                keys.push(part("k"));
                values.push(part("v"));
            }
            for (position, x) in xs.iter_mut().enumerate() {
                let first = if local { (position + 1).saturating_sub(WINDOW) } else { 0 };
                let mut seen = vec![0.0; HEADS * head];
                for h in 0..HEADS {
                    let kv = h * KV_HEADS / HEADS * head;
                    let q = &queries[position][h * head..(h + 1) * head];
                    let score = |s: usize| {
                        let product: f64 = q.iter().zip(&keys[s][kv..kv + head]).map(|(q, k)| q * k).sum();
                        (product / (head as f64).sqrt()).exp()
                    };
                    let scores: Vec<f64> = (first..=position).map(score).collect();
                    let total: f64 = scores.iter().sum();
                    for (s, score) in (first..).zip(&scores) {
                        let value = &values[s][kv..kv + head];
                        seen[h * head..].iter_mut().zip(value).for_each(|(o, v)| *o += score / total * v);
                    }
                }
                let post = |x: Vec<f64>, name: &str| if gemma { norm(&x, w(name)) } else { x };
                add(x, &post(product(w("attn_output.weight"), &seen), "post_attention_norm.weight"));
                let h = norm(x, w("ffn_norm.weight"));
                let gate = |g: f64| {
                    if !gemma {
                        return g / (1.0 + (-g).exp());
                    }
                    0.5 * g * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g.powi(3))).tanh())
                };
                let (gates, up) = (product(w("ffn_gate.weight"), &h), product(w("ffn_up.weight"), &h));
                let gated: Vec<f64> = gates.iter().zip(&up).map(|(g, u)| gate(*g) * u).collect();
                add(x, &post(product(w("ffn_down.weight"), &gated), "post_ffw_norm.weight"));
            }
        }
        norm(xs.last().expect("a token"), &self.weights["output_norm.weight"])
    }
}
