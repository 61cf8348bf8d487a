//! Rates of the network on this machine, as one line of JSON: `rates MODEL.gguf [THREADS]`. What llama.cpp does is
//! measured the same way by edge-agent/benches/peer.py.

use std::time::Instant;

use terrace_agent::model::{BLOCK_TOKENS, Feed, LoadOptions, LoadedModel, Network, Wanted};

const PREFILL: usize = 512;
const DECODE: usize = 128;
const SEQUENCES: usize = 8;
const STEPS: usize = 64;
/// Blocks of one sequence's keys and values.
const BLOCKS: usize = (PREFILL + DECODE) / BLOCK_TOKENS;
/// Tokens of a prompt in one step. The engine's own chunk is a matter of how long others wait, not of the rate.
const CHUNK: usize = 128;
/// Bytes that are read to measure the memory: more than any cache holds.
const STREAM: usize = 512 << 20;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| anyhow::anyhow!("usage: rates MODEL.gguf [THREADS]"))?;
    let threads = arguments.next().map(|n| n.parse()).transpose()?;
    let cores = threads.unwrap_or_else(terrace_agent::device::granted_cores);
    let options = LoadOptions {
        context_tokens: Some((PREFILL + DECODE) as u32),
        max_sequences: SEQUENCES as u32,
        threads,
        ..LoadOptions::default()
    };
    let began = Instant::now();
    let mut model = LoadedModel::open(path.as_ref(), &options)?;
    let load = began.elapsed();
    let tokens: Vec<u32> =
        (0..PREFILL as u32).map(|i| (100 + i * 7919 % 40_000) % model.info.vocabulary as u32).collect();
    let network = model.network.as_mut();
    warm(network, &tokens, 1);
    let prefill = prefill(network, &tokens);
    let single = decode(network, &tokens, 1, DECODE);
    let batch = decode(network, &tokens, SEQUENCES, STEPS);
    let line = serde_json::json!({
        "prefill": prefill, "decode": single, "batch": batch, "load_seconds": load.as_secs_f64(),
        "bandwidth": bandwidth(cores), "file_bytes": std::fs::metadata(&path)?.len(), "threads": cores,
    });
    #[expect(clippy::print_stdout, reason = "its output")]
    {
        println!("{line}");
    }
    Ok(())
}

/// The `i`-th sequence's blocks of the cache.
fn table(i: usize) -> Vec<u32> {
    (i * BLOCKS..(i + 1) * BLOCKS).map(|block| block as u32).collect()
}

fn warm(network: &mut dyn Network, tokens: &[u32], sequences: usize) {
    for i in 0..sequences {
        network.step(&[Feed { blocks: &table(i), tokens: &tokens[..16], position: 0, wanted: Wanted::NEXT }]);
    }
}

fn prefill(network: &mut dyn Network, tokens: &[u32]) -> f64 {
    let blocks = table(0);
    let began = Instant::now();
    for (index, tokens) in tokens.chunks(CHUNK).enumerate() {
        let last = (index + 1) * CHUNK >= PREFILL;
        let wanted = if last { Wanted::NEXT } else { Wanted::default() };
        network.step(&[Feed { blocks: &blocks, tokens, position: index * CHUNK, wanted }]);
    }
    PREFILL as f64 / began.elapsed().as_secs_f64()
}

fn decode(network: &mut dyn Network, tokens: &[u32], sequences: usize, steps: usize) -> f64 {
    warm(network, tokens, sequences);
    let tables: Vec<Vec<u32>> = (0..sequences).map(table).collect();
    let began = Instant::now();
    for at in 0..steps {
        let tokens = &tokens[at..=at];
        let feeds = tables.iter().map(|blocks| Feed { blocks, tokens, position: 16 + at, wanted: Wanted::NEXT });
        network.step(&feeds.collect::<Vec<_>>());
    }
    (sequences * steps) as f64 / began.elapsed().as_secs_f64()
}

/// Bytes a second that so many threads read together, the best of five.
fn bandwidth(threads: usize) -> f64 {
    let memory = vec![1u64; STREAM / 8];
    let read = || {
        let began = Instant::now();
        let sums = std::thread::scope(|scope| {
            let part = memory.len().div_ceil(threads);
            let work: Vec<_> = memory.chunks(part).map(|part| scope.spawn(move || part.iter().sum::<u64>())).collect();
            work.into_iter().map(|w| w.join().unwrap_or(0)).sum::<u64>()
        });
        std::hint::black_box(sums);
        STREAM as f64 / began.elapsed().as_secs_f64()
    };
    (0..5).map(|_| read()).fold(0.0, f64::max)
}
