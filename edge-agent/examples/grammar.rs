//! `grammar FILE.gguf`: what constrained answers cost on this machine: preparing the vocabulary, compiling a schema, the mask
//! of each token. Reads the file's metadata only.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use terrace_agent::gguf::{Gguf, Tokenizer};
use terrace_agent::grammar::{Grammar, Grammars};

const ANSWER: &str = r#"{"name": "Ada Lovelace of London", "age": 36, "tags": ["red", "blue"], "address": {"street": "12 St James's Square, the one with the tree", "city": "London"}, "when": "2024-05-06T07:08:09Z"}"#;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("give a GGUF file")?;
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
            masks.len(), at(50), at(95), at(99), at(100), (resident()? - before) as f64 / 1e6
        );
    }
    Ok(())
}

/// Bytes in memory.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(1024 * line.trim().trim_end_matches(" kB").parse::<u64>()?)
}
