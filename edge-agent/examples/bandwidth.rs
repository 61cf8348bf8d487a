//! What this machine's memory gives, as a line of JSON: `bandwidth [THREADS]`, bytes a second that so many threads read
//! together, the best of several runs. Decoding reads every weight once a token, so this is its ceiling.

use std::time::Instant;

/// More than any cache holds.
const BYTES: usize = 512 << 20;
const RUNS: usize = 7;

fn main() -> anyhow::Result<()> {
    let threads = std::env::args().nth(1).map(|n| n.parse()).transpose()?;
    let threads: usize = threads.unwrap_or_else(terrace_agent::device::granted_cores);
    let memory = vec![1u64; BYTES / size_of::<u64>()];
    let read = || {
        let began = Instant::now();
        let sum = std::thread::scope(|scope| {
            let parts = memory.chunks(memory.len().div_ceil(threads));
            let work: Vec<_> = parts.map(|part| scope.spawn(move || part.iter().sum::<u64>())).collect();
            work.into_iter().map(|w| w.join().unwrap_or(0)).sum::<u64>()
        });
        std::hint::black_box(sum);
        BYTES as f64 / began.elapsed().as_secs_f64()
    };
    let best = (0..RUNS).map(|_| read()).fold(0.0, f64::max);
    #[expect(clippy::print_stdout, reason = "its output")]
    {
        println!("{}", serde_json::json!({"bytes_per_second": best, "threads": threads}));
    }
    Ok(())
}
