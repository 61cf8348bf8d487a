//! How fast a GPU is: products of one row with large matrices against the memory's own speed, and the whole network. One
//! JSON document on standard output, as the other benches write it: `gpu cuda|vulkan MODEL.gguf [MEBIBYTES [ROUNDS]]`: weights
//! of each product (512), samples of each figure (5).
//!
//! Decoding reads every weight once for a token, so what it can reach is the memory's speed. That is measured beside it,
//! by adding to a large buffer, which reads and writes each number once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use burn::tensor::backend::Backend;
use burn::tensor::{Bytes, DType, Int, Tensor, TensorData};
use clap::ValueEnum as _;
use serde_json::{Value, json};
use terrace_agent::args::Device;
use terrace_agent::device::{Target, choose};
use terrace_agent::gguf::GgmlType;
use terrace_agent::model::{BLOCK_TOKENS, Feed, LoadOptions, LoadedModel, QuantBackend, Wanted};

/// A feed-forward layer of a model of eight billion numbers.
const ROWS: usize = 14_336;
const COLUMNS: usize = 4_096;
const PREFILL: usize = 512;
const DECODE: usize = 128;
const CHUNK: usize = 64;
/// Of the memory's speed, in products.
const GOAL: f64 = 0.6;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, model, rest @ ..] = arguments.as_slice() else {
        bail!("usage: gpu cuda|vulkan MODEL.gguf [MEBIBYTES [ROUNDS]]")
    };
    let device = Device::from_str(device, false).map_err(anyhow::Error::msg)?;
    let number = |at: usize, otherwise| rest.get(at).map_or(Ok(otherwise), |n| n.parse::<usize>());
    let (bytes, rounds) = (number(0, 512)? << 20, number(1, 5)?.max(1));
    let within = |largest: u64| bytes.min(largest as usize);
    let choice = choose(device, 1).map_err(anyhow::Error::msg)?;
    let mut figures = match choice.target {
        Target::Cpu => bail!("this bench is of GPUs"),
        #[cfg(feature = "cuda")]
        Target::Cuda => products::<burn_cuda::Cuda>(&Default::default(), within(u64::MAX), rounds)?,
        #[cfg(feature = "vulkan")]
        Target::Vulkan(adapter) => {
            products::<burn_wgpu::Vulkan>(&adapter.device(), within(adapter.largest_buffer), rounds)?
        }
    };
    figures.extend(network(choice.target, model, rounds.min(3))?);
    let command = format!("make bench-agent DEVICE={}", choice.status.kind);
    figures.iter_mut().for_each(|figure| figure["command"] = command.clone().into());
    let document = json!({
        "bench": format!("agent-{}", choice.status.kind),
        "machine": choice.status.detail,
        "figures": figures,
    });
    #[expect(clippy::print_stdout, reason = "its output")]
    {
        println!("{}", serde_json::to_string_pretty(&document)?);
    }
    Ok(())
}

