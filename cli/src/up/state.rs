//! Where a running `terrace up` can be found by the other commands of the same user.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What a running `terrace up` tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its process.
    pub pid: u32,
    /// When it began to serve.
    pub since_us: u64,
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
    /// Each has its own record in here, so that several may run and none takes another's back.
    fn folder() -> PathBuf {
        cache_folder().join("up")
    }

    /// The running one; of several, the one that serves the shortest.
    pub fn read() -> Option<State> {
        latest(&Self::folder())
    }

    /// Makes this one known; taken back when the guard goes.
    ///
    /// # Errors
    /// The cache folder cannot be written.
    pub fn publish(&self) -> Result<Published> {
        publish(self, &Self::folder())
    }
}

/// The record of the latest of those whose process still lives.
fn latest(folder: &Path) -> Option<State> {
    let read = |path: PathBuf| serde_json::from_slice::<State>(&std::fs::read(path).ok()?).ok();
    let all = std::fs::read_dir(folder).ok()?.flatten().filter_map(|file| read(file.path()));
    all.filter(|state| lives(state.pid)).max_by_key(|state| state.since_us)
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn publish(state: &State, folder: &Path) -> Result<Published> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // What was killed could not take its record back.
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let pid = file.path().file_stem().and_then(|name| name.to_str()?.parse().ok());
        if pid.is_some_and(|pid| !lives(pid)) {
            let _ = std::fs::remove_file(file.path());
        }
    }
    let path = folder.join(format!("{}.json", state.pid));
    super::folder::write(&path, &serde_json::to_vec(state)?)?;
    Ok(Published { path })
}

/// Takes the record back when it goes.
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
}

impl Drop for Published {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_one_up_leaves_the_others_known() {
        let folder = tempfile::tempdir().unwrap();
        let state = |pid, since_us| State { pid, since_us, url: format!("http://{pid}"), traces: PathBuf::new() };
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        let first = publish(&state(parent, 1), folder.path()).unwrap();
        std::fs::write(folder.path().join("4194305.json"), serde_json::to_vec(&state(4_194_305, 9)).unwrap()).unwrap();
        assert_eq!(latest(folder.path()).unwrap().pid, parent, "a killed one is not known");
        let second = publish(&state(own, 2), folder.path()).unwrap();
        assert!(!folder.path().join("4194305.json").exists());
        assert_eq!(latest(folder.path()).unwrap().pid, own);
        drop(second);
        assert_eq!(latest(folder.path()).unwrap().pid, parent);
        drop(first);
        assert_eq!(latest(folder.path()), None);
    }
}
