//! Traffic: when requests came, how long prompt and answer were, and which prefixes they shared. No text, ever.

pub mod azure;
pub mod mooncake;
pub mod synthetic;

/// One request of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// When it came, microseconds since the first.
    pub at_us: u64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its answer.
    pub output_tokens: u32,
    /// Names of the blocks of [`BLOCK_TOKENS`] tokens that its prompt begins with: equal names, equal prefixes.
    pub blocks: Vec<u64>,
}

/// Tokens of one prefix block, as Mooncake cuts them.
pub const BLOCK_TOKENS: u32 = 512;

/// A trace that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// One line is wrong.
    #[error("line {line}: {problem}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Neither of the two forms.
    #[error(
        "the first line is neither Azure's header (TIMESTAMP,ContextTokens,GeneratedTokens) nor a JSON object of Mooncake's trace (timestamp, input_length, output_length, hash_ids)"
    )]
    Form,
    /// Nothing in it.
    #[error("the trace holds no request")]
    Empty,
}

/// Reads a trace in either form, told apart by its first line, in order of time.
///
/// # Errors
/// [`TraceError`], with the line.
pub fn read(text: &str) -> Result<Vec<Arrival>, TraceError> {
    let first = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default().trim();
    let mut arrivals = if first.starts_with('{') {
        mooncake::read(text)?
    } else if azure::is_header(first) {
        azure::read(text)?
    } else if first.is_empty() {
        return Err(TraceError::Empty);
    } else {
        return Err(TraceError::Form);
    };
    arrivals.sort_by_key(|arrival| arrival.at_us);
    let Some(start) = arrivals.first().map(|arrival| arrival.at_us) else { return Err(TraceError::Empty) };
    arrivals.iter_mut().for_each(|arrival| arrival.at_us -= start);
    Ok(arrivals)
}

/// A part of a trace, percent of its requests, the first at 0.
pub fn part(mut arrivals: Vec<Arrival>, percent: std::ops::Range<u32>) -> Vec<Arrival> {
    let at = |percent: u32| arrivals.len() * percent.min(100) as usize / 100;
    let (from, until) = (at(percent.start), at(percent.end));
    let mut part = arrivals.drain(from.min(until)..until).collect::<Vec<_>>();
    let start = part.first().map_or(0, |first| first.at_us);
    part.iter_mut().for_each(|arrival| arrival.at_us -= start);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_told_apart_and_sorted_by_time() {
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                     2023-11-16 23:59:59.9000000,374,44\n2023-11-17 00:00:00.4000001,10,1\n2023-11-16 23:59:59.6,5,2\n";
        let read_azure = read(azure).unwrap();
        let times: Vec<u64> = read_azure.iter().map(|a| a.at_us).collect();
        assert_eq!(times, [0, 300_000, 800_000]);
        assert_eq!((read_azure[1].prompt_tokens, read_azure[1].output_tokens), (374, 44));

        let mooncake = "{\"timestamp\": 27, \"input_length\": 600, \"output_length\": 3, \"hash_ids\": [0, 46]}\n";
        let read_mooncake = read(mooncake).unwrap();
        assert_eq!((read_mooncake[0].at_us, read_mooncake[0].prompt_tokens), (0, 600));
        assert_eq!(read_mooncake[0].blocks, [0, 46]);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_line() {
        assert_eq!(read(""), Err(TraceError::Empty));
        assert_eq!(read("TIMESTAMP,ContextTokens,GeneratedTokens\n"), Err(TraceError::Empty));
        assert_eq!(read("hello\n"), Err(TraceError::Form));
        let line = |text: &str| match read(text) {
            Err(TraceError::Line { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        let header = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n";
        for bad in ["2023-13-16 18:15:46,1,1", "2023-11-16 18:15:46,x,1", "2023-11-16 18:15:46,1", "18:15,1,1"] {
            assert_eq!(line(&format!("{header}{bad}\n")), 3, "{bad}");
        }
        assert_eq!(line("{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 3, \"hash_ids\": []}\n{]\n"), 2);
    }
}
