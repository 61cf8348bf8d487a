//! A model on this node: downloaded once, checked always.
//!
//! The cache is a folder of `<sha256>.gguf`, so that a name cannot lie: the digest is checked before a file gets its
//! name and again on every later use. A lock file makes one download of several pods on a node; a download that broke
//! off goes on where it stopped.

mod cache;
mod digest;
mod error;
mod http;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use digest::{is_digest, sha256};
pub use error::PullError;
pub use http::Client;

use cache::Cache;

/// Waits between attempts begin here and double up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Where a model comes from and where it is kept.
#[derive(Debug, Clone)]
pub struct Source {
    /// `http://` or `https://`.
    pub url: String,
    /// SHA-256 in lower-case hex.
    pub sha256: String,
    /// Where `<sha256>.gguf` is kept.
    pub cache_dir: PathBuf,
    /// A file with a bearer token, read at each attempt.
    pub token_file: Option<PathBuf>,
    /// Certificates that are trusted beside the public ones.
    pub ca_file: Option<PathBuf>,
    /// How long a source may be unreachable, without a byte of progress, before that is the answer. The orchestrator
    /// then starts this program again, and its condition says why.
    pub patience: Duration,
}

/// The path of the model in the cache, after its digest was checked. `report` gets a sentence whenever it has to wait.
///
/// # Errors
/// [`PullError`]; only [`PullError::Unreachable`] is worth another try, and had several.
pub async fn fetch(source: &Source, report: impl Fn(String)) -> Result<PathBuf, PullError> {
    let cache = Cache::open(&source.cache_dir, &source.sha256)?;
    if let Some(path) = cache.hit().await? {
        return Ok(path);
    }
    let client = Client::new(source.ca_file.as_deref())?;
    let _lock = cache.lock(|| report("another pod on this node is downloading the model".into())).await?;
    // Whoever had the lock may have brought it.
    if let Some(path) = cache.hit().await? {
        return Ok(path);
    }
    let mut resumed = cache.partial_bytes() > 0;
    loop {
        download(source, &client, &cache, &report).await?;
        match cache.commit(&source.url).await {
            // The beginning may be of an older file: only a download in one piece proves the source wrong.
            Err(PullError::DigestMismatch { .. }) if resumed => resumed = false,
            result => return result,
        }
    }
}

/// Attempts until the partial file is whole.
async fn download(source: &Source, client: &Client, cache: &Cache, report: &impl Fn(String)) -> Result<(), PullError> {
    let mut wait = FIRST_WAIT;
    let mut last_progress = Instant::now();
    loop {
        let before = cache.partial_bytes();
        let token = match &source.token_file {
            Some(path) => Some(read_token(path)?),
            None => None,
        };
        let error = match client.download(&source.url, token.as_deref(), cache).await {
            Ok(()) => return Ok(()),
            Err(error @ PullError::Unreachable { .. }) => error,
            Err(error) => return Err(error),
        };
        if cache.partial_bytes() > before {
            last_progress = Instant::now();
            wait = FIRST_WAIT;
        }
        if last_progress.elapsed() + wait > source.patience {
            return Err(error);
        }
        tracing::warn!(%error, retry_in_ms = wait.as_millis() as u64, "the model could not be downloaded");
        report(format!("{error}; trying again"));
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

fn read_token(path: &std::path::Path) -> Result<String, PullError> {
    std::fs::read_to_string(path)
        .map(|token| token.trim().to_owned())
        .map_err(|e| PullError::Configuration(format!("cannot read the model token {}: {e}", path.display())))
}
