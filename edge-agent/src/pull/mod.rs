//! A model on this node: downloaded once, checked always.
//!
//! The cache is a folder of `<sha256>.gguf`, so that a name cannot lie: the digest is checked before a file gets its
//! name and again on every later use. A lock file makes one download of several pods on a node; a download that broke
//! off goes on where it stopped, if the source still has the same file; models that nobody uses make room for others.

mod address;
mod answer;
mod cache;
mod client;
mod conduct;
mod digest;
mod download;
mod error;
mod local;
mod pace;
mod patience;
mod place;
mod progress;
mod room;
mod spare;

use std::fs::File;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

pub use digest::{is_digest, sha256};
pub use error::{Bound, PullError};
pub use local::local;
pub use progress::Progress;
pub use spare::Spare;

use cache::Found;
use download::Download;

/// How long a connection, an answer's head or the next bytes may take.
pub const STALL: Duration = Duration::from_secs(20);

/// Downloads in several pieces whose digest was wrong, before that is the answer: the file may have changed in between.
const MIXED: u32 = 3;

/// Where a model comes from and where it is kept.
#[derive(Debug, Clone)]
pub struct Source {
    /// `http://` or `https://`.
    pub url: String,
    /// SHA-256 in lower-case hex.
    pub sha256: String,
    /// Where `<sha256>.gguf` is kept.
    pub cache_dir: PathBuf,
    /// Bytes that the models of that folder may take together; none: what its disk has room for.
    pub cache_limit: Option<u64>,
    /// What stays free on that folder's disk.
    pub spare: Spare,
    /// A file with a bearer token, read at each attempt.
    pub token_file: Option<PathBuf>,
    /// Certificates that are trusted beside the public ones.
    pub ca_file: Option<PathBuf>,
    /// Bytes a second that a download reads at most; none: as fast as they come.
    pub bytes_per_second: Option<NonZeroU64>,
    /// How long the source may be silent before the connection is given up: [`STALL`].
    pub stall: Duration,
    /// How long a source may be unreachable, bring less than 1 KiB a second, or bring only what came before, before that is
    /// the answer. The orchestrator then starts this program again, and its condition says why.
    pub patience: Duration,
}

impl Source {
    /// How long one thing may take: who waits for less in all does not wait for so long at once. Without any patience
    /// there is one attempt, as long as it goes on.
    fn stall(&self) -> Duration {
        if self.patience.is_zero() { self.stall } else { self.stall.min(self.patience) }
    }
}

/// A model's file, its digest checked. As long as this lives, no pod of this node evicts it.
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    sha256: String,
    /// Holds a shared lock.
    _in_use: File,
}

impl Model {
    /// The file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Its SHA-256 in lower-case hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// The model from the cache, downloaded into it if it is not there. `observe` is told before each step.
///
/// # Errors
/// [`PullError`]; only [`PullError::Unreachable`] is worth another try, and had several. After [`PullError::NoSpace`]
/// nothing of the download is left on the disk.
pub async fn fetch(source: &Source, observe: impl Fn(Progress)) -> Result<Model, PullError> {
    let place = cache::open(&source.cache_dir, &source.sha256)?;
    if let Found::Whole(model) = cache::look(&place).await? {
        return Ok(model);
    }
    let mut download = Download::new(source, &place, &observe)?;
    let _lock = cache::lock(&place, || observe(Progress::Waiting)).await?;
    match cache::look(&place).await? {
        // Whoever had the lock has brought it.
        Found::Whole(model) => return Ok(model),
        Found::Damaged => cache::remove(&place)?,
        Found::Nothing => {}
    }
    let mut mixed = 0;
    loop {
        if let Err(error) = download.run().await {
            if matches!(error, PullError::NoSpace { .. })
                && let Err(left) = place.discard_partial()
            {
                tracing::warn!(error = %left, path = %place.partial().display(), "what came of the model cannot be removed");
            }
            return Err(error);
        }
        match cache::commit(&place, &download.name(), &observe).await {
            // Parts may be of two versions of the file: only a download in one piece proves the source wrong.
            Err(PullError::DigestMismatch { .. }) if !download.one_piece() && mixed < MIXED => mixed += 1,
            result => return result,
        }
    }
}

impl Source {
    fn token(&self) -> Result<Option<String>, PullError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let read = std::fs::read_to_string(path).map(|token| Some(token.trim().to_owned()));
        read.map_err(|e| PullError::Configuration(format!("cannot read the model token {}: {e}", path.display())))
    }
}
