//! `grammar FILE.gguf [THREADS]`: what constrained answers cost on this machine: preparing the vocabulary, compiling a schema,
//! the mask of each token, and what streams with and without a grammar make of it.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use terrace_agent::engine::{Engine, EngineConfig, Event, GenerateRequest, Sampling};
use terrace_agent::gguf::{Gguf, Tokenizer};
use terrace_agent::grammar::{Compiled, Grammar, Grammars};
use terrace_agent::model::{LoadOptions, LoadedModel};
use tokio::sync::mpsc::Receiver;

const ANSWER: &str = r#"{"name": "Ada Lovelace of London", "age": 36, "tags": ["red", "blue"], "address": {"street": "12 St James's Square, the one with the tree", "city": "London"}, "when": "2024-05-06T07:08:09Z"}"#;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("give a GGUF file")?;
    let threads = std::env::args().nth(2).map(|n| n.parse()).transpose()?;
    let file = Gguf::open(Path::new(&path))?;
    let tokenizer = Arc::new(Tokenizer::from_metadata(file.metadata())?);
    drop(file);
    let grammars = Grammars::new(tokenizer.clone());
    let (before, began) = (resident()?, Instant::now());
    grammars.compile(&Grammar::object())?;
    let vocabulary = tokenizer.vocabulary();
    println!("vocabulary of {vocabulary}: {:.0?}, {:.1} MB", began.elapsed(), (resident()? - before) as f64 / 1e6);

    let address = json!({"type": "object", "additionalProperties": false, "required": ["street", "city"],
        "properties": {"street": {"type": "string"}, "city": {"type": "string"}}});
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["name", "age", "tags", "address", "when"],
        "properties": {"name": {"type": "string", "maxLength": 100}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 5},
            "address": {"$ref": "#/$defs/address"}, "when": {"type": "string", "format": "date-time"}},
        "$defs": {"address": address}});
    for (name, grammar) in [("a schema", Grammar::schema(schema)), ("any object", Grammar::object())] {
        let began = Instant::now();
        let compiled = grammars.compile(&grammar)?;
        let compiling = began.elapsed();
        let mut masks: Vec<Duration> = Vec::new();
        for _ in 0..10 {
            let mut constraint = compiled.begin();
            for token in tokenizer.encode(ANSWER)? {
                let began = Instant::now();
                let allowed = constraint.allowed().map_err(|_| anyhow::anyhow!("the grammar was lost"))?;
                masks.push(began.elapsed());
                let bit = allowed.get(token as usize / 32).is_some_and(|word| word & (1 << (token % 32)) != 0);
                anyhow::ensure!(bit, "the grammar does not allow token {token} of the answer");
                constraint.commit(token).map_err(|_| anyhow::anyhow!("the grammar was lost"))?;
            }
        }
        masks.sort();
        let at = |p: usize| masks[(masks.len() - 1) * p / 100];
        println!(
            "{name}: compiled in {compiling:.1?}; {} masks: median {:.0?}, p95 {:.0?}, p99 {:.0?}, most {:.0?}; {:.1} MB",
            masks.len(),
            at(50),
            at(95),
            at(99),
            at(100),
            (resident()? - before) as f64 / 1e6
        );
    }
    tokio::runtime::Builder::new_current_thread().build()?.block_on(streams(Path::new(&path), threads))
}

/// Tokens of each stream that is measured.
const TOKENS: u32 = 200;
const ROUNDS: u64 = 5;

/// Tokens a second of a stream alone, and of one without a grammar beside another with or without.
async fn streams(path: &Path, threads: Option<usize>) -> Result<()> {
    let options = LoadOptions { context_tokens: Some(2048), max_sequences: 2, threads, ..LoadOptions::default() };
    let config = EngineConfig { max_sequences: 2, ..EngineConfig::default() };
    let handle = Engine::start(LoadedModel::open(path, &options)?, config)?;
    let grammars = Grammars::new(handle.tokenizer().clone());
    // Never over: the measure is not how long an answer is.
    let list = json!({"type": "array", "minItems": 1000, "items": {"type": "object", "additionalProperties": false,
        "required": ["name", "age"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}});
    let grammar = grammars.compile(&Grammar::schema(list))?;
    let ask = |grammar: Option<Compiled>, seed: u64, tokens: u32| {
        let sampling = Sampling { temperature: 1.0, seed: Some(seed), ..Sampling::default() };
        let prompt = handle.tokenizer().encode("A list of people in JSON:\n")?;
        let request = GenerateRequest { grammar, sampling, ..GenerateRequest::new(prompt, tokens) };
        anyhow::Ok(handle.submit(request)?.1)
    };
    for (name, own, beside) in [
        ("free, alone", None, None),
        ("kept to a grammar, alone", Some(&grammar), None),
        ("free, beside a free one", None, Some(None)),
        ("free, beside one kept to a grammar", None, Some(Some(&grammar))),
    ] {
        let (mut rates, mut worst) = (Vec::new(), Vec::new());
        for seed in 0..ROUNDS {
            let other = beside.map(|other| ask(other.cloned(), 100 + seed, 2 * TOKENS)).transpose()?;
            let (rate, gap) = rate(ask(own.cloned(), seed, TOKENS)?).await?;
            drop(other);
            rates.push(rate);
            worst.push(gap);
        }
        rates.sort_by(f64::total_cmp);
        worst.sort_by(f64::total_cmp);
        let middle = ROUNDS as usize / 2;
        println!("{name}: {:.1} tokens a second, longest gap {:.1} ms", rates[middle], worst[middle]);
    }
    Ok(())
}

/// Tokens a second from the first on, and the longest time between two pieces in milliseconds.
async fn rate(mut events: Receiver<Event>) -> Result<(f64, f64)> {
    let (mut last, mut longest) = (None, Duration::ZERO);
    while let Some(event) = events.recv().await {
        match event {
            Event::Piece(_) => {
                let now = Instant::now();
                longest = last.map_or(longest, |last| longest.max(now - last));
                last = Some(now);
            }
            Event::Done(done) => {
                let steps = f64::from(done.usage.completion - 1);
                return Ok((steps / done.timings.decode.as_secs_f64(), longest.as_secs_f64() * 1e3));
            }
            Event::Failed(failure) => return Err(failure.into()),
            Event::Started { .. } | Event::Hidden(_) => {}
        }
    }
    anyhow::bail!("the engine ended")
}

/// Bytes in memory.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(1024 * line.trim().trim_end_matches(" kB").parse::<u64>()?)
}
