//! What the engine makes of a model on this machine, as one line of JSON: `engine MODEL.gguf [THREADS]`. Milliseconds
//! and tokens a second; medians of [`ROUNDS`].

use std::time::{Duration, Instant};

use terrace_agent::engine::{Engine, EngineConfig, EngineHandle, Event, GenerateRequest};
use terrace_agent::model::{LoadOptions, LoadedModel};
use tokio::sync::mpsc::Receiver;

const ROUNDS: u32 = 5;
/// A shared beginning, such as a system prompt.
const PREFIX: u32 = 400;
const LONG: u32 = 2000;
const BATCH: u32 = 8;
const ANSWER: u32 = 96;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| anyhow::anyhow!("usage: engine MODEL.gguf [THREADS]"))?;
    let threads = arguments.next().map(|n| n.parse()).transpose()?;
    let options = LoadOptions { context_tokens: Some(4096), max_sequences: BATCH, threads, ..LoadOptions::default() };
    let loaded = LoadedModel::open(path.as_ref(), &options)?;
    let config = EngineConfig { max_sequences: BATCH, queue_limit: 16, ..EngineConfig::default() };
    let handle = Engine::start(loaded, config)?;
    let line = tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(&handle))?;
    #[expect(clippy::print_stdout, reason = "its output")]
    {
        println!("{line}");
    }
    Ok(())
}

async fn measure(handle: &EngineHandle) -> anyhow::Result<serde_json::Value> {
    let prompt =
        |kind: u32, len: u32| -> Vec<u32> { (0..len).map(|i| 100 + (i * 7919 + kind * 104_729) % 40_000).collect() };
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let ask = |tail: u32| [prompt(round, PREFIX), prompt(1000 + round * 2 + tail, 16)].concat();
        cold.push(first_token(handle, ask(0)).await?);
        warm.push(first_token(handle, ask(1)).await?);
    }
    // A stream alone, then the same while a long prompt comes in.
    let (mut alone, mut beside, mut long) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (_, mut stream) = handle.submit(GenerateRequest::new(prompt(2000 + round, 32), 1500))?;
        alone.extend(gaps(&mut stream, None).await);
        let began = Instant::now();
        let (_, other) = handle.submit(GenerateRequest::new(prompt(3000 + round, LONG), 1))?;
        beside.extend(gaps(&mut stream, Some(other)).await);
        long.push(f64::from(LONG) / began.elapsed().as_secs_f64());
    }
    let (mut single, mut batch) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (count, rates) in [(1, &mut single), (BATCH, &mut batch)] {
            let all = (0..count)
                .map(|i| handle.submit(GenerateRequest::new(prompt(4000 + round * 100 + count * 10 + i, 32), ANSWER)));
            let all: Vec<Receiver<Event>> = all.map(|r| r.map(|(_, events)| events)).collect::<Result<_, _>>()?;
            let (mut tokens, mut first, mut last) = (0, None, Instant::now());
            for mut events in all {
                while let Some(event) = events.recv().await {
                    if let Event::Done(done) = event {
                        tokens += done.usage.completion - 1;
                        last = Instant::now();
                        let began = last - done.timings.decode;
                        first = Some(first.map_or(began, |f: Instant| f.min(began)));
                    }
                }
            }
            rates.push(f64::from(tokens) / first.map_or(f64::NAN, |f| (last - f).as_secs_f64()));
        }
    }
    let (cold, warm) = (median(&mut cold), median(&mut warm));
    let (alone, beside) = (p99(&mut alone), p99(&mut beside));
    Ok(serde_json::json!({
        "first_token_cold_ms": cold, "first_token_cached_ms": warm, "first_token_ratio": cold / warm,
        "inter_token_p99_alone_ms": alone, "inter_token_p99_beside_ms": beside, "inter_token_p99_growth_ms": beside - alone,
        "long_prompt_beside_a_stream": median(&mut long),
        "decode_1": median(&mut single), "decode_8": median(&mut batch),
        "prefill_rate": handle.load().prefill_rate,
    }))
}

/// Until the first token, in milliseconds.
async fn first_token(handle: &EngineHandle, prompt: Vec<u32>) -> anyhow::Result<f64> {
    let began = Instant::now();
    let (_, mut events) = handle.submit(GenerateRequest::new(prompt, 1))?;
    while let Some(event) = events.recv().await {
        if let Event::Piece(_) | Event::Done(_) = event {
            return Ok(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    anyhow::bail!("no token came")
}

/// Milliseconds between tokens of a stream: of its next 100, or until another answer is complete.
async fn gaps(stream: &mut Receiver<Event>, mut other: Option<Receiver<Event>>) -> Vec<f64> {
    let (mut gaps, mut last) = (Vec::new(), None);
    loop {
        if let Some(Event::Piece(_)) = stream.recv().await {
            let now = Instant::now();
            gaps.extend(last.map(|last: Instant| (now - last).as_secs_f64() * 1e3));
            last = Some(now);
        }
        match &mut other {
            None if gaps.len() >= 100 => return gaps,
            None => {}
            Some(other) => {
                while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, other.recv()).await {
                    if let Event::Done(_) | Event::Failed(_) = event {
                        return gaps;
                    }
                }
            }
        }
        if stream.is_closed() && stream.is_empty() {
            return gaps;
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn p99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * 99 / 100).min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
