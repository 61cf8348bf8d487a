//! Waiting for a state, with a deadline: the only place of the tests that lets time pass.

use std::future::Future;
use std::time::{Duration, Instant};

/// Asks again and again until `probe` gives a value; past the deadline, says what was awaited and what the last answer was.
pub async fn until<T, F, P>(what: &str, limit: Duration, mut probe: P) -> anyhow::Result<T>
where
    P: FnMut() -> F,
    F: Future<Output = anyhow::Result<T>>,
{
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() > limit => {
                anyhow::bail!("waited {limit:?} for {what}; the last answer: {error:#}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Lets time pass as a slow network does: for faults that a test makes, never for hoping that something is ready.
pub async fn latency(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Seconds, for deadlines.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
