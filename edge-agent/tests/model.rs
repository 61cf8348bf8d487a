//! The network against plain arithmetic: the same weights as numbers, multiplied out in 64 bits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/tiny.rs"]
mod tiny;

use std::collections::HashMap;

use terrace_agent::gguf::{Gguf, dequantize};
use terrace_agent::model::{Feed, LoadOptions, LoadedModel, Pooling, Rows, Wanted};
use tiny::{FEED_FORWARD, HEADS, KV_HEADS, LAYERS, VOCABULARY, WIDTH};

fn load(kind: tiny::Kind, contexts: u32) -> (Gguf, LoadedModel) {
    let file = Gguf::from_bytes(tiny::model(kind)).unwrap();
    let options = LoadOptions { max_sequences: contexts, threads: Some(2), ..LoadOptions::default() };
    let model = LoadedModel::from_file(&file, &options).unwrap();
    (file, model)
}

fn product(weights: &[f64], x: &[f64]) -> Vec<f64> {
    weights.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
}

fn norm(x: &[f64], gamma: &[f64]) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().zip(gamma).map(|(x, g)| x / (mean + 1e-5).sqrt() * g).collect()
}

/// Logits after the last token, by the definition of the architecture.
fn reference(file: &Gguf, tokens: &[u32]) -> Vec<f64> {
    let weights: HashMap<String, Vec<f64>> = file
        .tensors()
        .map(|t| {
            let mut numbers = vec![0.0; t.shape.iter().product()];
            dequantize(t.kind, t.bytes, &mut numbers);
            (t.name.to_owned(), numbers.into_iter().map(f64::from).collect())
        })
        .collect();
    let head = WIDTH / HEADS;
    let rotate = |x: &mut [f64], position: usize| {
        for (i, pair) in x.chunks_exact_mut(2).enumerate() {
            let angle = position as f64 * 10_000f64.powf(-2.0 * (i % (head / 2)) as f64 / head as f64);
            let (a, b) = (pair[0], pair[1]);
            (pair[0], pair[1]) = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos());
        }
    };
    let embedding = &weights["token_embd.weight"];
    let mut xs: Vec<Vec<f64>> =
        tokens.iter().map(|&t| embedding[t as usize * WIDTH..(t as usize + 1) * WIDTH].to_vec()).collect();
    for layer in 0..LAYERS {
        let w = |name: &str| &weights[&format!("blk.{layer}.{name}.weight")];
        let (mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (position, x) in xs.iter().enumerate() {
            let h = norm(x, w("attn_norm"));
            let (mut q, mut k) = (product(w("attn_q"), &h), product(w("attn_k"), &h));
            rotate(&mut q, position);
            rotate(&mut k, position);
            queries.push(q);
            keys.push(k);
            values.push(product(w("attn_v"), &h));
        }
        for (position, x) in xs.iter_mut().enumerate() {
            let mut seen = vec![0.0; WIDTH];
            for h in 0..HEADS {
                let kv = h * KV_HEADS / HEADS * head;
                let part = |v: &[f64], at: usize| v[at..at + head].to_vec();
                let q = part(&queries[position], h * head);
                let scores: Vec<f64> = (0..=position)
                    .map(|s| {
                        let k = part(&keys[s], kv);
                        (q.iter().zip(&k).map(|(q, k)| q * k).sum::<f64>() / (head as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = scores.iter().sum();
                for (s, score) in scores.iter().enumerate() {
                    for i in 0..head {
                        seen[h * head + i] += score / total * values[s][kv + i];
                    }
                }
            }
            x.iter_mut().zip(product(w("attn_output"), &seen)).for_each(|(x, o)| *x += o);
            let h = norm(x, w("ffn_norm"));
            let (gate, up) = (product(w("ffn_gate"), &h), product(w("ffn_up"), &h));
            let gated: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            assert_eq!(gated.len(), FEED_FORWARD);
            x.iter_mut().zip(product(w("ffn_down"), &gated)).for_each(|(x, o)| *x += o);
        }
    }
    product(embedding, &norm(xs.last().unwrap(), &weights["output_norm.weight"]))
}

fn error(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!((found.len(), expected.len()), (VOCABULARY, VOCABULARY));
    let difference: f64 = found.iter().zip(expected).map(|(f, e)| (f64::from(*f) - e).powi(2)).sum();
    (difference / expected.iter().map(|e| e * e).sum::<f64>()).sqrt()
}

fn feed<'a>(blocks: &'a [u32], tokens: &'a [u32], position: usize) -> Feed<'a> {
    Feed { blocks, tokens, position, wanted: Wanted::NEXT }
}

#[test]
fn logits_are_those_of_the_definition() {
    let tokens: Vec<u32> = (0..40).map(|i| (i * 37 + 11) % VOCABULARY as u32).collect();
    // Exact numbers leave the cache's 16 bits; quantized products add activations of eight bits.
    for (kind, bound) in [(tiny::Kind::F32, 2e-3), (tiny::Kind::Q8_0, 4e-2), (tiny::Kind::Q4_1, 4e-2)] {
        let (file, mut model) = load(kind, 1);
        let all = Wanted { logits: Rows::All, hidden: None };
        let output = model.network.step(&[Feed { wanted: all, ..feed(&[3, 1, 4], &tokens, 0) }]).remove(0);
        assert_eq!((output.logits.len(), output.hidden), (tokens.len(), None));
        for at in [0, 15, 16, 39] {
            let error = error(&output.logits[at], &reference(&file, &tokens[..=at]));
            assert!(error < bound, "{kind:?}: {error}");
        }
    }
}

/// Not nearly the same: the same bits. What an answer says must not depend on who else was served.
#[test]
fn chunks_batches_and_blocks_change_no_bit() {
    let tokens: Vec<u32> = (0..100).map(|i| (i * 53 + 7) % VOCABULARY as u32).collect();
    let other: Vec<u32> = tokens.iter().rev().copied().collect();
    for kind in [tiny::Kind::F32, tiny::Kind::Q8_0, tiny::Kind::Q4_1] {
        let (_, mut model) = load(kind, 2);
        let (whole, parts, others) = ([0, 1, 2, 3, 4, 5, 6], [13, 7, 19, 8, 20, 11, 9], [10, 12, 14, 15, 16, 17, 18]);
        let both = Wanted { logits: Rows::Last, hidden: Some(Pooling::MeanAndLast) };
        let expected = model.network.step(&[Feed { wanted: both, ..feed(&whole, &tokens, 0) }]).remove(0);
        let hidden = expected.hidden.unwrap();
        let mut sum = vec![0.0; WIDTH];
        let mut position = 0;
        // Alone and beside another sequence, in chunks that end inside blocks and at their borders.
        for (turn, len) in [17, 1, 14, 1, 1, 33, 30, 1, 1, 1].into_iter().enumerate() {
            let chunk = Feed { wanted: both, ..feed(&parts, &tokens[position..position + len], position) };
            let beside = feed(&others, &other[position..position + len], position);
            let silent =
                Feed { wanted: Wanted::default(), ..feed(&others, &other[position..position + len], position) };
            let step = match turn % 3 {
                0 => vec![chunk, silent],
                1 => vec![beside, chunk],
                _ => vec![silent, chunk],
            };
            let outputs = model.network.step(&step);
            let own = &outputs[usize::from(turn % 3 != 0)];
            let part = own.hidden.as_ref().unwrap();
            sum.iter_mut().zip(&part.sum).for_each(|(sum, x)| *sum += x);
            position += len;
            if position == tokens.len() {
                assert_eq!(own.logits, expected.logits, "{kind:?}");
                assert_eq!(part.last, hidden.last, "{kind:?}");
            }
        }
        assert_eq!(position, tokens.len());
        // Chunks add up, but for the order of adding.
        assert!(sum.iter().zip(&hidden.sum).all(|(a, b)| (a - b).abs() <= 1e-3), "{kind:?}");
    }
}

#[test]
fn a_copied_block_is_the_same_to_read_and_apart_to_write() {
    let tokens: Vec<u32> = (0..40).map(|i| (i * 29 + 3) % VOCABULARY as u32).collect();
    let (_, mut model) = load(tiny::Kind::Q4_1, 2);
    let network = &mut model.network;
    let expected = network.step(&[feed(&[0, 1, 2], &tokens, 0)]).remove(0);
    network.step(&[feed(&[4, 5], &tokens[..20], 0)]);
    network.copy_block(5, 6);
    // One of the two goes on otherwise; the copy does not notice.
    network.step(&[feed(&[4, 5], &[9, 9, 9], 20)]);
    assert_eq!(network.step(&[feed(&[4, 6, 7], &tokens[20..], 20)]).remove(0), expected);
}
