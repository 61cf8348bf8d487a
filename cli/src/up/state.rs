//! Where a running `terrace up` can be found by the other commands of the same user.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What a running `terrace up` tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its process.
    pub pid: u32,
    /// Base URL of its first router.
    pub url: String,
    /// Folder of its spans; empty when they go to a collector.
    pub traces: PathBuf,
}

/// The user's cache folder of Terrace: `$XDG_CACHE_HOME/terrace`, else `~/.cache/terrace`.
pub fn cache_folder() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".cache");
    base.unwrap_or_else(home).join("terrace")
}

impl State {
    fn path() -> PathBuf {
        cache_folder().join("up.json")
    }

    /// The running one, if its process still lives.
    pub fn read() -> Option<State> {
        let state: State = serde_json::from_slice(&std::fs::read(Self::path()).ok()?).ok()?;
        Path::new(&format!("/proc/{}", state.pid)).exists().then_some(state)
    }

    /// Makes this one known; taken back when the guard goes.
    ///
    /// # Errors
    /// The cache folder cannot be written.
    pub fn publish(self) -> Result<Published> {
        let path = Self::path();
        std::fs::create_dir_all(cache_folder()).with_context(|| format!("cannot make {}", cache_folder().display()))?;
        let temporary = path.with_extension(format!("{}", self.pid));
        std::fs::write(&temporary, serde_json::to_vec(&self)?)
            .and_then(|()| std::fs::rename(&temporary, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Published { pid: self.pid })
    }
}

/// Takes the state back when it goes.
#[derive(Debug)]
pub struct Published {
    pid: u32,
}

impl Drop for Published {
    fn drop(&mut self) {
        if State::read().is_some_and(|s| s.pid == self.pid) {
            let _ = std::fs::remove_file(State::path());
        }
    }
}
