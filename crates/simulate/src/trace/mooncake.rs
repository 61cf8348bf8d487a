//! Mooncake's traces as they are published: a JSON object a line, time in milliseconds, hashes of 512-token blocks.

use serde::Deserialize;

use super::{Arrival, TraceError};

#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

/// Reads it.
///
/// # Errors
/// The first line that is wrong.
pub fn read(text: &str) -> Result<Vec<Arrival>, TraceError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            let problem = |problem: String| TraceError::Line { line: index + 1, problem };
            let line: Line = serde_json::from_str(line).map_err(|e| problem(e.to_string()))?;
            if line.timestamp.is_nan() || line.timestamp < 0.0 {
                return Err(problem("timestamp is negative".to_owned()));
            }
            Ok(Arrival {
                at_us: (line.timestamp * 1000.0) as u64,
                prompt_tokens: line.input_length,
                output_tokens: line.output_length,
                blocks: line.hash_ids,
            })
        })
        .collect()
}
