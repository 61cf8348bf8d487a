//! Prefill and decode rates of the network on this machine, as one line of JSON: `rates MODEL.gguf [THREADS] [CPU]`.
//!
//! Each figure is the median of several runs, since other programs may share the cores: tokens per second by the clock
//! and, for one thread, per second of the processor's time, which sharing changes less.

use std::time::{Duration, Instant};

use terrace_agent::device::Cpu;
use terrace_agent::model::{BLOCK_TOKENS, Feed, LoadOptions, LoadedModel, Wanted};

const PREFILL: usize = 512;
const CHUNK: usize = 256;
const DECODE: usize = 128;
const BATCH: usize = 8;
const REPEATS: usize = 5;
const CONTEXT: usize = 1024;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| anyhow::anyhow!("usage: rates MODEL.gguf [THREADS] [CPU]"))?;
    let threads: Option<usize> = arguments.next().map(|n| n.parse()).transpose()?;
    if let Some(cpu) = arguments.next() {
        cpu.parse::<Cpu>().and_then(Cpu::choose).map_err(anyhow::Error::msg)?;
    }
    let (context_tokens, max_sequences) = (Some(CONTEXT as u32), BATCH as u32);
    let options = LoadOptions { context_tokens, max_sequences, threads, ..LoadOptions::default() };
    let began = Instant::now();
    let mut model = LoadedModel::open(path.as_ref(), &options)?;
    let load = began.elapsed();
    let tokens: Vec<u32> =
        (0..PREFILL as u32).map(|i| (100 + i * 7919 % 40_000) % model.info.vocabulary as u32).collect();
    let all: Vec<u32> = (0..(BATCH * CONTEXT / BLOCK_TOKENS) as u32).collect();
    let tables: Vec<&[u32]> = all.chunks(CONTEXT / BLOCK_TOKENS).collect();
    let mut step = |sequences: usize, tokens: &[u32], position: usize| {
        let prompt = if tokens.len() == 1 { 0 } else { tokens.len() };
        let feed = |blocks| Feed { blocks, tokens, position, prompt, wanted: Wanted::NEXT };
        let feeds: Vec<_> = tables[..sequences].iter().copied().map(feed).collect();
        timed(|| model.network.step(&feeds))
    };
    let prefill = Time::median((0..REPEATS).map(|_| {
        let chunks = tokens.chunks(CHUNK).enumerate();
        chunks.map(|(index, chunk)| step(1, chunk, index * CHUNK)).fold(Time::default(), Time::add)
    }));
    step(BATCH, &tokens[..16], 0);
    let decode = Time::median((0..DECODE).map(|i| step(1, &tokens[i..=i], 16 + i)));
    let batch = Time::median((0..DECODE / 2).map(|i| step(BATCH, &tokens[i..=i], 16 + i)));
    let rates = |of: fn(&Time) -> Duration| {
        let rate = |tokens: usize, time: &Time| (tokens as f64 / of(time).as_secs_f64()).round();
        serde_json::json!({
            "prefill": rate(PREFILL, &prefill), "decode": rate(1, &decode), "decode_batch_8": rate(BATCH, &batch),
        })
    };
    let mut line = rates(|time| time.clock);
    line["cpu"] = Cpu::detect().name().into();
    line["load_seconds"] = load.as_secs_f64().into();
    if threads == Some(1) {
        line["per_processor_second"] = rates(|time| time.processor);
    }
    #[expect(clippy::print_stdout, reason = "its output")]
    {
        println!("{line}");
    }
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Time {
    clock: Duration,
    /// Of the calling thread.
    processor: Duration,
}

impl Time {
    fn add(self, other: Time) -> Time {
        Time { clock: self.clock + other.clock, processor: self.processor + other.processor }
    }

    fn median(times: impl Iterator<Item = Time>) -> Time {
        let times: Vec<_> = times.collect();
        let middle = |of: fn(&Time) -> Duration| {
            let mut of: Vec<_> = times.iter().map(of).collect();
            of.sort();
            of[of.len() / 2]
        };
        Time { clock: middle(|t| t.clock), processor: middle(|t| t.processor) }
    }
}

fn timed<T>(run: impl FnOnce() -> T) -> Time {
    let (clock, processor) = (Instant::now(), processor_time());
    run();
    Time { clock: clock.elapsed(), processor: processor_time().saturating_sub(processor) }
}

/// What the scheduler gave this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}