/// A figure without a peer, or with the memory's speed as one.
fn figure(name: &str, unit: &str, samples: Vec<f64>, peer: Option<f64>) -> Value {
    let ours = median(&samples);
    let ratio = peer.map(|peer| ours / peer);
    json!({
        "name": name, "unit": unit, "ours": ours, "peer": peer, "ratio": ratio,
        "goal": ratio.map(|_| GOAL), "met": ratio.map(|ratio| ratio >= GOAL), "samples": {"ours": samples},
    })
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn finish<B: Backend>(device: &B::Device) -> anyhow::Result<()> {
    B::sync(device).map_err(|e| anyhow::anyhow!("{e:?}"))
}

/// Gigabytes a second of products whose weights fill `bytes`, so that no cache holds them, against the memory's.
fn products<B: QuantBackend>(device: &B::Device, bytes: usize, rounds: usize) -> anyhow::Result<Vec<Value>> {
    let numbers = Tensor::<B, 1>::zeros([bytes / 4], device);
    let mut copies = Vec::new();
    for round in 0..=rounds {
        finish::<B>(device)?;
        let began = Instant::now();
        let more = numbers.clone().add_scalar(1.0);
        finish::<B>(device)?;
        drop(more);
        // The first compiles.
        if round > 0 {
            copies.push(2.0 * bytes as f64 / 1e9 / began.elapsed().as_secs_f64());
        }
    }
    drop(numbers);
    let memory = median(&copies);
    let mut figures = vec![figure("memory", "GB/s", copies, None)];
    for kind in [GgmlType::Q4_0, GgmlType::Q8_0, GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::F16] {
        let (matrix, packed) =
            B::pack(kind, &vec![0; ROWS * COLUMNS / kind.block_len() * kind.block_bytes()], ROWS, COLUMNS);
        let (size, count) = (packed.len(), (bytes / packed.len()).max(2));
        let weights = |_| {
            let data = TensorData::from_bytes(Bytes::from_bytes_vec(packed.clone()), [size], DType::U8);
            Tensor::<B, 1, Int>::from_data(data, (device, DType::U8))
        };
        let all: Vec<_> = (0..count).map(weights).collect();
        let x = Tensor::<B, 2>::ones([1, COLUMNS], device);
        let mut rates = Vec::new();
        for round in 0..=rounds {
            finish::<B>(device)?;
            let began = Instant::now();
            for weights in &all {
                let x = x.clone().into_primitive().tensor();
                drop(B::quant_linear(x, 0, weights.clone().into_primitive(), matrix));
            }
            finish::<B>(device)?;
            if round > 0 {
                rates.push((size * count) as f64 / 1e9 / began.elapsed().as_secs_f64());
            }
        }
        figures.push(figure(&format!("product of one row, {kind}"), "GB/s", rates, Some(memory)));
    }
    Ok(figures)
}

/// Tokens a second of the whole network: prefill in chunks, decode of one sequence and of eight.
fn network(target: Target, path: &str, rounds: usize) -> anyhow::Result<Vec<Value>> {
    let options = LoadOptions { context_tokens: Some(2048), max_sequences: 8, target, ..LoadOptions::default() };
    let mut model = LoadedModel::open(path.as_ref(), &options).with_context(|| path.to_owned())?;
    let tokens: Vec<u32> =
        (0..PREFILL as u32).map(|i| (100 + i * 7919 % 40_000) % model.info.vocabulary as u32).collect();
    let each = (PREFILL + DECODE) / BLOCK_TOKENS;
    let tables: Vec<Vec<u32>> = (0..8).map(|i| (0..each).map(|b| (i * each + b) as u32).collect()).collect();
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let mut run = |sequences: usize, tokens: &[u32], position: usize| {
            let feed = |blocks| Feed {
                blocks,
                tokens,
                position,
                prompt: if tokens.len() == 1 { 0 } else { tokens.len() },
                wanted: Wanted::NEXT,
            };
            let feeds: Vec<Feed<'_>> = tables.iter().take(sequences).map(|blocks| feed(blocks.as_slice())).collect();
            model.network.step(&feeds).len()
        };
        let mut timed = |index: usize, count: usize, took: Duration| {
            if round > 0 {
                rates[index].push(count as f64 / took.as_secs_f64());
            }
        };
        let began = Instant::now();
        for (index, chunk) in tokens.chunks(CHUNK).enumerate() {
            run(1, chunk, index * CHUNK);
        }
        timed(0, PREFILL, began.elapsed());
        for (index, sequences) in [(1, 1), (2, 8)] {
            let began = Instant::now();
            for (at, token) in tokens[..DECODE].iter().enumerate() {
                run(sequences, std::slice::from_ref(token), at);
            }
            timed(index, DECODE * sequences, began.elapsed());
        }
    }
    let [prefill, one, eight] = rates;
    Ok(vec![
        figure("prefill of 512", "tokens/s", prefill, None),
        figure("decode of 128, one sequence", "tokens/s", one, None),
        figure("decode of 128, eight sequences", "tokens/s", eight, None),
    ])
}
