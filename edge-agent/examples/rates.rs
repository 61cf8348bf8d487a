//! Prefill and decode rates of the network on this machine, as one line of JSON: `rates MODEL.gguf [THREADS]`.

use std::time::Instant;

use terrace_agent::model::{BLOCK_TOKENS, Feed, LoadOptions, LoadedModel, Wanted};

const PREFILL: usize = 512;
const DECODE: usize = 128;
const CHUNK: usize = 64;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| anyhow::anyhow!("usage: rates MODEL.gguf [THREADS]"))?;
    let threads = arguments.next().map(|n| n.parse()).transpose()?;
    let options = LoadOptions { context_tokens: Some(2048), threads, ..LoadOptions::default() };
    let began = Instant::now();
    let mut model = LoadedModel::open(path.as_ref(), &options)?;
    let load = began.elapsed();
    let tokens: Vec<u32> =
        (0..PREFILL as u32).map(|i| (100 + i * 7919 % 40_000) % model.info.vocabulary as u32).collect();
    let blocks: Vec<u32> = (0..((PREFILL + DECODE) / BLOCK_TOKENS) as u32).collect();
    let mut run = |tokens: &[u32], position: usize| {
        model.network.step(&[Feed { blocks: &blocks, tokens, position, wanted: Wanted::NEXT }])
    };
    run(&tokens[..16], 0);
    let began = Instant::now();
    for (index, chunk) in tokens.chunks(CHUNK).enumerate() {
        run(chunk, index * CHUNK);
    }
    let prefill = PREFILL as f64 / began.elapsed().as_secs_f64();
    run(&tokens[..16], 0);
    let began = Instant::now();
    for (index, token) in tokens[..DECODE].iter().enumerate() {
        run(std::slice::from_ref(token), 16 + index);
    }
    let decode = DECODE as f64 / began.elapsed().as_secs_f64();
    let line = serde_json::json!({"prefill": prefill, "decode": decode, "load_seconds": load.as_secs_f64()});
    #[expect(clippy::print_stdout, reason = "its output")]
    {
        println!("{line}");
    }
    Ok(())
}
